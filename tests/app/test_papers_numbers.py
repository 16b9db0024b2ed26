"""Published numbers next to ours: means, deviations, differences and missing values, checked by hand."""

import numpy as np
import pytest

from app.charts import paper_comparison
from app.data.preset_catalog import PresetRun
from app.papers.preset_progress import Standing, changed_sentence, differences
from engine.config.paper_tables import Cell
from storage import RunRecord
from tests.app.frames import run_record


def run(number: int, label: str, status: str = "done", **summaries: dict[str, float]) -> RunRecord:
    return run_record(number, label, number, algorithm="fedavg", status=status, summary=summaries)


def cell(label: str, value: float | None, model: str = "personalized", measure: str = "mean") -> Cell:
    return Cell("e", label, model, measure, value, "2")


def test_our_number_is_the_mean_over_seeds_with_its_sample_deviation() -> None:
    runs = [run(0, "A", personalized={"mean": 0.90}), run(1, "A", personalized={"mean": 0.94})]
    row = paper_comparison.data([cell("A", 0.95)], {("e", "A"): runs}).iloc[0]
    assert row["ours"] == pytest.approx(0.92) and row["pm"] == pytest.approx(0.04 / np.sqrt(2))
    assert row["difference"] == pytest.approx(-0.03)
    assert (row["seeds"], row["seeds_planned"]) == (2, 2)


def test_one_seed_has_no_deviation_and_only_finished_seeds_count() -> None:
    runs = [run(0, "A", personalized={"mean": 0.9}), run(1, "A", "running", personalized={"mean": 0.1}), None]
    row = paper_comparison.data([cell("A", 0.95)], {("e", "A"): runs}).iloc[0]
    assert row["ours"] == 0.9 and np.isnan(row["pm"]) and (row["seeds"], row["seeds_planned"]) == (1, 3)


def test_the_global_model_and_the_tails_have_separate_cells() -> None:
    own = run(0, "A", personalized={"mean": 0.9, "lowest5": 0.5}, **{"global": {"mean": 0.7, "std": 0.03, "cv": 0.04}})
    cells = [cell("A", 0.9, "global"), cell("A", 0.6, measure="lowest5"), cell("A", 0.05, "global", "cv")]
    table = paper_comparison.data(cells, {("e", "A"): [own]})
    assert table["ours"].tolist() == [0.7, 0.5, 0.04]
    assert table["difference"].tolist() == pytest.approx([-0.2, -0.1, -0.01])


def test_an_unreadable_cell_shows_our_number_without_a_difference() -> None:
    table = paper_comparison.data([cell("A", None)], {("e", "A"): [run(0, "A", personalized={"mean": 0.9})]})
    assert np.isnan(table["paper"][0]) and table["ours"][0] == 0.9 and np.isnan(table["difference"][0])
    assert "No completed runs at quick scale yet for the 1 printed number" in paper_comparison.finding(table, "quick")


def test_the_cell_of_a_missing_model_is_empty() -> None:
    table = paper_comparison.data([cell("A", 0.5, "global")], {("e", "A"): [run(0, "A", personalized={"mean": 0.9})]})
    assert np.isnan(table["ours"][0]) and table["seeds"][0] == 0


def test_a_label_without_a_run_at_this_scale_is_left_out() -> None:
    assert paper_comparison.data([cell("B", 0.5)], {("e", "A"): [None]}).empty


def test_the_finding_counts_cells_within_a_point_and_names_the_largest_difference() -> None:
    runs = {("e", label): [run(0, label, personalized={"mean": ours})] for label, ours in (("A", 0.91), ("B", 0.6))}
    table = paper_comparison.data([cell("A", 0.90), cell("B", 0.8)], runs)
    text = paper_comparison.finding(table, "quick")
    assert "At quick scale" in text and "1 of 2 cells is within 1 point" in text
    assert "Largest difference: B" in text and "paper 80.00 %, ours 60.00 %, −20.00 points" in text


def test_the_figure_has_a_ring_for_the_paper_and_a_dot_for_our_number() -> None:
    runs = {("e", "A"): [run(0, "A", personalized={"mean": 0.9})], ("e", "B"): [None]}
    table = paper_comparison.data([cell("A", 0.95), cell("B", 0.8)], runs)
    marks = [t for t in paper_comparison.figure(table).data if t.mode == "markers"]
    assert [t.x[0] for t in marks if t.marker.symbol == "circle-open"] == pytest.approx([95, 80])
    assert [t.x[0] for t in marks if t.marker.symbol != "circle-open"] == pytest.approx([90])


def test_the_table_is_in_percent_and_shows_the_seeds() -> None:
    shown = paper_comparison.for_screen(paper_comparison.data([cell("A", 0.95)], {("e", "A"): [None, None]}))
    assert shown[["paper", "seeds", "table"]].to_numpy().tolist() == [[95.0, "0 of 2", "2"]]


def test_progress_counts_finished_runs_and_names_missing_ones() -> None:
    wants = [PresetRun(e, "A", "fedavg", 0, d) for e, d in (("e", "1"), ("e", "2"), ("f", "3"), ("g", "4"))]
    pairs = zip(wants, [run(1, "A"), run(2, "A", "running"), run(3, "A", "failed"), None], strict=True)
    now = Standing(tuple(pairs))
    assert now.sentence() == "1 of 4 runs done, 1 running, 1 failed"
    assert now.unfinished == ["f", "g"] and now.is_active


def test_differences_list_fields_that_affect_results() -> None:
    expected = {"name": "e", "seed": 0, "training": {"rounds": 200, "lr": 0.1}, "dataset": {"name": "mnist"}}
    other = {**expected, "seed": 1, "training": {"rounds": 20, "lr": 0.1}, "dataset": {"name": "mnist", "pool": "x"}}
    assert differences(expected, other) == ["training.rounds 20 instead of 200", "dataset.pool x instead of unset"]
    assert "excluded" in changed_sentence("e", ["training.rounds 20 instead of 200"])
