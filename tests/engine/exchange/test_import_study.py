"""A study keeps its choices in an export document, and is imported whole."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine import run
from engine.core.errors import InvalidConfig
from engine.exchange.bundle import write_bundle
from engine.exchange.import_runs import Imported, import_file
from engine.exchange.records import choices_of, export_config, load_result
from engine.export.choices import ChoiceEntry
from engine.export.document import export_text
from storage import RunRecord, Store

STUDY = {
    "name": "study",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 3, "val_fraction": 0.25},
    "model": "mlr",
    "training": {"rounds": 1, "local_steps": 1},
    "algorithms": ["fedavg"],
    "splits": [4],
    "seeds": [0],
    "tune": {"trials": 2},
}
CHOICE: dict[str, Any] = {
    "experiment": 0,
    "entry": "fedavg",
    "split": 4,
    "trial": 1,
    "value": 0.5,
    "error": 0.1,
    "considered": 2,
    "tied": 1,
    "chosen_at": datetime(2026, 1, 1, tzinfo=UTC).isoformat(),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """A study as older versions exported it: without its choices."""
    found: dict[str, Any] = json.loads(run(STUDY).to_json())
    return {key: found[key] for key in ("config", "runs")}


def imported(store: Store, tmp_path: Path, document: dict[str, Any]) -> Imported:
    path = tmp_path / "study.json"
    path.write_text(json.dumps(document))
    return import_file(store, path)


def runs_of(store: Store, experiment_id: int) -> list[RunRecord]:
    return store.queue.runs(experiment_ids=[experiment_id], newest_first=False)


def chosen(store: Store, experiment_id: int) -> list[tuple[str, int, int, float | None]]:
    return [(c.entry, c.split, c.trial, c.value) for c in store.studies.choices(experiment_id)]


def test_a_document_carries_a_study_with_its_choices(store: Store, tmp_path: Path, document: dict[str, Any]) -> None:
    done = imported(store, tmp_path, document | {"choices": [CHOICE]})
    assert not done.notes and chosen(store, done.experiments[0].id) == [("fedavg", 4, 1, 0.5)]
    runs = runs_of(store, done.experiments[0].id)
    again = export_text(export_config(store, runs), (load_result(store, r) for r in runs), choices_of(store, runs))
    (choice,) = json.loads(again)["choices"]
    assert ChoiceEntry.model_validate(choice) == ChoiceEntry.model_validate(CHOICE)


def test_choices_that_an_older_document_lacks_are_noted_and_added_by_a_later_file(
    store: Store, tmp_path: Path, document: dict[str, Any]
) -> None:
    older = imported(store, tmp_path, document)
    study_id = older.experiments[0].id
    assert "does not have all choices of this study" in older.notes[0] and not chosen(store, study_id)
    later = imported(store, tmp_path, document | {"choices": [CHOICE]})
    assert not later.experiments and not later.notes and len(later.known) == len(document["runs"])
    assert chosen(store, study_id) == [("fedavg", 4, 1, 0.5)]


def test_a_bundle_adds_the_choices_that_an_older_document_lacked(
    store: Store, tmp_path: Path, document: dict[str, Any]
) -> None:
    whole = imported(store, tmp_path, document | {"choices": [CHOICE]}).experiments[0]
    write_bundle(store, tmp_path / "study.zip", runs_of(store, whole.id))
    store.experiments.delete([whole.id])
    older = imported(store, tmp_path, document).experiments[0]
    repaired = import_file(store, tmp_path / "study.zip")
    assert not repaired.experiments and not repaired.notes
    assert chosen(store, older.id) == [("fedavg", 4, 1, 0.5)]


def test_trials_without_final_runs_need_no_choices(store: Store, tmp_path: Path, document: dict[str, Any]) -> None:
    trials = [one for one in document["runs"] if one["study"]["role"] == "trial"]
    assert not imported(store, tmp_path, document | {"runs": trials}).notes


def test_a_study_of_which_a_part_was_imported_is_imported_whole(
    store: Store, tmp_path: Path, document: dict[str, Any]
) -> None:
    part = imported(store, tmp_path, document | {"runs": document["runs"][1:], "choices": [CHOICE]})
    whole = imported(store, tmp_path, document | {"choices": [CHOICE]})
    assert not whole.known and whole.experiments[0].num_runs == len(document["runs"])
    for again in (document["runs"], document["runs"][1:]):
        known = imported(store, tmp_path, document | {"runs": again, "choices": [CHOICE]})
        assert not known.experiments and len({store.queue.get(k.run_id).experiment_id for k in known.known}) == 1
    assert chosen(store, part.experiments[0].id) == chosen(store, whole.experiments[0].id)


def test_choices_do_not_reach_a_study_with_another_configuration(
    store: Store, tmp_path: Path, document: dict[str, Any]
) -> None:
    other = document["config"] | {"tune": {"trials": 2, "per": "first"}}
    first = imported(store, tmp_path, document | {"config": other})
    assert imported(store, tmp_path, document | {"choices": [CHOICE]}).experiments
    assert not chosen(store, first.experiments[0].id)


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ([CHOICE, CHOICE], "'fedavg' on split 4 is chosen twice"),
        ([CHOICE | {"entry": "other"}], "'other' on split 4 is not tuned by its experiment"),
        ([CHOICE | {"experiment": 1}], "'fedavg' on split 4 is not tuned by its experiment"),
        ([CHOICE | {"considered": 0}], "considered"),
    ],
)
def test_choices_that_cannot_be_are_refused(
    store: Store, tmp_path: Path, document: dict[str, Any], choices: list[Any], problem: str
) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        imported(store, tmp_path, document | {"choices": choices})
    assert store.experiments.list() == []
