"""The map of clients and the scores of layers, on numbers that can be checked by hand."""

import numpy as np
import pandas as pd
import pytest

from app.charts import client_map, cluster_raster, layer_habits, layer_scores

NAN = np.nan
ARRAYS = {
    "rounds": np.array([0, 4, 8]),
    "clients": np.array(
        [
            [[0, 0], [0, 0], [0, 0], [0, 0]],
            [[1, 0], [3, 0], [-1, 0], [-3, 0]],
            [[4, 3], [4, 5], [-4, 3], [-4, 5]],
        ],
        np.float32,
    ),
    "shared": np.array([[[0, 0]] * 4, [[2, 0], [2, 0], [-2, 0], [-2, 0]], [[4, 4], [4, 4], [-4, 4], [-4, 4]]], float),
    "start": np.array([0, 0], np.float32),
    "shown": np.array([1.0, 0.5, 0.75]),
    "explained": np.array([0.6, 0.15]),
}
CELLS = cluster_raster.data(np.arange(1, 9), np.tile([0, 0, 1, 1], (8, 1)))
SCORES = np.array(
    [[[0.5, 0.5], [NAN, NAN]], [[0.2, 0.8], [0.9, 0.1]]]
)  # [R, N, L]; client 1 did not participate in the first round
PERSONAL = np.array([[[1, 0], [NAN, NAN]], [[0, 1], [1, 0]]])


def test_clients_have_the_letter_of_the_round_and_their_true_context() -> None:
    table = client_map.data(ARRAYS, CELLS, [0, 1, 0, 1])
    assert table.query("round == 0")["cluster"].tolist() == [""] * 4
    assert table.query("round == 8")["cluster"].tolist() == ["A", "A", "B", "B"]
    assert table.query("round == 8")[["x", "y"]].to_numpy().tolist() == ARRAYS["clients"][2].tolist()
    assert table["context"].tolist() == ["0", "1", "0", "1"] * 3
    assert set(client_map.data(ARRAYS)["cluster"]) == {""}


def test_there_is_one_shared_model_per_cluster_or_for_all() -> None:
    centers = client_map.shared(ARRAYS, client_map.data(ARRAYS, CELLS))
    assert centers.query("round == 8").to_numpy().tolist() == [[8, "A", 4, 4, 2], [8, "B", -4, 4, 2]]
    assert len(centers.query("round == 0")) == 1
    one = client_map.shared(ARRAYS | {"shared": ARRAYS["shared"][:, :1]}, client_map.data(ARRAYS, CELLS))
    assert one[["round", "cluster", "x", "clients"]].to_numpy().tolist() == [
        [0, "", 0, 4],
        [4, "", 2, 4],
        [8, "", 4, 4],
    ]
    without = {name: array for name, array in ARRAYS.items() if name != "shared"}
    assert client_map.shared(without, client_map.data(ARRAYS, CELLS)).empty


def test_the_finding_distinguishes_near_and_far() -> None:
    table = client_map.data(ARRAYS, CELLS)
    assert client_map.finding(table, ARRAYS, by="cluster", at=8) == (
        "In round 8 clients are 1 from the mean of their cluster on average, and these means 8 from one another; "
        "the plane shows 75 % of the differences between clients."
    )
    assert client_map.finding(table, ARRAYS, by="cluster", at=1).startswith("In round 0 clients are 0 from their mean")
    attacked = client_map.data(ARRAYS, CELLS, malicious=[0, 2, 3])
    assert client_map.finding(attacked, ARRAYS, by="cluster", at=8).startswith(
        "In round 8 benign clients are 0 from their mean on average"
    )


@pytest.mark.parametrize("trails", [False, True])
def test_every_round_is_a_frame_and_the_pages_round_is_first(trails: bool) -> None:
    table = client_map.data(ARRAYS, CELLS)
    centers = client_map.shared(ARRAYS, table)
    fig = client_map.figure(table, centers, ARRAYS, by="cluster", at=5, trails=trails)
    assert [frame.name for frame in fig.frames] == ["0", "4", "8"]
    assert {len(frame.data) for frame in fig.frames} == {len(fig.data)} == {6}
    assert fig.layout.sliders[0].active == 1
    assert np.asarray(fig.data[1].x).tolist() == [1, 3] and np.asarray(fig.data[2].x).tolist() == [-1, -3]
    assert fig.data[1].marker.symbol != fig.data[2].marker.symbol
    assert [button.label for button in fig.layout.updatemenus[0].buttons] == ["Play", "Pause"]
    assert (len(np.asarray(fig.data[0].x)) > 0) is trails


def test_clients_without_a_cluster_yet_have_a_trace_of_their_own() -> None:
    def names(table: pd.DataFrame, by: str = "cluster") -> list[tuple[str, int]]:
        frame = client_map.figure(table, client_map.shared(ARRAYS, table), ARRAYS, by=by, at=0, trails=False).frames[0]
        return [(trace.name, len(trace.x)) for trace in frame.data[1:-2]]

    table = client_map.data(ARRAYS, CELLS, [0, 1, 0, 1])
    assert names(table) == [("cluster A", 0), ("cluster B", 0), ("no cluster yet", 4)]
    assert names(table, "context") == [("true context 0", 2), ("true context 1", 2)]
    assert names(client_map.data(ARRAYS)) == [("clients", 4)]


def test_frames_change_without_transitions() -> None:
    table = client_map.data(ARRAYS, CELLS)
    fig = client_map.figure(table, client_map.shared(ARRAYS, table), ARRAYS, by="cluster", at=8, trails=False)
    assert all(button.args[1]["transition"]["duration"] == 0 for button in fig.layout.updatemenus[0].buttons)


def test_each_client_has_a_trail_up_to_the_round() -> None:
    table = client_map.data(ARRAYS, CELLS)
    fig = client_map.figure(table, client_map.shared(ARRAYS, table), ARRAYS, by="cluster", at=4, trails=True)
    assert np.asarray(fig.data[0].x)[:6].tolist() == pytest.approx([0, 1, NAN, 0, 3, NAN], nan_ok=True)


def test_absent_clients_have_their_last_scores_or_none() -> None:
    first = layer_scores.data(np.array([1, 2]), SCORES, 1, ["a", "b"], PERSONAL)
    assert first[["client", "name", "score", "personal"]].to_numpy().tolist() == [
        [0, "a", 0.5, True],
        [0, "b", 0.5, False],
    ]
    later = layer_scores.data(np.array([1, 3]), SCORES[::-1], 3, ["a", "b"])
    assert later.groupby("client")["round"].first().tolist() == [3, 1]
    assert not later["personal"].any()


def test_the_finding_names_the_layer_that_is_personal_most_often() -> None:
    table = layer_scores.data(np.array([1, 2]), SCORES, 2, ["a", "b"], PERSONAL)
    assert layer_scores.finding(table) == (
        "Over 2 clients the mean score is highest in a (0.55); a is personal most often, for 1 of 2."
    )
    bare = layer_scores.data(np.array([1, 2]), SCORES, 2, ["a", "b"])
    assert layer_scores.finding(bare) == "Over 2 clients the mean score is highest in a (0.55)."


def test_personal_layers_are_outlined_and_marked() -> None:
    fig = layer_scores.figure(layer_scores.data(np.array([1, 2]), SCORES, 2, ["a", "b"], PERSONAL))
    heat, outline, mark = fig.data
    np.testing.assert_allclose(heat.z, [[0.2, 0.8], [0.9, 0.1]], rtol=1e-6)
    assert np.isnan(np.asarray(outline.x)).sum() == len(mark.x) == 2
    assert np.asarray(mark.y).tolist() == [0, 1]
    assert "client 0, b: score 0.800, personal (round 2)" in np.asarray(heat.customdata).ravel().tolist()


def test_mean_scores_are_over_participants() -> None:
    table = layer_habits.data(np.array([1, 2]), SCORES, ["a", "b"])
    assert table["score"].tolist() == pytest.approx([0.5, 0.5, 0.55, 0.45])
    assert layer_habits.finding(table) == (
        "a has the highest mean score in the last round, 0.55; in round 1 it was 0.50."
    )
    assert [trace.name for trace in layer_habits.figure(table, 2).data] == ["a", "b"]


def test_a_round_without_participants_has_no_mean() -> None:
    assert layer_habits.data(np.array([1]), np.full((1, 2, 2), NAN), ["a", "b"]).empty


def test_the_share_of_personal_layers_is_over_participations() -> None:
    often = layer_habits.how_often(PERSONAL, ["a", "b"])
    assert often[["times", "of"]].to_numpy().tolist() == [[2, 3], [1, 3]]
    assert layer_habits.often_finding(often) == "a was personal in 66.7 % of 3 participations."
    never = pd.DataFrame({"name": ["a", "b"], "times": [3, 0], "of": 3, "share": [1.0, 0.0]})
    assert layer_habits.often_finding(never).endswith("participations; b never.")
    assert list(layer_habits.bars(often).data[0].text) == ["66.7 %", "33.3 %"]
