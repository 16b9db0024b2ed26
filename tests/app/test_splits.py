"""Where data have seeds of their own, numbers are over splits: tables, captions and findings say so."""

from typing import Any

import pandas as pd
import pytest

from app.charts import communication, cost, dumbbell, error_over_R, sweep
from app.compare import accuracy, dials, newcomers, tables, truth
from app.compare import cost as compare_cost
from app.compare.view import View
from app.data import queries
from app.data.comparison import Method, doubt, methods_of, per_run, ranking, surpassed
from storage import Store
from tests.app.frames import clients
from tests.app.pages import open_page
from tests.app.samples import DIGITS, store_experiment

NEAR = {"A": [[0.8], [0.82], [0.81]], "B": [[0.82], [0.80], [0.80]], "C": [[0.1], [0.11], [0.12]]}
ONE_SPLIT: dict[str, Any] = {"training": {"rounds": 1, "local_steps": 1}, "splits": [7], "seeds": [0, 1]}


def of_splits(table: pd.DataFrame) -> pd.DataFrame:
    """The seeds as splits, each with one seed, which is not the split's."""
    return table.assign(split=table["seed"], seed=table["seed"] + 100)


def numbers(accuracies: pd.DataFrame, counted: str) -> pd.DataFrame:
    costs = {"megabytes": 1.5, "gradient_evaluations": 200.0, "seconds": 0.25}
    runs = per_run(accuracies, 0.05).assign(model="personalized", when="last", **costs)
    return tables.data(runs, counted=counted)


def view_of(store: Store, *experiments: dict[str, Any]) -> View:
    for raw in experiments:
        store_experiment(store, raw)
    return View(tuple(methods_of(queries.runs(with_partition=True))))


def test_methods_are_ordered_by_their_mean_over_splits() -> None:
    rows = clients(1000, A=[[0.9]] * 5 + [[0.6]] * 2, B=[[0.92], [0.62], [0.62]])
    rows["split"] = [0, 0, 0, 0, 0, 1, 2, 0, 1, 2]
    view = View(tuple(Method(name, "fedavg", ()) for name in ("A", "B")))
    view._kept["clients", view.model, view.when] = rows
    assert view.ranked() == ["B", "A"]


@pytest.mark.parametrize("unit", ["seeds", "splits", "pooled runs"])
def test_the_table_names_what_its_last_column_counts(unit: str) -> None:
    accuracies = clients(1000, **NEAR)
    accuracies = of_splits(accuracies) if unit == "splits" else accuracies
    table, title = numbers(accuracies, unit), unit.capitalize()
    over = f"over {unit}, not corrected for the number of methods"
    assert tables.bold_note(table) == f" Bold: may be the best by 95 % intervals {over}."
    assert tables.for_print(table, 5)[title].tolist() == ["3"] * 3
    assert f" {title} |" in tables.to_markdown(table, 5, "") and rf"& {title} \\" in tables.to_latex(table, 5, "")
    shown = tables.for_screen(table, accuracies.assign(model="personalized", when="last"))
    assert shown.columns[-1] == unit and shown[unit].tolist() == [3] * 3
    assert tables.column_titles(5)[unit] == title and tables.formats([unit], table) == {unit: "%d"}


def test_the_file_of_all_numbers_has_the_same_columns_for_splits() -> None:
    accuracies = clients(1000, **NEAR)
    header, *_ = tables.to_csv(numbers(accuracies, "seeds")).splitlines()
    assert tables.to_csv(numbers(of_splits(accuracies), "splits")).splitlines()[0] == header and header.endswith(
        "tail,seeds"
    )


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


def test_the_dumbbell_counts_splits_on_hover() -> None:
    _, _, means = dumbbell.figure(dumbbell.data(of_splits(clients(a=[[0.5], [0.7]])), 0.05)).data
    assert means.hovertext[0].endswith("<br>1 of 1 clients, 2 splits")


def test_effort_counts_the_runs_of_splits() -> None:
    rows = [(m, split, seed) for m in ("fast", "slow", "lucky") for split in (7, 8) for seed in (0, 1)]
    runs = pd.DataFrame(rows, columns=["method", "split", "seed"])
    runs = runs.assign(run=runs.index, algorithm=runs["method"], options=[{}] * len(runs))
    until = dict(enumerate([20] * 4 + [30] * 4 + [5] * 3))
    spent = pd.DataFrame({"run": list(until), "megabytes": 1.0, "gradient_evaluations": 10.0})
    found = communication.data(runs, until, spent)
    marks = communication.figure(found, "rounds", "90 %").data[1::2]
    assert [list(trace.customdata) for trace in marks] == [["4 of 4 runs"], ["3 of 4 runs"], ["4 of 4 runs"]]
    assert "fast (20); 2 splits are too few to distinguish methods." in communication.finding(found, "rounds", "90 %")
    assert communication.missed(["lucky"], found) == "Hollow, not reached with every run: lucky."
    lucky = found[found["method"] == "lucky"]
    assert communication.finding(lucky, "rounds", "90 %") == "No method reaches 90 % with every run."


def test_the_finding_about_errors_counts_splits() -> None:
    rows = of_splits(pd.DataFrame({"method": ["a", "b"], "seed": 0, "R": 0, "error": [1.0, 2.0]}))
    found = error_over_R.finding(error_over_R.data(rows.assign(algorithm=rows["method"])))
    assert found == "Lowest error: a at R = 0 (1); fewer than three splits are too few to distinguish methods."


def test_the_title_of_costs_counts_splits() -> None:
    rows = per_run(of_splits(clients(1000, Dear=[[0.9]] * 2, Cheap=[[0.8]] * 2)), 0.05)
    rows = rows.assign(megabytes=rows["method"].map({"Dear": 30.0, "Cheap": 10.0}))
    found = cost.heading(cost.data(rows, "megabytes"), ranking(rows, "mean").tied, surpassed(rows, "mean"), "megabytes")
    assert found.endswith("for 20 MB more, over two splits")


def test_captions_of_swept_settings_name_splits(empty_store: Store) -> None:
    swept = [{"name": "ditto", "sweep": {"lam": [0.1, 1, 10]}}]
    shown = dials.figure(view_of(empty_store, DIGITS | ONE_SPLIT | {"algorithms": swept}), "lam")
    assert shown.caption is not None and "whisker: ± one standard deviation over splits." in shown.caption
    assert "; 1 split is too few to distinguish values." in shown.caption
    assert shown.heads["seeds"].title == "Splits"


@pytest.mark.slow
def test_tables_of_charts_name_what_they_count_and_have_no_internal_columns(empty_store: Store) -> None:
    view = view_of(empty_store, DIGITS | ONE_SPLIT | {"algorithms": ["fedavg", "local_train"]})
    figures = [one for part in compare_cost.parts(view, view, {}) for one in part.figures]
    of = {one.key: one for one in [*figures, accuracy.low_mean_top(view, "mean", ())]}
    titles = {key: one.heads["seeds"].title for key, one in of.items()}
    assert titles == {"curves": "Splits", "cost": "Splits", "effort": "Runs", "dumbbell": "Splits"}
    assert of["effort"].heads["seeds_run"].title == "All runs"
    for key in ("cost", "effort", "dumbbell"):
        assert not set(of[key].table) & {"unit", "splits", "samples", "tail_samples", "may_be_best"}


def test_the_list_of_methods_counts_runs_where_splits_have_several(empty_store: Store) -> None:
    for seeds in (ONE_SPLIT, {"training": ONE_SPLIT["training"], "seeds": [0, 1]}):
        store_experiment(empty_store, DIGITS | seeds | {"algorithms": ["fedavg", "local_train"]})
    methods = next(one for one in open_page("compare", runs="1,2").multiselect if one.label.startswith("Methods"))
    assert [option.rpartition(" · ")[2] for option in methods.options] == ["2 seeds"] * 2 + ["2 runs"] * 2


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
    assert (
        "whisker: ± one standard deviation over splits." in (shown.caption or "")
        and shown.heads["seeds"].title == "Splits"
    )
    assert not set(shown.table) & {"unit", "may_be_best"}
