"""Export and import of the Library: documents, tables, bundles, and invalid files."""

import json
import sqlite3
import zipfile
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from app.actions import exchange
from app.compare.selection import newest
from app.library import sources
from app.library.export import IF_IT_FAILS
from app.library.file_kinds import what_else
from engine.core.errors import InvalidConfig
from storage import ArtifactDamaged, RunNotFound, Store
from tests.app.pages import open_page
from tests.app.samples import DIGITS
from tests.support.forging import models
from tests.support.presses import press_during, reported

opened = partial(open_page, "library")
COPY = "An experiment named “four methods on digits” existed already; the new one is marked (imported)."


def a_zip(version: int = 20) -> bytes:
    """A ZIP file whose member needs this version to be read."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("notes.txt", "hello")
    data = bytearray(file.getvalue())
    data[data.rfind(b"PK\x01\x02") + 6] = version
    return bytes(data)


def export_buttons(*run_ids: int) -> dict[str, str]:
    """The labels of the buttons that write a file, each with its help."""
    page = opened(runs=",".join(map(str, run_ids)))
    return {button.label: button.help for button in page.download_button}


def test_an_export_is_imported_once_as_the_same_runs(filled_store: Store) -> None:
    document = exchange.json_of([1, 3])
    progress: list[tuple[int, int]] = []
    (experiment,) = exchange.import_bytes("runs.json", document, lambda *at: progress.append(at)).experiments
    assert experiment.num_runs == 2 and progress == [(1, 2), (2, 2)]
    new = filled_store.queue.runs(experiment_ids=[experiment.id], newest_first=False)
    again = json.loads(exchange.json_of([run.id for run in new]))
    assert [run["rounds"] for run in again["runs"]] == [run["rounds"] for run in json.loads(document)["runs"]]
    twice = exchange.import_bytes("runs.json", document)
    assert twice.experiments == () and len(twice.known) == 2


def test_a_bundle_has_models_and_no_unfinished_runs(filled_store: Store) -> None:
    weights = models(10, initial_w=(3,), personalized_w=(10, 3))
    file = filled_store.artifacts.write_file(1, "model-last", 5, weights)
    filled_store.artifacts.register(1, None, file)
    (waiting,) = filled_store.queue.rerun([2])
    (experiment,) = exchange.import_bytes("runs.zip", exchange.bundle_of([1, waiting.id])).experiments
    (run,) = filled_store.queue.runs(experiment_ids=[experiment.id])
    stored = filled_store.artifacts.latest(run.id, "model-last")
    assert stored is not None and filled_store.artifacts.read(stored) == weights


def test_a_bundle_with_a_damaged_model_is_an_error(filled_store: Store) -> None:
    file = filled_store.artifacts.write_file(1, "model-last", 5, b"weights")
    filled_store.artifacts.register(1, None, file)
    (filled_store.artifacts.folder / file.path).write_bytes(b"weight!")
    with pytest.raises(ArtifactDamaged, match="model-last of run 1"):
        exchange.bundle_of([1])


def test_only_runs_that_have_ended_are_exported_for_import(filled_store: Store) -> None:
    waiting = [run.id for run in filled_store.queue.rerun([1, 2])]
    assert export_buttons(1, *waiting) == {
        "Export JSON": f"The 1 of 3 runs that have ended. {IF_IT_FAILS}",
        "Export CSV": IF_IT_FAILS,
        "Download bundle": "",
    }
    assert export_buttons(1)["Export JSON"] == IF_IT_FAILS
    assert export_buttons(*waiting) == {}
    document = exchange.json_of([1, *waiting])
    assert len(json.loads(document)["runs"]) == 1


@pytest.mark.parametrize("write", [exchange.json_of, exchange.bundle_of])
def test_an_export_without_runs_that_have_ended_is_an_error(
    filled_store: Store, write: Callable[[list[int]], bytes]
) -> None:
    (waiting,) = filled_store.queue.rerun([1])
    with pytest.raises(InvalidConfig, match="they have not ended or were deleted"):
        write([waiting.id])


@pytest.mark.parametrize("write", [exchange.json_of, exchange.csv_of, exchange.bundle_of])
def test_an_export_names_the_runs_that_were_deleted_meanwhile(
    filled_store: Store, write: Callable[[list[int]], bytes]
) -> None:
    filled_store.trash.put([2])
    with pytest.raises(RunNotFound, match="no run with id 2, 999"):
        write([1, 2, 999])


def test_a_file_without_runs_is_reported(filled_store: Store) -> None:
    empty = json.dumps({"config": DIGITS, "runs": []}).encode()
    page = opened()
    page.file_uploader[0].upload("empty.json", empty, "application/json").run()
    page.button(key="import_now").click().run()
    assert page.success[0].value == "The file has no runs."


def test_a_table_has_a_row_per_round(filled_store: Store) -> None:
    head, *rows = exchange.csv_of([1]).decode().splitlines()
    assert len(rows) == 6 and {"personalized.loss", "global.loss", "train_loss"} <= set(head.split(","))


def test_a_file_other_than_an_export_is_refused_by_name(empty_store: Store) -> None:
    with pytest.raises(InvalidConfig, match=r"^notes\.json: "):
        exchange.import_bytes("notes.json", b"[1, 2]")
    assert empty_store.experiments.list() == []


def test_a_wrong_file_is_identified(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("create table t (x)")
    connection.close()
    array = BytesIO()
    np.savez(array, x=np.zeros(2))
    files = {
        "old.db": ((tmp_path / "a.db").read_bytes(), "a database"),
        "pic.json": (b"\x89PNG...", "a picture"),
        "rounds.csv": (b"run,round\n1,0\n", "a table"),
        "empty.json": (b" \n", "empty"),
        "mine.yaml": (b"name: x\n", "a configuration"),
        "mine.json": (json.dumps(DIGITS).encode(), "a configuration without results"),
        "data.npz": (array.getvalue(), "a NumPy archive: upload your own data in Set up"),
        "cut.zip": (a_zip()[:-30], "incomplete or damaged"),
        "new.zip": (a_zip(version=99), "incomplete or damaged"),
    }
    for name, (data, words) in files.items():
        message = what_else(name, data)
        assert message is not None and message.startswith(f"{name} is ") and words in message, name


def test_another_archive_is_refused_by_name(empty_store: Store) -> None:
    assert what_else("some.zip", a_zip()) is None
    with pytest.raises(InvalidConfig, match=r"^some\.zip: is not a Fedscape bundle"):
        exchange.import_bytes("some.zip", a_zip())


def test_files_of_runs_are_accepted(read_store: Store) -> None:
    assert what_else("runs.json", exchange.json_of([1])) is None
    assert what_else("runs.zip", exchange.bundle_of([1])) is None


@pytest.mark.slow
def test_valid_files_are_imported_next_to_an_invalid_one(filled_store: Store) -> None:
    page = opened()
    place = page.file_uploader[0]
    place.upload("runs.json", exchange.json_of([1, 2]), "application/json").upload("x.csv", b"a,b", "text/csv").run()
    page.button(key="import_now").click().run()
    assert page.error[0].value.replace("\\", "").startswith("x.csv is a table: ")
    assert page.success[0].value.startswith("Imported “four methods on digits” (2 runs).")
    assert filled_store.queue.counts() == {"done": 10}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("during", "call", "words", "runs"),
    [
        ("read", 1, "one.json and two.json: not imported, because something else was pressed.", 8),
        (
            "read",
            2,
            "two.json: not imported, because something else was pressed.",
            9,
        ),
        ("outcome", 1, f"Imported “four methods on digits” (2 runs).  \n{COPY}", 10),
    ],
)
def test_an_import_that_another_press_stops_says_what_was_imported_and_what_not(
    during: str, call: int, words: str, runs: int, filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened()
    place = page.file_uploader[0]
    one, two = exchange.json_of([1]), exchange.json_of([2])
    place.upload("one.json", one, "application/json").upload("two.json", two, "application/json").run()
    states = reported(page)
    page.button(key="import_now").click()
    with monkeypatch.context() as patch:
        press_during(patch, sources, during, call, widget_states=states)
        page.run()
    assert [*page.error, *page.success][0].value.replace("\\", "") == words
    imported = f"Imported “four methods on digits” ({runs - 8} run{'s' if runs > 9 else ''}).  \n{COPY}"
    assert [one.value.replace("\\", "") for one in page.success] == ([imported] if runs > 8 else [])
    assert filled_store.queue.counts() == {"done": runs}
    page.button(key="import_now").click().run()
    assert filled_store.queue.counts() == {"done": 10}


def test_an_import_that_worked_in_part_is_a_success_beside_an_error() -> None:
    found = sources.outcome([("a", 2)], problems=["bad.json: no export."])
    assert (found.kind, found.text, found.problems) == ("success", "Imported “a” (2 runs).", r"bad.json\: no export.")
    assert sources.outcome([], problems=["bad.json: no export."]).kind == "error"


def test_copies_of_experiments_that_exist_are_announced() -> None:
    one, two = (sources.outcome([("a", 2), ("b", 1)], copies=names).text for names in (["b"], ["a", "b"]))
    assert one.endswith("An experiment named “b” existed already; the new one is marked (imported).")
    assert two.endswith("Experiments named “a” and “b” existed already; the new ones are marked (imported).")


def test_an_imported_experiment_is_marked_in_the_list(filled_store: Store) -> None:
    exchange.import_bytes("runs.json", exchange.json_of([1, 3]))
    assert list(opened().dataframe[0].value["experiment"])[:3] == [
        "four methods on digits (imported)",
        "four methods on digits (imported)",
        "four methods on digits",
    ]


def test_known_runs_are_reported(read_store: Store) -> None:
    message = sources.outcome([(e.name, e.num_runs) for e in read_store.experiments.list()], 3)
    assert message.text.endswith("(8 runs).  \n3 runs were already imported.") and message.kind == "success"
    assert sources.outcome([], 3).text == "Everything was already imported."


def test_examples_are_loaded_once_and_marked(
    filled_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first.json").write_bytes(exchange.json_of([1, 2]))
    monkeypatch.setattr(exchange, "EXAMPLES", tmp_path)
    assert [e.example for e in exchange.load_examples()] == [True]
    assert exchange.load_examples() == []
    assert sources.load_examples().text == "The examples were already loaded."


def test_examples_are_listed_last_and_chosen_only_where_there_are_no_own_runs(
    filled_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first.json").write_bytes(exchange.json_of([1, 3]))
    monkeypatch.setattr(exchange, "EXAMPLES", tmp_path)
    (example,) = exchange.load_examples()
    page = opened()
    assert list(page.dataframe[0].value["run"]) == [8, 7, 6, 5, 4, 3, 2, 1, 10, 9]
    assert "10 runs; 2 examples at the end" in [caption.value for caption in page.caption]
    assert list(opened(sort="oldest").dataframe[0].value["run"])[-1] == 10
    assert newest(filled_store.queue.runs()) == {1}
    assert open_page("run").title[0].value == "What happened inside CGPFL K=3, seed 1?"
    filled_store.queue.archive(range(1, 9))
    assert newest(filled_store.queue.runs()) == {example.id}
    assert "An example result" in str([one.value for one in open_page("run").caption])
