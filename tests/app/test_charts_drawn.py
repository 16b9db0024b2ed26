"""Each chart of Compare, drawn once: its marks match its table."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.charts import (
    cluster_count,
    cluster_raster,
    communication,
    cost,
    curves_over_seeds,
    differences,
    dumbbell,
    ecdf,
    error_over_R,
    histogram,
    paired,
    sweep,
    tradeoff,
)
from app.charts.plot.line_labels import spread_apart
from app.charts.plot.method_styles import looks
from app.data.comparison import per_run
from tests.app.frames import clients, series

TWO = clients(1000, a=[[0.5, 0.9, 0.7], [0.6, 0.8, 0.7]], b=[[0.6, 0.7, 0.7], [0.6, 0.9, 0.4]])


def test_a_dumbbell_prints_numbers_and_marks_the_other_model() -> None:
    fig = dumbbell.figure(dumbbell.data(TWO, 0.05, other=TWO), 0.05, "global")
    lines, tails, means, hairlines, rings = fig.data
    assert tails.text == ("<b>55.0</b>", "<b>50.0</b>", "85.0", "80.0") and means.text == ("70.0", "65.0")
    assert list(rings.y) == [0, 1] and hairlines.x[:2] == (rings.x[0], means.x[0])
    assert (lines.base + lines.x).tolist() == pytest.approx(tails.x[2:]) and lines.base.tolist() == list(tails.x[:2])
    assert ["global model" in text for text in rings.hovertext] == [True, True]


def test_with_few_test_samples_a_dumbbell_prints_whole_percents() -> None:
    rows = dumbbell.data(clients(22, a=[[20 / 22, 18 / 22] * 10]), 0.05)
    _, tails, means = dumbbell.figure(rows).data
    assert tails.text == ("<b>82</b>", "91") and means.text == ("86.4",)
    assert tails.hovertext[0].startswith("a: lowest 5 % 82 %<br>")


def test_a_dumbbell_names_the_leader_if_it_is_significant() -> None:
    few, clear = clients(1000, a=[[0.5, 0.9]], b=[[0.4, 0.6]]), clients(1000, a=[[0.5, 0.9]] * 3, b=[[0.4, 0.6]] * 3)
    near = clients(1000, a=[[0.5, 0.9], [0.5, 0.9], [0.4, 0.6]], b=[[0.4, 0.6], [0.4, 0.6], [0.5, 0.9]])
    assert dumbbell.finding(dumbbell.data(few, 0.05)) == (
        "Highest mean: a with 70.00 %; 1 seed is too few to distinguish methods."
    )
    assert dumbbell.finding(dumbbell.data(clear, 0.05)) == "Highest mean: a with 70.00 %."
    assert dumbbell.finding(dumbbell.data(near, 0.05)) == "Highest mean: a with 63.33 %; b may be as good."
    spread = dumbbell.data(clear, 0.05, "spread")
    of_splits = dumbbell.finding(dumbbell.data(few.assign(seed=7), 0.05))
    assert of_splits.endswith("; 1 split is too few to distinguish methods.")
    assert dumbbell.finding(spread, "spread") == "Smallest gap between the two tails: b with 20.0 points."
    assert dumbbell.finding(spread, "spread", is_ranked=False) == (
        "Gap between the two tails: b 20.0 points to a 40.0 points."
    )


def test_a_dumbbell_names_hovered_clients_and_styles_each_method() -> None:
    lines, tails, means = dumbbell.figure(dumbbell.data(TWO, 0.05)).data
    look = looks(TWO)
    assert list(lines.marker.color) == [look[method].color for method in "ab"]
    assert list(means.marker.symbol) == [look[method].symbol for method in "ab"]
    assert list(means.customdata) == list(tails.customdata[:2]) == list(tails.customdata[2:]) == ["a", "b"]
    assert [text[:10] for text in tails.hovertext] == ["a: lowest ", "b: lowest ", "a: top 5 %", "b: top 5 %"]
    assert [text[:7] for text in means.hovertext] == ["a: mean", "b: mean"]


def test_the_ecdf_names_the_hovered_client() -> None:
    fig = ecdf.figure(ecdf.data(TWO))
    assert [trace.name for trace in fig.data] == ["a", "b"]
    assert fig.data[0].customdata[1].tolist() == [0, 0, 1]  # client, seed, run
    assert fig.data[0].hovertemplate.startswith("a: %{text}; ")
    assert fig.data[0].text[1].startswith("client 0, seed 0<br>")
    assert all(isinstance(trace, go.Scatter) for trace in fig.data)


def test_the_ecdf_names_the_split_where_data_have_seeds_of_their_own() -> None:
    steps = ecdf.data(TWO.assign(seed=7))
    curve, marks, *_ = ecdf.figure(steps, method="a", chosen=(0,)).data[-2:]
    named = {text.partition("<br>")[0] for text in curve.text}
    assert {"client 0, split 0, seed 7", "client 0, split 1, seed 7"} <= named
    assert marks.hovertext[0].startswith("a: client 0, split ")
    assert "split" not in ecdf.data(TWO) and "split" not in ecdf.data(TWO.drop(columns="split"))


def test_the_ecdf_counts_clients_once_over_seeds() -> None:
    three = ecdf.data(clients(a=[[0.5] * 20] * 3, b=[[0.5] * 20] * 3))
    assert ecdf.finding(three, ["a", "b"]) == (
        "Distribution of the accuracy of 20 clients in each of 3 runs under a and b"
    )
    one = ecdf.data(clients(a=[[0.5] * 20]))
    assert "of 20 clients under a" in ecdf.finding(one, ["a"])
    assert "of 20 benign clients under a" in ecdf.finding(one, ["a"], are_benign=True)


def test_the_ecdf_marks_a_client_at_its_accuracy() -> None:
    fig = ecdf.figure(ecdf.data(TWO))
    ecdf.mark(fig, 0.25, "client 3")
    assert fig.layout.shapes[-1].x0 == 25 and fig.layout.annotations[-1].text == "client 3"


@pytest.mark.slow
def test_the_ecdf_draws_at_most_twelve_methods() -> None:
    many = clients(**{f"m{i}": [[0.5]] for i in range(20)})
    assert len(ecdf.figure(ecdf.data(many)).data) == ecdf.MAX_LINES


def test_all_rows_of_a_histogram_share_a_scale() -> None:
    fig = histogram.figure(histogram.data(clients(full=[[0.92, 0.93]], spread=[[0.72, 0.93]])))
    assert list(fig.layout.yaxis.ticktext) == ["full", "spread"]
    assert max(fig.data[0].y) == pytest.approx(2 * max(fig.data[1].y))
    assert (fig.data[1].base, list(fig.layout.xaxis.range)) == (-1, [70, 95])


def test_many_methods_are_drawn_closer_with_means_at_the_right() -> None:
    many = dumbbell.figure(dumbbell.data(clients(**{f"m{i}": [[0.5, 0.6]] for i in range(31)}), 0.05))
    few = dumbbell.figure(dumbbell.data(TWO, 0.05))
    assert many.layout.height < 31 * 30 + 120 and len(many.layout.annotations) == 31 and not few.layout.annotations


def test_labels_of_the_front_have_priority() -> None:
    runs = per_run(clients(**{f"m{i}": [[0.5 + i / 100]] for i in range(20)}), 0.05)
    runs = runs.assign(megabytes=[float(i == 0) + 1 for i in range(20)], gradient_evaluations=1.0, seconds=1.0)
    named = [note.text for note in cost.figure(cost.data(runs, "megabytes"), "megabytes").layout.annotations]
    assert len(named) == cost.MAX_NAMED and named[0] == "m19"


def test_the_error_over_R_marks_the_minimum_and_has_integer_ticks() -> None:
    rows = pd.DataFrame(
        {"method": ["a", "b"] * 2, "algorithm": ["a", "b"] * 2, "R": [0, 0, 3, 3], "error": [0.2, 0.5, 9, 3]}
    ).assign(split=0, seed=0)
    fig = error_over_R.figure(error_over_R.data(rows), "error")
    assert [list(trace.marker.symbol).index("star") for trace in fig.data] == [0, 1]
    assert list(fig.layout.yaxis.ticktext) == ["0.2", "0.5", "1", "2", "5"]


def test_an_error_of_zero_has_a_linear_axis() -> None:
    rows = pd.DataFrame({"method": ["a", "b"], "algorithm": ["a", "b"], "R": [0, 0], "error": [0.0, 30.0]})
    points = error_over_R.data(rows.assign(split=0, seed=0))
    axis = error_over_R.figure(points, "squared error, log scale").layout.yaxis
    assert (axis.type, axis.title.text) == (None, "squared error")
    positive = error_over_R.figure(points.assign(error=[1.0, 30.0]), "squared error, log scale").layout.yaxis
    assert (positive.type, positive.title.text) == ("log", "squared error, log scale")


def test_effort_has_logarithmic_axes_unless_a_cost_is_zero() -> None:
    rows = pd.DataFrame(
        {
            "method": ["a", "b"],
            "algorithm": "a",
            "path": ["x", "y"],
            "seeds": 1,
            "seeds_run": [1, 2],
            "is_complete": [True, False],
            "unit": "seed",
            "rounds": [10, 20.0],
            "megabytes": [0, 5.0],
            "gradient_evaluations": [100, 50.0],
        }
    )
    assert communication.figure(rows, "rounds", "90 %").layout.yaxis.type == "log"
    assert communication.figure(rows, "megabytes", "90 %").layout.yaxis.type is None
    marks = [trace for trace in communication.figure(rows, "rounds", "90 %").data if trace.mode == "markers"]
    assert [trace.marker.symbol[0].endswith("-open") for trace in marks] == [False, True]
    assert [list(trace.customdata) for trace in marks] == [["1 of 1 seed"], ["1 of 2 seeds"]]


def test_only_few_methods_have_bands() -> None:
    def bands(count: int) -> int:
        parts = [series(f"m{i}", s, mean=[0.1, 0.5 + s / 10], lowest5=[0, 0.1]) for i in range(count) for s in (0, 1)]
        return sum(
            trace.fill == "toself" for trace in curves_over_seeds.figure(curves_over_seeds.data(pd.concat(parts))).data
        )

    assert (bands(3), bands(4)) == (3, 0)


def test_clients_at_one_point_are_a_larger_mark() -> None:
    pairs = paired.data(clients(a=[[0.9, 0.9, 0.9, 0.8]], b=[[0.5, 0.5, 0.5, 0.5]]), "a", "b")
    above = next(t for t in paired.figure(pairs, "a", "b", TWO).data if t.marker.symbol == "triangle-up")
    assert len(above.x) == 2 and max(above.marker.size) > min(above.marker.size)


def test_the_finding_counts_gains_and_losses() -> None:
    fig = differences.figure(differences.data(TWO.assign(split=0), "a", "b"), "a", "b", TWO)
    assert {"▲ 2 better with a", "▼ 1 better with b"} <= {note.text for note in fig.layout.annotations}


def test_the_raster_labels_cluster_changes_and_final_groups() -> None:
    fig = cluster_raster.figure(cluster_raster.data(np.arange(3), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 1]])))
    assert np.asarray(fig.data[0].text).tolist() == [["A", "", ""], ["", "", ""], ["", "B", ""]]
    assert {"<b>A</b> · 2", "<b>B</b> · 1"} <= {note.text for note in fig.layout.annotations}
    assert list(fig.data[1].y) == [0, 1, 0]


def test_a_large_raster_keeps_clients_of_every_cluster() -> None:
    labels = np.repeat(np.arange(4), 150)[None].repeat(2, axis=0)
    drawn = np.asarray(cluster_raster.figure(cluster_raster.data(np.arange(2), labels)).data[0].z)
    assert drawn.shape[0] == cluster_raster.MAX_CLIENTS and set(drawn[:, -1]) == {0, 1, 2, 3}


def test_a_large_raster_counts_the_clients_and_moves_that_it_does_not_draw() -> None:
    labels = np.repeat([0, 1], [250, 150])[None].repeat(2, axis=0)
    fig = cluster_raster.figure(cluster_raster.data(np.arange(2), labels))
    assert [note.text for note in fig.layout.annotations] == ["<b>A</b> · 250", "<b>B</b> · 150"]
    long = np.tile([0, 0, 1], (2 * cluster_raster.MAX_ROUNDS, 1))
    drawn = set(cluster_raster.figure(cluster_raster.data(np.arange(len(long)), long)).data[1].x)
    hidden = next(at for at in range(100, len(long)) if at not in drawn)
    long[hidden:, 0] = 1
    moves = cluster_raster.figure(cluster_raster.data(np.arange(len(long)), long)).data[1]
    at = list(moves.x).index(hidden + 1)
    assert sum(moves.y) == moves.y[at] == 1
    assert (moves.customdata[0], moves.customdata[at]) == ("round 0", f"rounds {hidden} to {hidden + 1}")


def test_a_wide_sweep_has_a_logarithmic_axis_and_a_star() -> None:
    runs = per_run(clients(x=[[0.5]], y=[[0.8]], z=[[0.6]]), 0.05).assign(
        algorithm="ditto", options=[{"lam": lam} for lam in (0.01, 0.1, 1)]
    )
    fig = sweep.figure(sweep.data(runs, "lam"), "λ")
    assert fig.layout.xaxis.type == "log"
    assert list(fig.data[0].marker.symbol) == ["circle", "star", "circle"]


def test_on_a_phone_the_number_of_the_lowest_tail_does_not_reach_the_name_of_its_method() -> None:
    plot, number = 155, 4 + 4 + 29  # pixels: a dense plot; half a mark, the gap, and 24.3 in bold
    fig = dumbbell.figure(dumbbell.data(clients(**{f"m{i}": [[0.2, 0.6 + i / 100]] for i in range(20)}), 0.05))
    low, high = fig.layout.xaxis.range
    beside = (20 - low) / (high - low) * plot
    assert beside < number < beside + fig.layout.yaxis.ticklabelstandoff


def test_the_cost_chart_labels_every_point() -> None:
    runs = per_run(TWO, 0.05).assign(megabytes=1.0, gradient_evaluations=1.0, seconds=1.0)
    fig = cost.figure(cost.data(runs, "megabytes"), "megabytes")
    assert {note.text for note in fig.layout.annotations} == {"a", "b"}
    assert (list(fig.data[1].text), list(fig.data[1].y)) == (["a", "b"], pytest.approx([70, 65]))


@pytest.mark.parametrize("megabytes", [0.0, 3.0, np.nan])
def test_the_cost_chart_has_room_for_whiskers_at_zero(megabytes: float) -> None:
    runs = per_run(TWO, 0.05).assign(megabytes=megabytes, gradient_evaluations=1.0, seconds=1.0)
    low, high = cost.figure(cost.data(runs, "megabytes"), "megabytes").layout.xaxis.range
    assert low < 0 < np.nan_to_num(megabytes) + 0.01 < high


def test_the_plane_connects_settings_of_a_method_sized_by_cost() -> None:
    runs = per_run(clients(x=[[0.5]], y=[[0.8]]), 0.05).assign(
        everywhere=[0.7, 0.3], megabytes=[1.0, 4.0], algorithm="ditto", options=[{"lam": 2}, {"lam": 1}]
    )
    fig = tradeoff.figure(tradeoff.data(runs, "megabytes", "lam"), "megabytes")
    assert list(fig.data[1].text) == ["y", "x"]
    assert list(fig.data[1].marker.size) == [
        tradeoff.MAX_SIZE,
        pytest.approx((tradeoff.MIN_SIZE + tradeoff.MAX_SIZE) / 2),
    ]


def test_a_setting_of_unknown_cost_is_as_small_as_a_free_one() -> None:
    runs = per_run(clients(x=[[0.5]], y=[[0.8]]), 0.05).assign(
        everywhere=[0.7, 0.3], megabytes=[np.nan, 4.0], algorithm="ditto", options=[{"lam": 1}, {"lam": 2}]
    )
    fig = tradeoff.figure(tradeoff.data(runs, "megabytes", "lam"), "megabytes")
    assert list(fig.data[1].marker.size) == [tradeoff.MIN_SIZE, tradeoff.MAX_SIZE]


def test_the_chosen_number_of_clusters_is_starred() -> None:
    fig = cluster_count.figure(cluster_count.data(np.array([1.0, 2.0]), np.array([3.0, 0.0]), 1.0))
    assert list(fig.data[2].marker.symbol) == ["circle", "star"]


def test_overlapping_labels_are_separated_in_order() -> None:
    assert spread_apart([1.0, 1.0, 5.0], gap=1.0) == pytest.approx([0.5, 1.5, 5.0])
    assert spread_apart([3.0, 1.0], gap=1.0) == [3.0, 1.0]
    assert spread_apart([9.0, 8.5], gap=1.0, ceiling=9.0) == [9.0, 8.0]


def test_settings_of_one_method_differ_in_shade_and_dash() -> None:
    found = looks(
        pd.DataFrame({"method": ["Ditto λ=1", "Ditto λ=2", "FedAvg"], "algorithm": ["ditto", "ditto", "fedavg"]})
    )
    backwards = looks(pd.DataFrame({"method": ["Ditto λ=2", "Ditto λ=1"], "algorithm": "ditto"}))
    one, two = found["Ditto λ=1"], found["Ditto λ=2"]
    assert one.color != two.color and one.dash != two.dash
    assert backwards == {"Ditto λ=1": one, "Ditto λ=2": two}


def test_decimals_of_curves_and_costs_depend_on_the_samples() -> None:
    lines = curves_over_seeds.data(series("a", 0, mean=[0.5, 0.6], lowest5=[0.1, 0.2]))
    found = curves_over_seeds.figure(lines.assign(samples=440, tail_samples=22)).data
    assert [trace.hovertemplate.partition("%{y")[2][:4] for trace in found[:2]] == [":.1f", ":.0f"]
    runs = per_run(clients(22, a=[[20 / 22] * 20]), 0.05).assign(megabytes=1.0, gradient_evaluations=1.0, seconds=1.0)
    marks = cost.figure(cost.data(runs, "megabytes"), "megabytes").data[1]
    assert list(marks.customdata) == ["90.9 %"]
