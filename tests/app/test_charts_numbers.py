"""The numbers behind each chart of Compare."""

from itertools import product

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
from app.charts.plot import log_axis
from app.compare.effort import reached_by_all_seeds
from app.data import costs
from app.data.comparison import per_run
from tests.app.frames import clients, series


def test_the_dumbbell_averages_tails_and_then_seeds() -> None:
    twenty = [0.5] * 18 + [0.1, 0.9]
    row = dumbbell.data(clients(a=[twenty, [x + 0.02 for x in twenty]]), share=0.05).iloc[0]
    assert (row["lowest"], row["mean"], row["top"]) == pytest.approx((0.11, 0.51, 0.91))
    assert row["mean_pm"] == pytest.approx(np.std([0.5, 0.52], ddof=1))
    assert (row["clients"], row["tail"], row["seeds"]) == (20, 1, 2)


def test_the_tail_of_the_dumbbell_depends_on_its_share() -> None:
    values = [0.0, 0.2, *[0.5] * 16, 0.8, 1.0]
    row = dumbbell.data(clients(a=[values]), share=0.10).iloc[0]
    assert (row["lowest"], row["top"], row["tail"]) == pytest.approx((0.1, 0.9, 2))
    assert np.isnan(row["mean_pm"])


@pytest.mark.parametrize(
    ("by", "first"), [("mean", "steady"), ("lowest", "steady"), ("top", "uneven"), ("spread", "steady")]
)
def test_the_dumbbell_is_sorted_by_the_chosen_key(by: dumbbell.SortKey, first: str) -> None:
    rows = dumbbell.data(clients(uneven=[[0.1, 1.0]], steady=[[0.6, 0.7]]), 0.05, by)
    assert rows.iloc[0]["method"] == first


def test_the_dumbbell_has_the_mean_of_the_other_model_if_any() -> None:
    rows = dumbbell.data(clients(a=[[0.5, 0.7]], b=[[0.4, 0.6]]), 0.05, other=clients(a=[[0.1, 0.3]]))
    assert rows["other"].tolist() == pytest.approx([0.2, np.nan], nan_ok=True)


def test_the_ecdf_counts_clients_at_or_below() -> None:
    steps = ecdf.data(clients(a=[[0.9, 0.1], [0.5, 0.3]]))
    assert steps["accuracy"].tolist() == [0.1, 0.3, 0.5, 0.9]
    assert steps["share"].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert steps[["seed", "client"]].to_numpy().tolist() == [[0, 1], [1, 1], [1, 0], [0, 0]]


def test_curves_average_over_seeds_round_by_round() -> None:
    both = pd.concat(
        [series("a", 0, mean=[0.1, 0.5], lowest5=[0.0, 0.2]), series("a", 1, mean=[0.3, 0.7], lowest5=[0.0, 0.4])]
    )
    lines = curves_over_seeds.data(both)
    assert lines["mean"].tolist() == pytest.approx([0.2, 0.6])
    assert lines["lowest"].tolist() == pytest.approx([0.0, 0.3])
    assert lines["mean_pm"].tolist() == pytest.approx([np.sqrt(0.02)] * 2)


def test_curves_average_the_runs_of_a_split_first() -> None:
    runs = [series("a", 0, mean=[0.1]), series("a", 1, mean=[0.3]), series("a", 2, mean=[0.8])]
    lines = curves_over_seeds.data(
        pd.concat([runs[0].assign(split=7), runs[1].assign(split=7), runs[2].assign(split=8)])
    )
    assert lines[["mean", "mean_pm", "seeds"]].to_numpy().tolist() == [pytest.approx([0.5, np.sqrt(0.18), 2])]


def test_curves_end_with_the_shortest_seed() -> None:
    both = pd.concat([series("a", 0, mean=[0.1, 0.5, 0.6]), series("a", 1, mean=[0.3, 0.7])])
    assert curves_over_seeds.data(both)["round"].tolist() == [0, 1]


def test_curves_over_megabytes_include_unevaluated_rounds() -> None:
    spent = series("a", 0, mean=[0.1, np.nan, 0.6], bytes_up=[0, 1e6, 1e6], bytes_down=[0, 2e6, 2e6])
    lines = curves_over_seeds.data(spent, x="megabytes")
    assert lines["x"].tolist() == [0.0, 6.0]


def test_a_method_without_the_model_has_no_curve() -> None:
    spent = {"bytes_up": [0, 1e6], "bytes_down": [0, 1e6]}
    both = pd.concat([series("a", 0, mean=[0.1, 0.5], **spent), series("alone", 1, **spent)])
    assert curves_over_seeds.data(both, x="megabytes")["method"].tolist() == ["a", "a"]
    assert curves_over_seeds.data(series("alone", 1, **spent), x="megabytes").empty


def test_long_curves_are_thinned_between_their_ends() -> None:
    lines = curves_over_seeds.data(series("a", 0, mean=np.linspace(0, 1, 5000).tolist()))
    assert len(lines) <= curves_over_seeds.MAX_POINTS
    assert (lines["round"].iloc[0], lines["round"].iloc[-1]) == (0, 4999)


def test_pairs_average_each_client_over_common_seeds_of_a_split() -> None:
    one_split = clients(a=[[0.5, 0.9], [0.7, 0.9], [0.1]], b=[[0.6, 0.2], [0.6, 0.4]]).assign(split=4)
    pairs = paired.data(one_split, "a", "b")
    assert pairs[["client", "seeds"]].to_numpy().tolist() == [[1, 2], [0, 2]]
    assert pairs[["a", "b", "difference"]].to_numpy().ravel() == pytest.approx([0.9, 0.3, 0.6, 0.6, 0.6, 0.0])


def test_clients_of_two_splits_are_not_averaged() -> None:
    pairs = paired.data(clients(a=[[0.5, 0.9], [0.7, 0.9]], b=[[0.6, 0.2], [0.6, 0.4]]), "a", "b")
    assert pairs[["split", "client", "seeds"]].to_numpy().tolist() == [[0, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 1]]
    assert pairs["difference"].tolist() == pytest.approx([0.7, 0.5, 0.1, -0.1])


def test_differences_on_few_test_samples_are_in_whole_points() -> None:
    pairs = paired.data(clients(22, a=[[20 / 22]], b=[[18 / 22]]), "a", "b")
    assert pairs["samples"].tolist() == [22]
    assert "median difference +9 points" in paired.verdict(pairs).sentence("A", "B")
    marks = [trace.hovertext for trace in paired.figure(pairs, "a", "b", clients(a=[[0.5]], b=[[0.5]])).data[1:]]
    assert marks[0] == ("client 0<br>a 91 %, b 82 %: +9",)


def test_differences_within_single_precision_are_zero() -> None:
    pairs = paired.data(clients(a=[[float(np.float32(0.7))]], b=[[0.7]]), "a", "b")
    assert pairs["difference"].tolist() == [0.0]


def test_the_finding_counts_clients_that_gain_and_lose() -> None:
    pairs = paired.data(clients(1001, a=[[0.5, 0.6, 0.7]], b=[[0.4, 0.6, 0.9]]), "a", "b")
    found = paired.verdict(pairs)
    assert (found.better, found.worse, found.equal, found.median) == (1, 1, 1, 0.0)
    assert found.sentence("A", "B") == (
        "With A, 1 client does better than with B, 1 worse and 1 the same (3 clients); median difference 0.00 points."
    )
    assert "(3 clients, each averaged over 2 seeds)" in found.sentence("A", "B", seeds=2)
    assert paired.verdict(pairs.assign(difference=[0.2, 0.1, -0.1])).sentence("A", "B") == (
        "With A, 2 clients do better than with B and 1 worse (3 clients); median difference +10.00 points."
    )
    assert (
        paired.verdict(pairs.assign(difference=[0.0, -0.1, -0.1]))
        .sentence("A", "B")
        .startswith(
            "With A, no client does better than with B, 2 worse and 1 the same (3 clients); median difference −10.00"
        )
    )


def test_clients_of_several_seeds_are_counted_as_clients_times_seeds() -> None:
    three = [[0.5, 0.6, 0.7, 0.8]] * 3
    pairs = paired.data(clients(a=three, b=[[0.4, 0.6, 0.7, 0.9]] * 3), "a", "b")
    assert "(4 clients × 3 seeds)" in paired.verdict(pairs).sentence("A", "B")
    assert "(4 benign clients × 3 splits)" in paired.verdict(pairs, True, "split").sentence("A", "B")
    assert paired.verdict(pairs).heading("A", "B").startswith("3 of 12 clients (4 × 3 seeds) do better with A than")
    fewer = paired.verdict(pairs.iloc[1:])
    assert "(11 clients of 3 seeds)" in fewer.sentence("A", "B")
    assert fewer.heading("A", "B").startswith("2 of 11 clients do better")


def test_the_test_is_wilcoxons() -> None:
    a = [0.51, 0.52, 0.53, 0.54, 0.55, 0.56]
    found = paired.verdict(paired.data(clients(a=[a], b=[[0.5] * 6]), "a", "b"))
    assert found.p == pytest.approx(2 / 2**6)  # all six with one sign
    assert found.test().startswith(
        "p = 0.031: the chance of a difference at least this large if the methods were equal. Wilcoxon signed-rank "
        "test, two-sided, exact; n = 6; effect r = +1.00. "
    )


def test_tied_differences_are_counted() -> None:
    rows = pd.DataFrame({"split": 0, "difference": [1, 1, -1, 2, 2, 3, -2.0], "samples": 10})
    assert paired.verdict(rows).tied == 6


def test_too_few_differences_are_not_tested() -> None:
    found = paired.verdict(paired.data(clients(a=[[0.5] * 5]), "a", "a"))
    assert np.isnan(found.p) and found.equal == 5
    assert found.test() == "No test: fewer than 6 clients differ."


def test_differences_are_sorted_by_gain() -> None:
    rows = differences.data(clients(a=[[0.1, 0.9]], b=[[0.5, 0.5]]), "a", "b")
    assert rows[["rank", "client"]].to_numpy().tolist() == [[1, 1], [2, 0]]


def test_renumbered_clusters_are_no_change() -> None:
    cells = cluster_raster.data(np.array([1, 2]), np.array([[0, 0, 1], [1, 1, 0]]))
    assert not cells["moved"].any()
    assert cells[cells["round"] == 2]["letter"].tolist() == ["A", "A", "B"]


def test_clients_that_change_their_group_count_as_moved() -> None:
    cells = cluster_raster.data(np.array([1, 2]), np.array([[0, 0, 0, 1], [0, 0, 1, 1]]))
    assert cells.loc[cells["moved"], ["round", "client"]].to_numpy().tolist() == [[2, 2]]


def test_clients_are_sorted_by_their_final_cluster() -> None:
    cells = cluster_raster.data(np.array([1]), np.array([[5, 2, 5]]))
    assert cells.sort_values("row")["client"].tolist() == [0, 2, 1]


def test_clusters_equal_to_the_contexts_have_a_rand_index_of_one() -> None:
    cells = cluster_raster.data(np.array([1, 2]), np.array([[0, 0, 0, 0], [0, 0, 1, 1]]), np.array([7, 7, 3, 3]))
    assert cells.groupby("round")["ari"].first().tolist() == [0.0, 1.0]


def test_the_cluster_finding_says_when_clusters_settled() -> None:
    cells = cluster_raster.data(np.arange(1, 4), np.array([[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1]]))
    assert cluster_raster.finding(cells) == "2 clusters of 2 clients; no client has moved since round 2."


def test_memberships_have_a_row_per_change_of_cluster() -> None:
    cells = cluster_raster.data(np.array([1, 2, 3]), np.array([[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1]]))
    rows = cluster_raster.memberships(cells)
    assert rows[["client", "round", "letter"]].to_numpy().tolist() == [
        [0, 1, "A"],
        [1, 1, "A"],
        [2, 1, "A"],
        [2, 2, "B"],
        [3, 1, "B"],
    ]


def test_cluster_letters_continue_after_z() -> None:
    assert [cluster_raster.letter(k) for k in (0, 25, 26)] == ["A", "Z", "A1"]


def _sweep_runs(options: dict[str, dict[str, object]], **accuracies: list[list[float]]) -> pd.DataFrame:
    runs = per_run(clients(**accuracies), 0.05)
    runs["options"] = runs["method"].map(options)
    return runs.assign(algorithm=runs["method"].str.rstrip("0123456789"))


def test_a_sweep_marks_the_best_value_and_shows_other_methods_as_references() -> None:
    options = {f"ditto{i}": {"lam": lam} for i, lam in enumerate([0.1, 1, 10])} | {"fedavg": {}}
    runs = _sweep_runs(options, ditto0=[[0.5]], ditto1=[[0.8]], ditto2=[[0.6]], fedavg=[[0.7]])
    assert sweep.parameters(runs) == ["lam"]
    rows = sweep.data(runs, "lam")
    assert rows.loc[rows["best"], "value"].tolist() == [1.0]
    assert rows.loc[rows["value"].isna(), "series"].tolist() == ["fedavg"]


def test_other_varied_options_are_series_of_a_sweep() -> None:
    options = {
        f"ditto{i}": {"lam": lam, "p": p} for i, (lam, p) in enumerate((x, y) for x in (1, 2, 3) for y in (5, 6))
    }
    rows = sweep.data(_sweep_runs(options, **{name: [[0.5]] for name in options}), "lam")
    assert sorted(rows["series"].unique()) == ["Ditto p=5", "Ditto p=6"]


def test_two_values_are_no_sweep() -> None:
    runs = _sweep_runs({"ditto0": {"lam": 1}, "ditto1": {"lam": 2}}, ditto0=[[0.5]], ditto1=[[0.6]])
    assert sweep.parameters(runs) == []


def test_settings_that_each_split_chose_are_no_sweep() -> None:
    runs = _sweep_runs({}, ditto=[[0.5], [0.6], [0.7]], fedavg=[[0.5]])
    runs["options"] = [{"lam": 1, "p": 0.2}, {"lam": 2, "p": 0.2}, {"lam": 3, "p": 0.2}, {}]
    assert sweep.parameters(runs) == []
    assert sweep.data(runs, "lam")["value"].isna().all()


def test_megabytes_count_both_directions() -> None:
    totals = pd.DataFrame({"run": [1], "bytes_up": 3e6, "bytes_down": 1e6, "gradient_evaluations": 5.0, "seconds": 2.0})
    assert costs.spent(totals).to_numpy().tolist() == [[1, 4, 5, 2]]


def test_the_simulated_clock_is_read_not_added_up() -> None:
    clock = {costs.SIMULATED_CLOCK: [0.0, 2.0, 5.0]}
    lines = curves_over_seeds.data(series("a", 0, mean=[0.1, 0.5, 0.6], seconds=[0, 1, 1], **clock), x="simulated_s")
    assert lines["x"].tolist() == [0, 2, 5]
    rounds = series("a", 7, **clock)[["run", "round", "value"]]
    assert costs.simulated(rounds, {7: 1}).to_dict() == {7: 2.0}


def test_simulated_seconds_are_offered_only_where_they_are_recorded() -> None:
    assert "simulated_s" in costs.offered(costs.COST_CHOICES, True)
    assert "simulated_s" not in costs.offered(costs.COST_CHOICES, False)


def test_seeds_are_averaged_at_equal_cost() -> None:
    slow = series("a", 0, mean=[0.0, 0.5, 1.0], seconds=[0, 2, 2])
    fast = series("a", 1, mean=[0.0, 0.5, 1.0], seconds=[0, 1, 1])
    lines = curves_over_seeds.data(pd.concat([slow, fast]), x="seconds")
    assert lines["x"].tolist() == pytest.approx([0.0, 1.5, 2.0])  # up to the end of the shortest
    assert lines["mean"].tolist() == pytest.approx([0.0, (0.375 + 0.75) / 2, (0.5 + 1.0) / 2])


def test_a_method_without_communication_stays_at_zero_megabytes() -> None:
    alone = series("a", 0, mean=[0.1, 0.5], bytes_up=[0, 0], bytes_down=[0, 0])
    lines = curves_over_seeds.data(alone, x="megabytes")
    assert lines[["x", "mean"]].to_numpy().tolist() == [[0, 0.1], [0, 0.5]]


def test_the_histogram_counts_clients_in_bins_of_five_points() -> None:
    bins = histogram.data(clients(a=[[float(np.float32(0.7)), 0.74, 0.75, 1.0]]))
    counted = bins[bins["clients"] > 0]
    assert (len(bins), counted["start"].tolist(), counted["clients"].tolist()) == (20, [0.7, 0.75, 0.95], [2, 1, 1])
    assert histogram.finding(bins) == "Under a, no client is below 70 %."


def test_the_error_over_R_averages_seeds_and_marks_each_minimum() -> None:
    rows = pd.DataFrame(
        [
            (m, m, s, R, e)
            for m, s, R, e in [
                ("alone", 0, 0.0, 2),
                ("alone", 1, 0.0, 4),
                ("alone", 0, 3.0, 3),
                ("together", 0, 0.0, 1),
                ("together", 0, 3.0, 9),
            ]
        ],
        columns=["method", "algorithm", "seed", "R", "error"],
    )
    points = error_over_R.data(rows.assign(split=rows["seed"]))
    assert points[["method", "R", "error", "best"]].to_numpy().tolist() == [
        ["alone", 0, 3, False],
        ["alone", 3, 3, True],
        ["together", 0, 1, True],
        ["together", 3, 9, False],
    ]
    assert points["error_pm"].iloc[0] == pytest.approx(np.sqrt(2))
    assert error_over_R.finding(points) == (
        "Lowest error: together at R = 0 (1), alone at R = 3 (3); "
        "fewer than three seeds are too few to distinguish methods."
    )


def test_methods_tied_with_the_smallest_error_are_named() -> None:
    errors = {
        ("a", 0): [1.0, 1.1, 1.2],
        ("b", 0): [5.0, 5.2, 5.1],
        ("a", 3): [4.0, 5.0, 6.0],
        ("b", 3): [5.5, 4.5, 5.4],
    }
    rows = pd.DataFrame(
        [(m, m, seed, float(R), e) for (m, R), own in errors.items() for seed, e in enumerate(own)],
        columns=["method", "algorithm", "seed", "R", "error"],
    )
    assert (
        error_over_R.finding(error_over_R.data(rows.assign(split=rows["seed"])))
        == "Lowest error: a at R = 0 (1.1), a or b at R = 3 (5)."
    )


def test_a_target_is_reached_in_the_first_round_above_it() -> None:
    rounds = pd.DataFrame({"run": [1, 1, 1, 2, 2], "round": [0, 5, 9, 0, 5], "value": [0.1, 0.8, 0.7, 0.1, 0.2]})
    assert communication.reached(rounds, 0.7) == communication.reached(rounds, 0.8) == {1: 5}
    assert communication.reached(rounds, 0.15, falls=True) == {1: 0, 2: 0}


def test_effort_connects_methods_that_differ_only_in_local_training() -> None:
    little, much = ({"lam": 1, "inner_steps": n, "training.local_steps": n} for n in (1, 5))
    runs = pd.DataFrame(
        {
            "run": [1, 2, 3, 4],
            "method": ["m1", "m5", "m5", "other"],
            "algorithm": "fedavg",
            "split": [0, 0, 1, 0],
            "seed": [0, 0, 1, 0],
            "options": [little, much, much, {"lam": 2}],
        }
    )
    spent = pd.DataFrame({"run": [1, 2, 4], "megabytes": [8.0, 2, 4], "gradient_evaluations": [10.0, 20, 5]})
    rows = communication.data(runs, {1: 80, 2: 20, 4: 40}, spent).set_index("method")
    assert rows.loc["m1", "path"] == rows.loc["m5", "path"] != rows.loc["other", "path"]
    assert rows.loc["m5", ["rounds", "megabytes", "seeds", "seeds_run", "is_complete"]].tolist() == [20, 2, 1, 2, False]
    table = rows.reset_index()
    assert (
        communication.missed(["m1", "m5", "other", "none"], table)
        == "Target never reached: none. Hollow, not reached with every seed: m5."
    )


def _effort(**rounds: list[int]) -> pd.DataFrame:
    """One run per seed and method that reaches the target after so many rounds; 0 for never."""
    rows = [(m, seed, at) for m, own in rounds.items() for seed, at in enumerate(own)]
    runs = pd.DataFrame(
        {
            "run": range(len(rows)),
            "method": [m for m, *_ in rows],
            "algorithm": [m for m, *_ in rows],
            "split": [seed for _, seed, _ in rows],
            "seed": [seed for _, seed, _ in rows],
            "options": [{} for _ in rows],
        }
    )
    until = {run: at for run, (*_, at) in enumerate(rows) if at}
    spent = pd.DataFrame(
        [(run, 0.5 * at, 10.0 * at) for run, at in until.items()], columns=["run", "megabytes", "gradient_evaluations"]
    )
    return communication.data(runs, until, spent)


def test_a_method_that_misses_the_target_on_a_seed_is_not_the_fastest() -> None:
    found = _effort(lucky=[2, 0, 0], steady=[20, 21, 22], slow=[40, 41, 45])
    assert communication.finding(found, "rounds", "90 %") == (
        "Fewest rounds to 90 %: steady (21). Fewest gradient evaluations: steady (210)."
    )
    none_reach = _effort(lucky=[2, 0, 0])
    assert communication.finding(none_reach, "rounds", "90 %") == "No method reaches 90 % with every seed."


def test_the_fastest_method_is_named_only_if_significant() -> None:
    near, few = _effort(a=[20, 24, 22], b=[23, 21, 25]), _effort(a=[20], b=[30])
    assert communication.finding(near, "rounds", "90 %").startswith("Fewest rounds to 90 %: a (22); b may be as good.")
    assert "a (20); 1 seed is too few to distinguish methods." in communication.finding(few, "rounds", "90 %")
    alike = communication.finding(_effort(a=[20], twin=[20]), "rounds", "90 %")
    assert alike.startswith("Fewest rounds to 90 %: a and twin (20).")


def test_targets_are_limited_to_those_the_best_method_always_reaches() -> None:
    series = pd.DataFrame({"method": ["a"] * 4, "run": [1, 1, 2, 2], "value": [0.1, 0.9, 0.2, 0.6]})
    assert reached_by_all_seeds(series, "accuracy").tolist() == [0.6]
    assert reached_by_all_seeds(series, "error").tolist() == [0.2]


@pytest.mark.parametrize(
    ("low", "high"), [(1665, 1700), (19000, 19500), (20, 20.4), (0.221, 0.269), (999, 1001), (1, 1e6), (3, 3)]
)
def test_even_a_short_logarithmic_axis_has_ticks(low: float, high: float) -> None:
    found = log_axis.ticks(low, high)
    assert len(found) >= (3 if high > low else 1) and all(low <= tick <= high for tick in found)
    axis = go.layout.YAxis()
    log_axis.apply(axis, low, high)
    assert len(set(axis.ticktext)) == len(found)


def test_a_sweep_uses_validation_data_if_all_runs_have_it() -> None:
    options = {f"ditto{i}": {"lam": lam} for i, lam in enumerate([0.1, 1, 10])}
    runs = _sweep_runs(options, ditto0=[[0.5]], ditto1=[[0.8]], ditto2=[[0.6]])
    chosen = sweep.data(runs.assign(validation=[0.3, 0.4, 0.9]), "lam")
    assert chosen.loc[chosen["best"], "value"].tolist() == [10.0]
    assert sweep.finding(chosen, "λ") == (
        "For Ditto, λ = 10 ranks first with 60 % (chosen on validation); 1 seed is too few to distinguish values."
    )
    partly = sweep.data(runs.assign(validation=[0.3, np.nan, 0.9]), "lam")
    assert (partly.loc[partly["best"], "value"].tolist(), partly["chosen_on"].iloc[0]) == ([1.0], "test")


def test_values_tied_with_the_best_are_named() -> None:
    options = {f"ditto{i}": {"lam": lam} for i, lam in enumerate([0.1, 1, 10])}
    near, far = [[0.8], [0.7], [0.75]], [[0.4], [0.41], [0.4]]
    runs = _sweep_runs(options, ditto0=near, ditto1=[[0.78], [0.75], [0.75]], ditto2=far)
    assert sweep.finding(sweep.data(runs, "lam"), "λ").endswith("(chosen on test); λ = 0.1 may be as good.")
    clear = _sweep_runs(options, ditto0=far, ditto1=[[0.8], [0.79], [0.81]], ditto2=far)
    assert sweep.finding(sweep.data(clear, "lam"), "λ") == "Ditto is best at λ = 1 with 80 ± 1 % (chosen on test)."


def test_sweeps_in_different_settings_are_different_series() -> None:
    points = product((1, 2, 3), (0, 3))
    options = {f"ditto{i}": {"lam": lam, "dataset.R": R} for i, (lam, R) in enumerate(points)}
    runs = _sweep_runs(options, **{name: [[0.5]] for name in options})
    assert sweep.parameters(runs) == ["lam"]
    assert sorted(sweep.data(runs, "lam")["series"].unique()) == ["Ditto R=0", "Ditto R=3"]


def test_the_front_has_methods_not_beaten_at_equal_or_lower_cost() -> None:
    runs = per_run(clients(free=[[0.6]], dear=[[0.9]], wasteful=[[0.7]]), 0.05)
    runs = runs.assign(megabytes=[0.0, 5.0, 9.0], gradient_evaluations=1.0, seconds=1.0)
    rows = cost.data(runs, "megabytes")
    assert rows.loc[rows["front"], "method"].tolist() == ["free", "dear"]
    assert "free, dear; the other costs at least as much for no more accuracy" in cost.finding(rows, "megabytes")


def test_a_method_of_unknown_cost_is_not_drawn_and_not_on_the_front() -> None:
    runs = per_run(clients(free=[[0.6]], dear=[[0.9]], unknown=[[0.7]]), 0.05)
    runs = runs.assign(megabytes=[0.0, 5.0, np.nan], gradient_evaluations=1.0, seconds=1.0)
    rows = cost.data(runs, "megabytes")
    assert rows.loc[rows["front"], "method"].tolist() == ["free", "dear"]
    assert cost.finding(rows, "megabytes").endswith(
        ": free, dear. Cost unknown, as runs diverged or did not record it: unknown."
    )
    assert list(cost.figure(rows, "megabytes").data[1].text) == ["free", "dear"]
    none = cost.data(runs.assign(megabytes=np.nan), "megabytes")
    assert cost.finding(none, "megabytes") == "No method has a known cost: megabytes sent, both ways."


@pytest.mark.parametrize("unknown", [["best", "other"], ["best"], ["other"]])
def test_the_title_of_unknown_costs_compares_none(unknown: list[str]) -> None:
    runs = per_run(clients(best=[[0.9]] * 3, other=[[0.8]] * 3), 0.05)
    runs["megabytes"] = [np.nan if method in unknown else 10.0 for method in runs["method"]]
    assert cost.heading(cost.data(runs, "megabytes"), ["best"], {"other"}, "megabytes") == "How fast, and at what cost?"


def test_an_adaptive_method_is_drawn_at_its_parameter() -> None:
    options = {f"cgpfl{i}": {"K": k} for i, k in enumerate((1, 2, 4))} | {"heur": {}}
    runs = _sweep_runs(options, cgpfl0=[[0.5]], cgpfl1=[[0.8]], cgpfl2=[[0.6]], heur=[[0.7], [0.9]])
    runs["itself"] = runs["method"].map({"heur": 3.0})
    rows = sweep.data(runs, "K")
    assert rows.loc[rows["itself"].notna(), ["method", "itself"]].to_numpy().tolist() == [["heur", 3.0]]
    assert sweep.finding(rows, "K").endswith("heur chose K = 3 itself and reaches 80 ± 14 %.")


def test_the_weight_of_the_spread_determines_the_number_of_clusters() -> None:
    capacity, spread = np.array([1.0, 2.0, 3.0]), np.array([9.0, 4.0, 0.0])
    chosen = {mu: cluster_count.data(capacity, spread, mu).query("chosen")["K"].tolist() for mu in (0.1, 0.22, 1.0)}
    assert chosen == {0.1: [1], 0.22: [2], 1.0: [3]}


def test_for_equal_bounds_the_smallest_number_of_clusters_is_chosen() -> None:
    terms = cluster_count.data(np.array([0.1, 0.3]), np.array([0.2, 0.0]), 1.0)
    assert terms["chosen"].tolist() == [True, False]


def test_the_selectable_weights_include_the_runs_weight() -> None:
    weights = cluster_count.weights_around(2.0)
    assert (weights[0], weights[len(weights) // 2], weights[-1]) == pytest.approx((0.02, 2.0, 200.0))


def test_the_plane_sorts_settings_by_parameter_and_marks_the_front() -> None:
    runs = per_run(clients(d3=[[0.7]], d1=[[0.9]], d2=[[0.8]], worse=[[0.6]]), 0.05).assign(
        everywhere=[0.7, 0.3, 0.5, 0.6],
        megabytes=1.0,
        algorithm=["d", "d", "d", "worse"],
        options=[{"lam": 3}, {"lam": 1}, {"lam": 2}, {}],
    )
    rows = tradeoff.data(runs, "megabytes", "lam")
    assert rows["method"].tolist() == ["d1", "d2", "d3", "worse"]
    assert rows["front"].tolist() == [True, True, True, False]
    assert tradeoff.finding(rows) == "On the Pareto front of personalization and generalization: d1, d2 and d3."
