"""The charts of the Clusters tab, on numbers that can be checked by hand."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from app.charts import (
    cluster_agreement,
    cluster_count,
    cluster_raster,
    cluster_sankey,
    cluster_sizes,
    cluster_splits,
    kmeans_cost,
    model_distance,
    transitions,
)
from engine.config.schema import parse_experiment
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation

ROUNDS = np.array([1, 2, 3])
LABELS = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]])  # client 2 moves from A to B in round 2
CONTEXTS = np.array([0, 0, 1, 1, 1])


def cells() -> pd.DataFrame:
    return cluster_raster.data(ROUNDS, LABELS, CONTEXTS)


def scalars(**values: list[float]) -> pd.DataFrame:
    rows = [
        {"round": at, "name": f"diagnostics.{name}", "value": value}
        for name, own in values.items()
        for at, value in enumerate(own, start=1)
    ]
    return pd.DataFrame(rows)


def test_columns_of_transitions_show_previous_clusters() -> None:
    table = transitions.data(cells(), 1, 2)
    B, A = "A", "B"  # the largest final group is A
    shares = {(row.before, row.after): (row.clients, row.share) for row in table.itertuples()}
    assert shares == {
        (B, B): (2, pytest.approx(2 / 3)),
        (A, B): (1, pytest.approx(1 / 3)),
        (B, A): (0, 0.0),
        (A, A): (2, 1.0),
    }
    assert transitions.finding(table, 1, 2) == (
        "Between rounds 1 and 2, 1 of 5 clients moved; 33 % of A came from elsewhere."
    )
    assert transitions.finding(transitions.data(cells(), 2, 3), 2, 3) == "Between rounds 2 and 3, no client moved."


def test_an_ended_cluster_keeps_its_row_and_has_no_column() -> None:
    left = transitions.data(cluster_raster.data(np.array([1, 2]), np.array([[0, 0, 1], [0, 0, 0]])), 1, 2)
    assert list(left["before"]) == ["A", "B"] and set(left["after"]) == {"A"}
    assert left["share"].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_transitions_of_cgpfl_equal_its_recorded_q() -> None:
    results = cgpfl("cgpfl", participation=0.5, K=3)
    rounds = np.array([r.round for r in results])
    raw = np.stack([r.clusters for r in results])
    grid = cluster_raster.data(rounds, raw)
    assert any(grid["moved"])
    for before, after in pairwise(results):
        table = transitions.data(grid, before.round, after.round)
        letter_of = [_letters(grid, r.round, r.clusters) for r in (before, after)]
        recorded = after.arrays["diagnostics.Q"]
        for row in table.itertuples():
            j, k = letter_of[0].get(row.before), letter_of[1][row.after]
            assert row.share == pytest.approx(0.0 if j is None else recorded[j, k], abs=1e-6)


@pytest.mark.slow
def test_the_heuristic_at_the_runs_weight_gives_the_runs_k() -> None:
    for mu in ("auto", 0.5, 20.0):
        for result in cgpfl("cgpfl_heur", mu=mu, solve_rounds=4):
            terms = cluster_count.data(
                result.arrays["diagnostics.capacity"],
                result.arrays["diagnostics.cost"],
                result.scalars["diagnostics.mu"],
            )
            assert terms.loc[terms["chosen"], "K"].tolist() == [result.scalars["diagnostics.K_hat"]]


def test_the_runs_choice_is_marked_on_the_curve() -> None:
    fig = cluster_count.figure(cluster_count.data(np.array([1.0, 2.0]), np.array([3.0, 0.0]), 1.0), own=1)
    assert list(fig.data[3].x) == [1] and list(fig.data[3].y) == [4.0]


def test_bands_count_clients_between_two_shown_rounds() -> None:
    ways = cluster_sankey.data(cells(), [1, 2, 3])
    assert ways[["before", "after", "clients"]].to_numpy().tolist() == [
        ["A", "A", 2],
        ["B", "A", 1],
        ["B", "B", 2],
        ["A", "A", 3],
        ["B", "B", 2],
    ]
    assert cluster_sankey.finding(ways) == "5 clients, compared in rounds 1, 2 and 3: 1 move between clusters."
    assert cluster_sankey.finding(cluster_sankey.data(cells(), [2, 3])).endswith("all are in the same clusters.")


def test_shown_rounds_are_few_and_include_the_chosen_one() -> None:
    assert cluster_sankey.stops(np.arange(1, 101), 40) == [1, 26, 40, 51, 75, 100]
    assert cluster_sankey.stops(np.array([1, 2]), 9) == [1, 2]


def test_each_cluster_in_a_shown_round_is_a_node_of_its_size() -> None:
    fig = cluster_sankey.figure(cluster_sankey.data(cells(), [1, 3]), chosen=3)
    assert list(fig.data[0].node.label) == ["A · 2", "B · 3", "A · 3", "B · 2"]
    assert sum(fig.data[0].link.value) == 5
    assert [note.text for note in fig.layout.annotations] == ["round 1", "<b>round 3</b>"]


def test_sizes_are_counted_in_every_round() -> None:
    table = cluster_sizes.data(cells())
    assert table.pivot(index="round", columns="letter", values="clients").to_numpy().tolist() == [
        [2, 3],
        [3, 2],
        [3, 2],
    ]
    assert cluster_sizes.finding(table) == "2 clusters in the last round, of 2 to 3 clients."


def test_agreement_is_the_rand_index_of_each_round() -> None:
    table = cluster_agreement.data(cells())
    assert table["round"].tolist() == [1, 2, 3] and table["ari"].tolist()[1:] == [1.0, 1.0]
    assert table["ari"][0] < 0.5
    assert cluster_agreement.finding(table) == "The clusters match the true contexts from round 2 on."
    assert cluster_agreement.data(cluster_raster.data(ROUNDS, LABELS)).empty


def test_the_finding_has_a_final_agreement_below_one() -> None:
    late = pd.DataFrame({"round": [1, 2], "ari": [1.0, 0.5]})
    assert "ends at 0.50; its maximum is 1.00" in cluster_agreement.finding(late)


def test_model_distance_is_reported_at_both_ends_and_its_peak() -> None:
    table = model_distance.data(scalars(model_distance=[1.0, 3.0, 2.0], inertia=[1, 1, 1]))
    assert table["distance"].tolist() == [1.0, 3.0, 2.0]
    assert model_distance.finding(table) == (
        "The clients' models are 1 apart in round 1 and 2 in round 3; most in round 2 with 3."
    )


def test_the_cost_of_k_means_has_a_row_per_round() -> None:
    table = kmeans_cost.data(scalars(inertia=[4.0, 1.0], kmeans_iterations=[3, 3], kmeans_seconds=[0.02, 0.02]))
    assert table.to_numpy().tolist() == [[1, 4.0, 3.0, 0.02], [2, 1.0, 3.0, 0.02]]
    message = kmeans_cost.finding(table)
    assert "a median of 3 iterations and 20 ms per round; the spread within clusters falls from 4 to 1." in message
    assert list(kmeans_cost.figure(table, "cgpfl", 2).data[2].y) == [20.0, 20.0]


def test_a_spread_beyond_both_ends_is_reported_with_its_round() -> None:
    flat = {"kmeans_iterations": [1, 1, 1], "kmeans_seconds": [0.02, 0.02, 0.02]}
    up = kmeans_cost.finding(kmeans_cost.data(scalars(inertia=[0.221, 0.6, 0.269], **flat)))
    assert "a median of 1 iteration and" in up
    assert up.endswith("the spread within clusters grows from 0.221 to 0.269, up to 0.6 in round 2.")
    down = kmeans_cost.finding(kmeans_cost.data(scalars(inertia=[4.0, 1.0, 5.0], **flat)))
    assert down.endswith("grows from 4 to 5, down to 1 in round 2.")


def test_the_round_with_the_closest_models_is_reported() -> None:
    table = model_distance.data(scalars(model_distance=[2.0, 1.0, 3.0], inertia=[1, 1, 1]))
    assert model_distance.finding(table).endswith("; least in round 2 with 1.")


def test_splits_need_a_small_mean_and_a_large_update() -> None:
    mean = {1: np.array([0.9]), 2: np.array([0.5, np.nan]), 3: np.array([np.nan, np.nan])}
    largest = {1: np.array([1.0]), 2: np.array([2.0, np.nan]), 3: np.array([np.nan, np.nan])}
    table = cluster_splits.data(mean, largest, 0.4, 1.6)
    assert table.to_numpy().tolist() == [[1, 0.9, 1.0, False], [2, 0.5, 2.0, False]]
    assert cluster_splits.finding(table, 0.4, 1.6, 0) == (
        "The mean update is never below ε₁ = 0.4: its smallest norm is 0.5, so no cluster splits."
    )
    assert "No update is above ε₂ = 3: the largest norm is 2" in cluster_splits.finding(table, 0.6, 3.0, 0)
    assert "never in the same cluster and round" in cluster_splits.finding(
        table.assign(largest=[9.0, 0.0]), 0.6, 3.0, 0
    )
    reached = cluster_splits.data(mean, largest, 0.6, 1.6)
    assert cluster_splits.finding(reached, 0.6, 1.6, 0).endswith("a cluster meets both thresholds in 1 round.")
    assert "has not reached" in cluster_splits.finding(table, 0.6, 1.6, 2)
    assert [note.text for note in cluster_splits.figure(table, 0.4, 1.6, 1).layout.annotations] == [
        "ε₁ = 0.4",
        "ε₂ = 1.6",
    ]


def test_two_clusters_that_meet_one_threshold_each_do_not_split() -> None:
    norms = {21: np.array([0.1, 5.0])}, {21: np.array([0.5, 9.0])}
    assert cluster_splits.finding(cluster_splits.data(*norms, 0.4, 1.6), 0.4, 1.6, 20) == (
        "Both thresholds are met, but never in the same cluster and round, so no cluster splits."
    )


def test_the_raster_marks_the_round_and_labels_true_contexts() -> None:
    fig = cluster_raster.figure(cells(), at=2)
    assert {shape.x0 for shape in fig.layout.shapes} == {2}
    assert list(fig.layout.yaxis.ticktext) == ["1", "0"]
    assert cluster_raster.figure(cluster_raster.data(ROUNDS, LABELS)).layout.yaxis.ticktext is None


def test_contexts_of_which_nearly_every_client_has_its_own_are_not_compared_with_clusters() -> None:
    own = cluster_raster.data(ROUNDS, LABELS, np.array([0, 1, 2, 3, 3]))
    assert own["context"].tolist()[:5] == [0, 1, 2, 3, 3]
    assert cluster_agreement.data(own).empty and "Rand" not in cluster_raster.finding(own)
    assert cluster_raster.figure(own).layout.yaxis.ticktext is None
    assert "adjusted Rand index with the true contexts 1.00" in cluster_raster.finding(cells())


def test_in_a_high_raster_only_as_many_contexts_are_numbered_as_fit() -> None:
    contexts = np.repeat(np.arange(20), 2)
    contexts[:6] = 0
    fig = cluster_raster.figure(cluster_raster.data(np.array([1]), np.zeros((1, 40), int), contexts))
    assert np.diff(fig.layout.yaxis.tickvals).min() >= 2
    assert "0" in fig.layout.yaxis.ticktext, "the largest group"
    few = cluster_raster.figure(cluster_raster.data(np.array([1]), np.zeros((1, 40), int), np.repeat(np.arange(4), 10)))
    assert list(few.layout.yaxis.ticktext) == ["0", "1", "2", "3"]


def test_neighboring_clients_that_join_a_cluster_together_share_a_letter() -> None:
    drawn = cluster_raster.figure(cells()).data[0]
    assert drawn.z.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1]]
    assert drawn.text.tolist() == [["B", "A", ""], ["A", "", ""], ["", "", ""], ["B", "", ""], ["", "", ""]]


def cgpfl(name: str, participation: float = 1.0, **options: object) -> list[RoundResult]:
    """The rounds of a tiny run. With partial participation a client moves when it first participates."""
    raw = {
        "dataset": {"name": "contexts", "num_clients": 8, "num_contexts": 3, "samples_per_client": 12, "dim": 4},
        "partition": {"name": "natural"},
        "model": {"name": "mlr"},
        "training": {"rounds": 4, "local_steps": 2, "batch_size": 3, "lr": 0.05, "participation": participation},
        "algorithms": [{"name": name, "personal_lr": 0.05, **options}],
    }
    return list(Simulation(parse_experiment(raw).runs()[0]).rounds())[1:]


def _letters(grid: pd.DataFrame, at: int, labels: np.ndarray) -> dict[str, int]:
    """Maps the cluster numbers of the method to letters in a round."""
    return dict(zip(grid.loc[grid["round"] == at, "letter"], labels.tolist(), strict=True))
