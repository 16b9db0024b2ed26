"""A study among the papers: not run, in progress, finished, and a study that only resembles it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.actions import exchange, launch
from app.data import preset_catalog, queries, shipped
from app.papers.study_result import study_result
from benchmarks import study_results
from engine.exchange.records import load_result
from engine.export.document import run_document
from storage import Store
from tests.app.pages import open_page, words
from tests.app.studies import STUDY, queue_study
from tests.support.presses import press_during, reported

opened = partial(open_page, "papers")

LARGE: dict[str, Any] = {**STUDY, "name": "large study", "tune": {"trials": 4}}
PRESET: dict[str, Any] = {
    "name": "tiny-study",
    "title": "A tiny study",
    "item": "Study",
    "source": "test",
    "shows": "Three methods.",
    "scales": {"quick": [STUDY], "paper": [LARGE]},
}


@pytest.fixture(autouse=True)
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "tiny-study.yaml").write_text(yaml.safe_dump(PRESET, sort_keys=False))
    monkeypatch.setattr(preset_catalog, "FOLDER", folder)


def test_a_press_before_a_study_is_queued_queues_nothing_and_the_page_says_so(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(preset="tiny-study")
    states = reported(page)
    page.button(key="papers_run_tiny-study_quick").click()
    press_during(monkeypatch, launch, "new_runs", widget_states=states)
    page.run()
    assert page.warning[0].value.startswith("Nothing was queued: ") and empty_store.experiments.list() == []


@pytest.mark.slow
def test_a_study_can_be_queued_and_followed(empty_store: Store) -> None:
    assert "Not run yet: 18 trials on validation data, then at most 18 final runs." in words(opened())
    page = opened(preset="tiny-study")
    assert "18 trials on validation data, then at most 18 final runs." in words(page)
    assert "Open the study" not in words(page)
    page.button(key="papers_run_tiny-study_quick").click().run()
    text = "Trials 0 of 18, final runs wait for 3 methods."
    assert text in words(page) and text in words(opened())
    assert "[Open the study](/study?experiment=1)" in words(page) and "[Watch live](/live?experiment=1)" in words(page)
    assert not [button for button in page.button if button.key.startswith("papers_run")]


@pytest.mark.slow
def test_a_finished_study_shows_its_finding_and_can_be_opened(read_study_store: Store) -> None:
    title = open_page("study").title[0].value
    page = opened(preset="tiny-study")
    assert "[Open the study](/study?experiment=1)" in words(page)
    assert f"{title}." in words(page) and "Trials" not in words(page) and "Watch live" not in words(page)
    assert title in (cards := words(opened())) and "data:image/svg+xml," in cards
    assert "36 trials on validation data" in words(opened(preset="tiny-study", scale="paper"))


def test_a_study_is_found_by_its_settings(empty_store: Store) -> None:
    preset = preset_catalog.known()["tiny-study"]
    queue_study(empty_store, {**STUDY, "seeds": [7]})
    assert study_result(preset, "quick").own is None
    named = queue_study(empty_store, {**STUDY, "name": "mine", "threads": 2})
    found = study_result(preset, "quick").own
    assert found is not None and found.experiment.id == named.id and study_result(preset, "paper").own is None


def test_a_study_that_has_not_finished_cannot_be_shipped(empty_store: Store) -> None:
    queue_study(empty_store)
    with pytest.raises(SystemExit, match="no finished study"):
        study_results.main(["tiny-study", "--db", empty_store.url])


@pytest.mark.slow
def test_a_shipped_study_has_the_numbers_that_were_computed(
    study_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = preset_catalog.known()["tiny-study"]
    monkeypatch.setattr(shipped, "STUDIES", tmp_path / "studies")
    study_results.main(["tiny-study", "--db", study_store.url])
    copy = exchange.load_study(preset, "quick")
    first, second = (numbers(study_store, experiment) for experiment in (1, copy.id))
    assert len(first) > 18 and first == second
    chosen = [
        [(choice.entry, choice.split, choice.trial) for choice in study_store.studies.choices(experiment)]
        for experiment in (1, copy.id)
    ]
    assert chosen[0] == chosen[1] and copy.example


def numbers(store: Store, experiment: int) -> dict[tuple[str, int | None, int], tuple[Any, Any]]:
    """Rounds and summary of each run."""
    found = [run_document(load_result(store, run)) for run in queries.runs(experiment_ids=[experiment])]
    return {(one["label"], one["data_seed"], one["seed"]): (one["rounds"], one["summary"]) for one in found}
