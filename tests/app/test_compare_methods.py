"""How runs form methods, which methods are comparable, and the headline."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.compare.comparability import conflicts, missing, notes, same_clients
from app.compare.headline import headline, of_these_clients
from app.compare.selection import with_rounds
from app.data.comparison import method_name, methods_of, per_method, per_run, ranking
from app.state.links import parse_ids
from app.statistics.intervals import t_interval
from storage import RunRecord
from storage.models import MAX_ID
from tests.app.frames import clients, run_record


def test_runs_that_differ_in_their_seed_are_one_method() -> None:
    found = methods_of([run_record(2, seed=1), run_record(1, seed=0), run_record(3, "fedavg")])
    assert [(m.name, m.run_ids) for m in found] == [("Ditto", (1, 2)), ("FedAvg", (3,))]
    assert found[0].draws == ((0, 0), (1, 1))


def split_run(run_id: int, label: str, split: int, seed: int, **changes: Any) -> RunRecord:
    run = run_record(run_id, label, seed, **changes)
    study = {"role": "final", "entry": label, "split": split, "trial": run_id}
    return replace(run, config=run.config | {"data_seed": split, "study": study})


def test_runs_that_differ_in_their_split_are_one_method() -> None:
    (found,) = methods_of([split_run(i, "ditto", i // 2, i % 2) for i in range(4)])
    assert found.draws == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_settings_that_splits_of_a_study_chose_for_themselves_are_noted() -> None:
    finals = []
    for split in range(2):
        run = split_run(split, "ditto", split, 0)
        study = {"role": "final", "entry": "ditto", "split": split, "trial": 1}
        chosen = {"study": study, "training": {"rounds": 5, "lr": 0.1 + split}}
        finals.append(replace(run, config=run.config | chosen))
    assert "The study chose settings for Ditto per split; those of the first split are shown." in notes(
        methods_of(finals)
    )


def test_the_seeds_of_a_split_are_averaged_before_methods_are_compared() -> None:
    frame = clients(a=[[0.8], [0.6], [0.9], [0.9]], b=[[0.5], [0.5], [0.4], [0.4]])
    runs = per_run(frame.assign(split=frame["seed"] // 2, seed=frame["seed"] % 2), 0.05)
    table = per_method(runs)
    assert table[["seeds", "mean"]].to_numpy().tolist() == [[2, pytest.approx(0.8)], [2, pytest.approx(0.45)]]
    assert table["mean_pm"].tolist() == pytest.approx([0.2 / 2**0.5, 0.1 / 2**0.5])
    found = ranking(runs, "mean")
    assert (found.seeds, found.over, found.lead.mean) == (2, "two splits", pytest.approx(0.35))


def test_equal_clients_are_required_per_split_and_seed() -> None:
    def of(split: int) -> dict[str, Any]:
        return {"test_sizes": [split + 1], "class_counts": [[split]]}

    runs = [split_run(10 * i + s, name, s, 0, partition=of(s)) for i, name in enumerate(("a", "b")) for s in (0, 1)]
    assert conflicts(methods_of(runs)) == []
    runs[3] = replace(runs[3], partition=of(7))
    assert "different clients for split 1 (seed 0)" in conflicts(methods_of(runs))[0]


def test_the_newest_of_equal_runs_counts() -> None:
    assert methods_of([run_record(1), run_record(2)])[0].run_ids == (2,)


@pytest.mark.parametrize("status", ["cancelled", "failed", "running", "paused"])
def test_a_finished_run_takes_precedence_over_a_newer_unfinished_one(status: Any) -> None:
    done, again = run_record(1), run_record(2, status=status)
    assert methods_of([done, again])[0].run_ids == (1,)
    assert methods_of([done, again, run_record(3)])[0].run_ids == (3,)


def test_methods_with_equal_names_show_their_experiment() -> None:
    other = run_record(2, experiment_id=2, experiment_name="second", dataset={"name": "mnist"})
    assert [m.name for m in methods_of([run_record(1), other])] == ["Ditto · first", "Ditto · second"]


@pytest.mark.parametrize(
    ("label", "algorithm", "shown"),
    [
        ("fedavg", "fedavg", "FedAvg"),
        ("ditto lam=0.1", "ditto", "Ditto λ=0.1"),
        ("mine", "ditto", "mine"),
        ("gone", "gone", "gone"),
    ],
)
def test_a_method_has_its_papers_name_unless_it_was_renamed(label: str, algorithm: str, shown: str) -> None:
    assert method_name(label, algorithm) == shown


def test_summaries_aggregate_clients_and_then_seeds() -> None:
    rows = per_method(per_run(clients(a=[[0.0, 1.0], [0.4, 0.6]]), 0.05))
    assert rows.loc[0, ["mean", "std", "cv"]].tolist() == pytest.approx([0.5, 0.3, 0.6])


def test_different_data_is_a_named_conflict() -> None:
    methods = methods_of([run_record(1), run_record(2, "fedavg", dataset={"name": "mnist"})])
    assert conflicts(methods) == [
        "The data sets differ: Ditto (Digits); FedAvg (MNIST). Their accuracies answer different questions."
    ]
    assert not same_clients(*methods)


def test_different_fingerprints_of_a_data_set_are_a_conflict() -> None:
    prints = [{"dataset_fingerprint": name} for name in ("one", "two")]
    methods = methods_of([run_record(1, provenance=prints[0]), run_record(2, "fedavg", provenance=prints[1])])
    assert "fingerprint differs" in conflicts(methods)[0] and "seed 0" in conflicts(methods)[0]


def test_the_conflict_of_partitions_names_the_differences() -> None:
    other = {"name": "iid", "num_clients": 8}
    methods = methods_of([run_record(1), run_record(2, "fedavg", partition_config=other)])
    assert "Ditto (IID, clients = 4); FedAvg (IID, clients = 8)" in conflicts(methods)[0]


def test_different_clients_of_one_partition_are_a_conflict() -> None:
    sizes = [{"test_sizes": [n], "class_counts": [[n]]} for n in (3, 4)]
    methods = methods_of([run_record(1, partition=sizes[0]), run_record(2, "fedavg", partition=sizes[1])])
    assert "different clients for seed 0" in conflicts(methods)[0]


def test_data_generated_per_seed_is_no_conflict() -> None:
    def runs(label: str, first: int) -> list:
        return [run_record(first + s, label, s, provenance={"dataset_fingerprint": f"seed {s}"}) for s in (0, 1)]

    assert conflicts(methods_of([*runs("ditto", 1), *runs("fedavg", 3)])) == []


def test_different_seeds_rounds_and_statuses_are_noted() -> None:
    text = notes(
        methods_of(
            [
                run_record(1),
                run_record(2, "fedavg", seed=1, rounds=9, round=3, status="diverged", error="not finite"),
            ]
        )
    )
    assert text == [
        "The numbers of rounds differ: Ditto (5 rounds); FedAvg (9 rounds).",
        "The seeds differ: Ditto (seed 0); FedAvg (seed 1).",
        "FedAvg, seed 1: diverged at round 3 (not finite); its means are over clients whose models are still finite.",
    ]


def test_runs_that_failed_before_round_one_are_named_with_a_reason() -> None:
    runs = [
        run_record(1),
        run_record(2, round=-1, status="queued"),
        run_record(3, "fedavg", round=-1, status="failed", error="no data"),
    ]
    assert missing(runs) == [
        "1 run pending; results appear after the first round.",
        "FedAvg, seed 0: failed before its first round (no data).",
    ]


def test_runs_that_ended_before_round_one_for_the_same_reason_share_a_sentence() -> None:
    methods = [("ditto", 0), ("fedavg", 0), ("ditto", 1), ("fedavg", 1), ("local_train", 1)]
    runs = [run_record(i, name, seed, round=-1, status="cancelled") for i, (name, seed) in enumerate(methods)]
    assert missing([*runs, run_record(9, "ditto", 2, round=-1, status="failed", error="no data")]) == [
        "Ditto and FedAvg (seeds 0 and 1); LocalTrain (seed 1): cancelled before their first round.",
        "Ditto, seed 2: failed before its first round (no data).",
    ]


def _headline(test_size: int = 1000, are_benign: bool = False, **accuracies: list[list[float]]) -> str:
    everyone = clients(test_size, **accuracies)
    return headline(per_run(everyone, 0.05), 0.05, everyone, are_benign)


def test_the_headline_says_that_malicious_clients_are_left_out() -> None:
    assert "over these 3 benign clients)" in _headline(are_benign=True, A=[[0.5, 0.7, 0.9]], B=[[0.4, 0.7, 0.6]])


def test_the_headline_names_leaders_on_mean_and_lowest_accuracy() -> None:
    text = _headline(CGPFL=[[0.60, 0.996], [0.60, 0.996], [0.60, 0.998]], LocalTrain=[[0.70, 0.832]] * 3)
    assert text == (
        "CGPFL leads by 3.2 points on mean accuracy (95 % interval 3.1 to 3.4, 3 seeds); LocalTrain's lowest 5 % is "
        "the best, by 10.0 points (95 % interval 10.0 to 10.0)."
    )


def test_the_headline_names_a_leader_on_both() -> None:
    assert _headline(A=[[0.8, 0.9]] * 3, B=[[0.5, 0.6]] * 3) == (
        "A leads by 30.0 points on mean accuracy (95 % interval 30.0 to 30.0, 3 seeds), and its lowest 5 % is also "
        "the best, by 30.0 points (95 % interval 30.0 to 30.0)."
    )


def test_one_seed_names_no_leader_and_reports_its_clients() -> None:
    assert _headline(A=[[0.8, 0.9, 0.7]], B=[[0.7, 0.6, 0.7]]) == (
        "A is ahead of B by 13.3 points on mean accuracy (95 % interval −24.6 to 51.3 over these 3 clients); its "
        "lowest 5 % is also the highest. One seed is too few to tell."
    )


def test_two_seeds_name_no_leader_even_if_both_agree() -> None:
    assert _headline(A=[[0.8], [0.8]], B=[[0.5], [0.5]]) == (
        "A is ahead in both seeds, by 30.0 points on mean accuracy; its lowest 5 % is also the highest. Two seeds "
        "are too few to tell."
    )
    assert _headline(A=[[0.8], [0.6]], B=[[0.5], [0.85]]).startswith(
        "A is ahead of B by 2.5 points on mean accuracy, but not first in both seeds"
    )


def test_a_seed_that_a_third_method_lacks_counts_for_the_first_two() -> None:
    lost_one = _headline(Ditto=[[0.8], [0.7]], FedAvg=[[0.7], [0.75]], IFCA=[[0.5]])
    assert lost_one.startswith("Ditto is ahead of FedAvg by 2.5 points on mean accuracy, but not first in both seeds;")
    won_both = _headline(A=[[0.8], [0.8]], B=[[0.5], [0.5]], C=[[0.1]])
    assert won_both.startswith("A is ahead in both seeds, by 30.0 points on mean accuracy;")


def test_a_method_that_shares_one_seed_with_the_second_is_not_ahead_in_both() -> None:
    text = _headline(A=[[0.8], [0.7]], B=[[0.72]], C=[[0.5], [0.6]])
    assert text.startswith("A is ahead of B by 8.0 points on mean accuracy; its lowest 5 % is also the highest.")


def test_methods_with_intervals_around_zero_may_all_be_best() -> None:
    text = _headline(A=[[0.8], [0.6], [0.7]], B=[[0.5], [0.85], [0.7]], C=[[0.1], [0.1], [0.1]])
    assert text.startswith(
        "On mean accuracy the best may be any of A and B (within 1.7 points, 3 seeds); on the lowest 5 %"
    )


def test_methods_known_to_be_within_half_a_point_are_tied() -> None:
    text = _headline(A=[[0.800], [0.700], [0.600]], B=[[0.801], [0.701], [0.599]])
    assert text.startswith("B and A are tied on mean accuracy (within half a point, 3 seeds); B and A are tied on the")


def test_equal_means_are_called_equal() -> None:
    assert _headline(A=[[0.8]], B=[[0.8]]) == "A and B have the same mean accuracy. One seed is too few to tell."


def test_methods_without_a_seed_in_common_are_not_compared() -> None:
    runs = per_run(clients(A=[[0.8]], B=[[0.7]]), 0.05)
    runs.loc[runs["method"] == "B", ["split", "seed"]] = 5
    assert "have no seed in common" in headline(runs, 0.05, clients(A=[[0.8]]))


def test_lowest_clients_are_not_ranked_against_the_seeds_in_common() -> None:
    """A's lowest client is higher on average, only because of the seeds that B lacks."""
    low = {"A": {0: 0.9, 1: 0.9, 2: 0.9, 3: 0.60, 4: 0.61, 5: 0.62}, "B": {3: 0.63, 4: 0.64, 5: 0.65}}
    rows = [
        {"run": i, "method": method, "algorithm": method, "split": seed, "seed": seed, "mean": mean, "lowest": lowest}
        for method, mean in (("A", 0.95), ("B", 0.90))
        for i, (seed, lowest) in enumerate(low[method].items())
    ]
    runs = pd.DataFrame(rows).assign(samples=1e5, tail_samples=1e5)
    assert "A's lowest 5 % is the highest, but B is ahead where both have results." in headline(runs, 0.05, clients())


def test_decimals_of_a_gap_depend_on_the_test_samples() -> None:
    assert "leads by 3 points on mean accuracy (95 % interval 3 to 3, 3 seeds)" in _headline(
        test_size=20, A=[[0.93]] * 3, B=[[0.90]] * 3
    )


def test_methods_are_compared_seed_by_seed() -> None:
    runs = per_run(clients(A=[[0.51], [0.91], [0.71]], B=[[0.50], [0.90], [0.70]]), 0.05)
    assert ranking(runs, "mean").is_clear  # although seeds differ by 40 points


def _over_splits(splits: int, seeds: int, **means: float) -> pd.DataFrame:
    """Two clients in every training; splits differ by 10 points, seeds of a split by 1."""
    rows = []
    for (method, mean), split, seed in product(means.items(), range(splits), range(seeds)):
        accuracy = mean - 0.1 * split - 0.01 * seed
        own = {"run": len(rows), "method": method, "algorithm": method, "split": split, "seed": 100 + seed}
        rows += [own | {"client": i, "accuracy": accuracy - 0.02 * i, "test_size": 1000} for i in (0, 1)]
    return pd.DataFrame(rows)


def test_seeds_of_one_split_are_no_independent_evidence() -> None:
    one, three = _over_splits(1, 5, A=0.9, B=0.8), _over_splits(3, 2, A=0.9, B=0.8)
    assert headline(per_run(one, 0.05), 0.05, one) == (
        "A is ahead of B by 10.0 points on mean accuracy (95 % interval 10.0 to 10.0 over these 2 clients); its "
        "lowest 5 % is also the highest. One split is too few to tell."
    )
    assert headline(per_run(three, 0.05), 0.05, three).startswith(
        "A leads by 10.0 points on mean accuracy (95 % interval 10.0 to 10.0, 3 splits)"
    )


def test_a_client_counts_once_in_a_split() -> None:
    rows = _over_splits(1, 4, A=0.9, B=0.8)
    rows.loc[(rows["client"] == 1) & (rows["method"] == "A"), "accuracy"] -= 0.05
    found = of_these_clients(rows, "A", "B")
    assert (found.mean, found.n) == pytest.approx((0.075, 2)) and found.high == pytest.approx(
        t_interval(np.array([0.1, 0.05])).high
    )


def test_a_single_method_gets_a_hint_instead_of_a_headline() -> None:
    assert _headline(A=[[0.8]]) == "Only A has results here; add a second method to compare."


def test_invalid_ids_in_an_address_are_ignored() -> None:
    assert parse_ids("2, 1,x,,-3,2") == [2, 1]


def test_ids_beyond_the_database_range_are_ignored() -> None:
    assert parse_ids(f"{MAX_ID},{MAX_ID + 1},99999999999999999999,{'9' * 5000}") == [MAX_ID]


def test_trials_without_test_accuracies_are_not_offered_for_comparison() -> None:
    tested, trial, queued = run_record(1), run_record(2), run_record(3, round=-1)
    trial = replace(trial, config=trial.config | {"evaluation": {"every": 1, "on": "val"}})
    assert with_rounds([tested, trial, queued]) == [tested]
