"""The Papers page: no runs, some runs, all runs, and runs that only resemble the paper's."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.data import preset_catalog
from app.papers.card import Card
from app.papers.compare_section import of_runs
from app.papers.gallery import QUICK
from app.papers.result import PANELS
from engine.config.presets import presets as presets_of_the_product
from storage import Store
from tests.app.pages import open_page, words
from tests.app.samples import store_experiment

opened = partial(open_page, "papers")

TINY: dict[str, Any] = {
    "name": "tiny, quick",
    "dataset": {"name": "digits"},
    "partition": {"name": "iid", "num_clients": 4},
    "model": {"name": "mlr"},
    "training": {"rounds": 2, "local_steps": 2},
    "seeds": [0, 1],
    "algorithms": [{"name": "fedavg", "label": "FedAvg"}, {"name": "ditto", "label": "Ditto"}],
}
FIGURE = {**TINY, "name": "figure, quick", "seeds": [0], "algorithms": [{"name": "cgpfl", "K": 2, "label": "CGPFL"}]}
PRESETS: list[dict[str, Any]] = [
    {
        "name": "tiny-table",
        "title": "A tiny table",
        "document": "CGPFL",
        "item": "Table 1",
        "source": "test",
        "shows": "Two methods.",
        "cut": "Nearly all of it.",
        "paper": {
            "table": "cgpfl_table1.csv",
            "measures": {"accuracy": "weighted_mean"},
            "methods": {"FedAvg": "FedAvg", "Ditto": "Ditto"},
            "experiments": {"tiny, quick": {"dataset": "MNIST", "model": "MLR"}},
        },
        "scales": {"quick": [TINY]},
    },
    {
        "name": "tiny-figure",
        "title": "A tiny figure",
        "document": "PLGU",
        "item": "Figure 4",
        "source": "test",
        "view": {"page": "run", "tab": "clusters", "note": "No numbers are printed."},
        "scales": {"quick": [FIGURE]},
    },
]


@pytest.fixture(autouse=True)
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    for preset in PRESETS:
        (folder / f"{preset['name']}.yaml").write_text(yaml.safe_dump(preset, sort_keys=False))
    monkeypatch.setattr(preset_catalog, "FOLDER", folder)


def test_the_list_has_every_figure_and_table_under_its_paper(empty_store: Store) -> None:
    page = opened()
    assert [header.value for header in page.header] == ["CGPFL", "PLGU"]
    assert "[A tiny table](/papers?preset=tiny-table)" in words(page)
    assert "Not run yet: 4 runs" in words(page)


def test_without_runs_only_published_numbers_are_shown(empty_store: Store) -> None:
    page = opened(preset="tiny-table")
    assert "0 of 4 runs done" in words(page) and "Nearly all of it." in words(page)
    assert "No completed runs at quick scale yet for the 2 printed numbers." in words(page)
    table = page.dataframe[0].value
    assert table["paper"].tolist() == [88.63, 89.96] and table["ours"].isna().all()


def test_one_button_queues_all_runs_and_the_page_confirms_it(empty_store: Store) -> None:
    page = opened(preset="tiny-table")
    button = next(b for b in page.button if b.label == "Run the quick version (4 runs)")
    button.click().run()
    assert empty_store.queue.counts() == {"queued": 4}
    assert "0 of 4 runs done, 4 queued" in words(page)
    assert not [b for b in page.button if b.label.startswith("Run")]


def test_finished_runs_are_shown_next_to_the_paper_with_differences(empty_store: Store) -> None:
    store_experiment(empty_store, TINY)
    page = opened(preset="tiny-table")
    runs = empty_store.queue.runs()
    own = [[run.summary for run in runs if run.label == label] for label in ("FedAvg", "Ditto")]
    table = page.dataframe[0].value
    means = [sum(s["personalized"]["weighted_mean"] for s in two if s) / 2 for two in own]
    assert (table["ours"] / 100).tolist() == pytest.approx(means)
    assert (table["difference"] - (table["ours"] - table["paper"])).abs().max() < 1e-9
    assert table["seeds"].tolist() == ["2 of 2", "2 of 2"]
    assert "4 of 4 runs done" in words(page) and "At quick scale" in words(page)
    assert "[Compare](/compare?runs=1%2C2%2C3%2C4)" in words(page)
    assert len(page.get("plotly_chart")) == 1
    assert "2 of the 45 numbers" in words(page)


def test_runs_of_another_experiment_with_the_same_settings_are_used(empty_store: Store) -> None:
    store_experiment(empty_store, {**TINY, "name": "my own name", "seeds": [1]})
    page = opened(preset="tiny-table")
    assert "2 of 4 runs done" in words(page)
    assert page.dataframe[0].value["seeds"].tolist() == ["1 of 2", "1 of 2"]
    assert [b.label for b in page.button if b.label.startswith("Run")] == ["Run the quick version (4 runs)"]
    assert "2 of these runs exist and are shown below" in words(page)


def test_archived_runs_are_no_results(empty_store: Store) -> None:
    store_experiment(empty_store, TINY)
    empty_store.queue.archive([1, 2, 3, 4])
    assert "0 of 4 runs done" in words(opened(preset="tiny-table"))


def test_runs_with_different_settings_are_not_used(empty_store: Store) -> None:
    store_experiment(empty_store, {**TINY, "training": {"rounds": 1, "local_steps": 2}})
    page = opened(preset="tiny-table")
    assert "training.rounds 1 instead of 2; their numbers are excluded" in words(page)
    assert page.dataframe[0].value["ours"].isna().all()


def test_a_figure_without_numbers_links_to_the_page_that_draws_it(empty_store: Store) -> None:
    store_experiment(empty_store, FIGURE)
    text = words(opened(preset="tiny-figure"))
    assert "No numbers are printed." in text and "[CGPFL](/run?id=1&tab=clusters)" in text


@pytest.mark.slow
def test_figures_of_compare_are_also_drawn_here(empty_store: Store) -> None:
    view = {"page": "compare", "panels": ["over_time"], "note": "Below, the same figure."}
    figure = {**PRESETS[1], "name": "drawn", "view": view, "scales": {"quick": [TINY]}}
    (preset_catalog.FOLDER / "drawn.yaml").write_text(yaml.safe_dump(figure, sort_keys=False))
    assert not opened(preset="drawn").get("plotly_chart")
    store_experiment(empty_store, TINY)
    assert len(opened(preset="drawn").get("plotly_chart")) == 2


def test_every_panel_of_a_preset_can_be_drawn() -> None:
    assert {panel for preset in presets_of_the_product() if preset.view for panel in preset.view.panels} <= set(PANELS)


def test_only_missing_experiments_are_queued(empty_store: Store) -> None:
    two = {**PRESETS[1], "name": "two", "scales": {"quick": [FIGURE, TINY]}}
    (preset_catalog.FOLDER / "two.yaml").write_text(yaml.safe_dump(two, sort_keys=False))
    store_experiment(empty_store, FIGURE)
    page = opened(preset="two")
    next(b for b in page.button if b.label == "Run missing experiments (4 runs)").click().run()
    assert empty_store.queue.counts() == {"done": 1, "queued": 4}
    assert "1 of 5 runs done, 4 queued" in words(page)


def test_the_time_is_measured_on_demand(empty_store: Store) -> None:
    page = opened(preset="tiny-figure")
    next(b for b in page.button if b.label == "Estimate the time here").click().run()
    assert re.search(r"About \d+ s on 1 slot; .* on disk", words(page))


def test_compare_shows_the_cells_of_its_runs(empty_store: Store) -> None:
    store_experiment(empty_store, {**TINY, "seeds": [0]})
    store_experiment(empty_store, {**TINY, "name": "another name", "seeds": [1]})
    ((preset, scale, table),) = of_runs(empty_store.queue.runs())
    assert (preset.name, scale) == ("tiny-table", "quick")
    assert table["paper"].tolist() == [0.8863, 0.8996] and table["seeds"].tolist() == [1, 1]
    assert of_runs(run for run in empty_store.queue.runs() if run.experiment_name == "another name") == []


def test_an_unknown_figure_is_reported_above_the_list(empty_store: Store) -> None:
    page = opened(preset="tiny-tabel")
    assert "No figure or table named “tiny-tabel”" in words(page) and len(page.header) == 2
    assert not opened().warning


def test_the_gallery_says_that_quick_scale_is_not_expected_to_match_the_papers() -> None:
    assert QUICK in words(opened())


def test_the_mark_of_a_card_has_its_meaning_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(verdict="1 of 2 claims holds here", claims={"a": "holds", "b": "fails"})
    monkeypatch.setattr("app.papers.gallery.card_of", lambda results: card)
    assert 'role="img" aria-label="Holds in part"' in words(opened())
