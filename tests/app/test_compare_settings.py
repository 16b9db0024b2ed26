"""The settings of compared runs: those that differ, their names, and rows pooled by one of them."""

from dataclasses import replace

import pandas as pd
import pytest

from app.compare import chosen_clients
from app.compare.effort import default_target, targets
from app.compare.headline import by_value
from app.data import config_fields
from app.data.comparison import methods_of, per_method, per_run, pooled, with_methods
from tests.app.frames import clients, run_record

IID = {"name": "iid", "num_clients": 4}
SKEWED = {"name": "dirichlet", "num_clients": 4, "alpha": 0.1}


def two_partitions() -> list:
    """Two methods on two partitions, two seeds each: runs 1 to 8."""
    made = [
        run_record(i, label, seed, partition_config=split)
        for i, (label, split, seed) in enumerate(
            [(label, split, seed) for label in ("ditto", "fedavg") for split in (IID, SKEWED) for seed in (0, 1)], 1
        )
    ]
    return methods_of(made)


def test_different_settings_are_listed_and_equal_ones_counted() -> None:
    methods = methods_of([run_record(1, algorithm_options={"lam": 1.0}), run_record(2, "fedavg")])
    assert config_fields.varied(methods) == (["algorithm.name", "algorithm.lam"], 6)
    table = config_fields.table(methods)
    assert table.to_numpy().tolist() == [["Method", "Ditto", "FedAvg"], ["Method: λ", "1", "–"]]


def test_the_seed_and_the_name_are_no_settings() -> None:
    first, second = run_record(1, seed=0), run_record(2, "mine", algorithm="ditto", seed=1)
    assert config_fields.varied(methods_of([first, second]))[0] == []


def test_the_place_of_a_run_in_its_study_is_no_setting() -> None:
    runs = [run_record(1), run_record(2, "fedavg")]
    of_study = [
        replace(run, config=run.config | {"study": {"role": "final", "entry": i, "trial": 3 * i}})
        for i, run in enumerate(runs)
    ]
    assert config_fields.varied(methods_of(of_study)) == config_fields.varied(methods_of(runs))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("dataset.name", "fashion_mnist", "Fashion-MNIST"),
        ("training.lr", 0.05, "0.05"),
        ("dataset.pool", "all", "all"),
        ("algorithm.name", "gone", "gone"),
        ("training.clip_norm", None, "none"),
        ("dataset.standardize", True, "yes"),
    ],
)
def test_values_are_formatted_for_readers(name: str, value: object, shown: str) -> None:
    assert config_fields.text(name, value) == shown


def test_runs_are_pooled_by_a_shared_setting() -> None:
    methods = two_partitions()
    assert "partition.name" in config_fields.groupings(methods) and "partition.alpha" not in config_fields.groupings(
        methods
    )
    groups = pooled(methods, lambda run: config_fields.value_of("partition.name", run))
    assert [len(group.runs) for group in groups] == [4, 4]
    assert {group.algorithm for group in groups} == {"pooled"}


def test_a_setting_that_is_unique_per_method_pools_nothing() -> None:
    methods = methods_of([run_record(1), run_record(2, "fedavg")])
    assert "algorithm.name" in config_fields.varied(methods)[0] and config_fields.groupings(methods) == []


def test_rows_pooled_by_method_keep_its_style() -> None:
    groups = pooled(two_partitions(), lambda run: config_fields.value_of("algorithm.name", run))
    assert [(g.name, g.algorithm, g.run_ids) for g in groups] == [
        ("Ditto", "ditto", (1, 2, 3, 4)),
        ("FedAvg", "fedavg", (5, 6, 7, 8)),
    ]


def test_a_pooled_row_averages_its_runs() -> None:
    frame = clients(ditto=[[0.2], [0.4]], fedavg=[[0.6], [0.8]]).drop(columns="method")
    methods = methods_of(
        [
            run_record(i, label, seed)
            for i, (label, seed) in enumerate([("ditto", 0), ("ditto", 1), ("fedavg", 0), ("fedavg", 1)], 1)
        ]
    )
    rows = per_method(per_run(with_methods(frame, pooled(methods, lambda run: "all")), 0.05))
    assert rows[["method", "seeds"]].to_numpy().tolist() == [["all", 4]] and rows["mean"].iloc[0] == pytest.approx(0.5)


def test_runs_that_differ_in_more_than_the_axis_are_not_averaged() -> None:
    def run(number: int, R: float, samples: int, label: str = "fedavg"):
        return run_record(number, label, dataset={"name": "synthetic", "R": R, "samples_per_client": samples})

    runs = [run(1, 0.0, 50), run(2, 2.0, 50), run(3, 0.0, 200), run(4, 0.0, 50, "ditto"), run(5, 2.0, 50, "ditto")]
    names = config_fields.names_along(runs, "dataset.R")
    assert names[1] == names[2] == "FedAvg, Samples per client = 50" and names[3] == "FedAvg, Samples per client = 200"
    assert names[4] == names[5] == "Ditto"


def test_pooled_runs_have_no_leader() -> None:
    runs = per_run(clients(**{"α = 0.1": [[0.5]], "α = 1": [[0.75]]}, test_size=1000), 0.05)
    assert by_value(runs) == "Mean accuracy: 50.0 % for α = 0.1, 75.0 % for α = 1."


def test_targets_lie_between_the_lowest_and_the_highest_accuracy() -> None:
    best = pd.Series({"a": 0.801, "b": 0.85, "c": 0.912})
    titles = targets(best, "accuracy")
    assert (next(iter(titles.values())), list(titles.values())[-1]) == ("81 %", "91 %")
    assert default_target(best, list(titles), "accuracy") == "0.85"
    assert targets(pd.Series({"a": 0.8, "b": 0.8}), "accuracy") == {}
    errors = targets(pd.Series({"a": 1.0, "b": 4.0}), "error")
    assert (next(iter(errors)), list(errors)[-1]) == ("4", "1")


@pytest.mark.parametrize(("best", "hardest"), [(0.012349, "0.0124"), (0.0123, "0.0123"), (0.99961, "1"), (3.9961, "4")])
def test_the_best_method_reaches_the_hardest_error_target(best: float, hardest: str) -> None:
    (*_, last) = targets(pd.Series({"a": best, "b": 40.0}), "error")
    assert last == hardest and float(last) >= best


@pytest.mark.parametrize(("sent", "values"), [({"0": 3, "1": 7}, [3, 7]), ([3, 7], [3, 7]), ("Ditto", ["Ditto"])])
def test_the_selection_of_a_mark_has_any_of_three_formats(sent: object, values: list) -> None:
    assert chosen_clients.values(sent) == values
