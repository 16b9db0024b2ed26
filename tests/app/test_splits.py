"""Where data have seeds of their own, numbers are over splits: tables, captions and findings say so."""

from typing import Any

import pandas as pd
import pytest

from app.charts import dumbbell, sweep
from app.compare import dials, newcomers, tables, truth
from app.compare.view import View
from app.data import queries
from app.data.comparison import doubt, methods_of, per_run, ranking
from storage import Store
from tests.app.frames import clients
from tests.app.samples import DIGITS, store_experiment

NEAR = {"A": [[0.8], [0.82], [0.81]], "B": [[0.82], [0.80], [0.80]], "C": [[0.1], [0.11], [0.12]]}
ONE_SPLIT: dict[str, Any] = {"training": {"rounds": 1, "local_steps": 1}, "splits": [7], "seeds": [0, 1]}


def of_splits(table: pd.DataFrame) -> pd.DataFrame:
    """The seeds as splits, each with one seed, which is not the split's."""
    return table.assign(split=table["seed"], seed=table["seed"] + 100)


def numbers(accuracies: pd.DataFrame) -> pd.DataFrame:
    costs = {"megabytes": 1.5, "gradient_evaluations": 200.0, "seconds": 0.25}
    return tables.data(per_run(accuracies, 0.05).assign(model="personalized", when="last", **costs))


def view_of(store: Store, *experiments: dict[str, Any]) -> View:
    for raw in experiments:
        store_experiment(store, raw)
    return View(tuple(methods_of(queries.runs(with_partition=True))))


@pytest.mark.parametrize("unit", ["seeds", "splits"])
def test_the_table_names_what_its_last_column_counts(unit: str) -> None:
    accuracies = clients(1000, **NEAR)
    accuracies = of_splits(accuracies) if unit == "splits" else accuracies
    table, title = numbers(accuracies), unit.capitalize()
    assert tables.bold_note(table) == f" Bold: may be the best by a 95 % interval over {unit}."
    assert tables.for_print(table, 5)[title].tolist() == ["3"] * 3
    assert f" {title} |" in tables.to_markdown(table, 5, "") and rf"& {title} \\" in tables.to_latex(table, 5, "")
    shown = tables.for_screen(table, accuracies.assign(model="personalized", when="last"))
    assert shown.columns[-1] == unit and shown[unit].tolist() == [3] * 3
    assert tables.column_titles(5)[unit] == title and tables.formats([unit], table) == {unit: "%d"}


def test_the_file_of_all_numbers_has_the_same_columns_for_splits() -> None:
    accuracies = clients(1000, **NEAR)
    header, *_ = tables.to_csv(numbers(accuracies)).splitlines()
    assert tables.to_csv(numbers(of_splits(accuracies))).splitlines()[0] == header and header.endswith("tail,seeds")


def test_the_doubt_counts_splits() -> None:
    assert doubt(1, [], unit="split") == "; 1 split is too few to distinguish methods"
    assert doubt(2, [], "values", "split") == "; 2 splits are too few to distinguish values"


def test_the_finding_about_newcomers_counts_splits() -> None:
    unseen = of_splits(clients(a=[[0.1, 0.2], [0.1, 0.2]], b=[[0.1, 0.3], [0.1, 0.3]]))
    found = newcomers.finding(dumbbell.data(unseen, 0.05), ranking(per_run(unseen, 0.05), "mean"))
    assert found.endswith("; 2 splits are too few to distinguish methods.")


def test_the_finding_of_a_sweep_counts_splits() -> None:
    runs = per_run(of_splits(clients(d0=[[0.5], [0.6]], d1=[[0.8], [0.8]], d2=[[0.6], [0.6]])), 0.05)
    options = {f"d{i}": {"lam": lam} for i, lam in enumerate([0.1, 1, 10])}
    rows = sweep.data(runs.assign(options=runs["method"].map(options), algorithm="ditto"), "lam")
    assert "; 2 splits are too few to distinguish values." in sweep.finding(rows, "λ", "split")
    assert "; 2 seeds are too few to distinguish values." in sweep.finding(rows, "λ")


def test_captions_of_swept_settings_name_splits(empty_store: Store) -> None:
    swept = [{"name": "ditto", "sweep": {"lam": [0.1, 1, 10]}}]
    shown = dials.figure(view_of(empty_store, DIGITS | ONE_SPLIT | {"algorithms": swept}), "lam")
    assert shown.caption is not None and "whisker: ± over splits." in shown.caption
    assert "; 1 split is too few to distinguish values." in shown.caption
    assert shown.heads["seeds"].title == "Splits"


def test_captions_about_newcomers_name_splits(empty_store: Store) -> None:
    held_out = {"partition": DIGITS["partition"] | {"holdout_clients": 0.3}, "algorithms": ["fedavg", "local_train"]}
    shown = newcomers.figure(view_of(empty_store, DIGITS | ONE_SPLIT | held_out), "mean")
    assert "; 1 split is too few to distinguish methods." in (shown.caption or "")
    assert shown.heads["seeds"].title == "Splits"


def test_captions_about_the_distance_of_true_models_name_splits(empty_store: Store) -> None:
    generated = {
        "partition": {"name": "natural"},
        "model": {"name": "logistic", "l2": 0.01},
        "algorithms": ["local_train", "fedavg"],
        **ONE_SPLIT,
    }
    data = {"name": "synthetic", "num_clients": 3, "samples_per_client": 40}
    view = view_of(empty_store, *({"name": f"R = {R}", "dataset": data | {"R": R}, **generated} for R in (0, 2)))
    (part,) = truth.parts(view, {})
    (shown,) = part.figures
    assert "whisker: ± over splits." in (shown.caption or "") and shown.heads["seeds"].title == "Splits"
