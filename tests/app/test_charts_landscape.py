"""Charts of landscapes, planes, sharpness and features match their findings."""

import numpy as np
import pytest

from app.charts import feature_map, model_plane, sharpness, surface

AXIS = np.linspace(-1, 1, 5)
BOWL = 0.5 + AXIS[:, None] ** 2 + AXIS[None] ** 2


def bowls():
    return surface.data(AXIS, {"wide": BOWL, "steep": 0.1 + 10 * (BOWL - 0.5)})


def test_a_surface_has_a_row_per_point_with_v_upwards() -> None:
    tilted = np.arange(25.0).reshape(5, 5)
    df = surface.data(AXIS, {"one": tilted})
    assert df.loc[(df["a"] == 1) & (df["b"] == -1), "loss"].item() == tilted[0, 4]
    np.testing.assert_array_equal(surface.figure(df, tilted).data[0].customdata, tilted)


def test_the_rise_is_measured_halfway_to_the_edge() -> None:
    found = surface.rises(bowls()).set_index("surface")
    ring = [x**2 + y**2 for x in AXIS for y in AXIS if abs(np.hypot(x, y) - 0.5) <= 0.25]
    assert found.loc["wide", "center"] == 0.5 and found.loc["wide", "rise"] == pytest.approx(np.mean(ring))
    assert found.loc["steep", "rise"] == pytest.approx(10 * np.mean(ring)) and found.loc["wide", "distance"] == 0.5
    assert "(wide: from 0.5)" in surface.finding(bowls())


def test_both_panels_share_a_color_scale_of_losses() -> None:
    df = bowls()
    figures = [surface.figure(own, df["loss"].to_numpy()) for _, own in df.groupby("surface")]
    panels, axis = [fig.data[0] for fig in figures], figures[0].layout.coloraxis
    assert axis == figures[1].layout.coloraxis and {trace.coloraxis for trace in panels} == {"coloraxis"}
    assert (axis.cmin, axis.cmax) == (pytest.approx(np.log10(0.1)), pytest.approx(np.log10(20.1)))
    np.testing.assert_allclose(10 ** np.array(axis.colorbar.tickvals), [float(t) for t in axis.colorbar.ticktext])
    assert {trace.contours.size for trace in panels} == {panels[0].contours.size} != {None}


def test_non_finite_losses_are_left_out() -> None:
    broken = BOWL.copy()
    broken[0, 0], broken[4, 4] = np.inf, np.nan
    df = surface.data(AXIS, {"one": broken})
    assert df["loss"].isna().sum() == 2
    fig = surface.figure(df, df["loss"].to_numpy())
    assert np.isnan(fig.data[0].z[0, 0]) and np.isfinite([fig.layout.coloraxis.cmin, fig.layout.coloraxis.cmax]).all()
    nothing = surface.data(AXIS, {"one": BOWL * np.nan})
    assert surface.figure(nothing, nothing["loss"].to_numpy()).data


def test_both_3d_surfaces_share_an_axis() -> None:
    fig = surface.hills(bowls())
    assert [trace.type for trace in fig.data] == ["surface", "surface"]
    assert fig.layout.scene.zaxis.range == fig.layout.scene2.zaxis.range


def test_models_are_drawn_at_their_points_with_losses() -> None:
    df = model_plane.data(AXIS, AXIS, BOWL)
    marks = model_plane.models(["global", "alone"], np.array([[0.0, 0.0], [0.3, 0.4]]), [0.5, None])
    text = model_plane.finding(marks)
    assert "global 0.5" in text and "0.5 between global and trained alone" in text
    fig = model_plane.figure(df, marks, BOWL)
    assert [(t.x[0], t.y[0]) for t in fig.data[1:]] == [(0, 0), (0.3, 0.4)]
    assert len({t.marker.symbol for t in fig.data[1:]}) == 2 and fig.layout.yaxis.scaleanchor == "x"


def test_the_sharpest_client_is_first_and_the_rank_correlation_reported() -> None:
    nan = np.nan
    df = sharpness.data(np.array([1.0, 4.0, 2.0, nan]), np.ones(4), np.ones(4), np.array([0.9, 0.5, 0.7, 0.8]))
    assert df["client"].tolist() == [1, 2, 0]
    assert "client 1" in sharpness.finding(df) and "−1.00" in sharpness.finding(df)
    attacked = sharpness.data(*df[df.columns[1:5]].to_numpy().T, [22, 22, 22], malicious=[0])
    assert sharpness.finding(attacked) == "Sharpest: client 1, eigenvalue 2, 70 % (2 benign clients)."
    assert list(sharpness.figure(attacked).data[0].marker.symbol) == ["circle-open", "circle", "circle"]
    fig = sharpness.figure(df, client=2)
    assert fig.layout.xaxis.type == "log" and fig.data[1].x[0] == 2
    assert sharpness.figure(df.assign(eigenvalue=[-1, 2, 3])).layout.xaxis.type == "linear"


def test_missing_finite_models_are_reported() -> None:
    df = sharpness.data(*(np.full(3, np.nan) for _ in range(4)))
    assert df.empty and "No client" in sharpness.finding(df) and sharpness.figure(df)


def features():
    label, client = np.array([0, 0, 1, 1, 2]), np.array([5, 6, 5, 7, 6])
    return feature_map.data(np.arange(10.0).reshape(5, 2), label, client, ["bag", "coat"])


def test_features_are_colored_by_class_or_client() -> None:
    df = features()
    assert df["class_name"].tolist() == ["bag", "bag", "coat", "coat", "2"]
    by_class, by_client = feature_map.figure(df), feature_map.figure(df, "client", client=6)
    assert [t.name for t in by_class.data] == ["bag", "coat", "2"]
    assert [t.name for t in by_client.data] == ["client 5", "client 6", "client 7", "client 6"]
    assert by_class.data[0].marker.symbol != by_class.data[1].marker.symbol
    assert by_client.data[0].marker.symbol == ("circle", "square")
    assert by_client.data[3].x.tolist() == [2, 8]


def test_many_groups_are_only_named_on_hover() -> None:
    n = 40
    df = feature_map.data(np.zeros((n, 2)), np.arange(n), np.zeros(n, int), [])
    fig = feature_map.figure(df)
    assert not fig.layout.annotations and not any(t.showlegend for t in fig.data)


def test_the_finding_compares_agreement_with_chance() -> None:
    measures = {
        "class": {"agreement": 0.8, "chance": 0.1, "silhouette": -0.2},
        "client": {"agreement": None, "chance": None, "silhouette": None},
    }
    text = feature_map.finding(measures, 10)
    assert "80.0 % are of the same class (by chance 10.0 %; silhouette −0.20)" in text and "client" not in text
