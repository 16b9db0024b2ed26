"""The controls that members, visitors and readers of a demo see, and the log that an admin sees."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.access import permits
from app.actions import exchange
from app.data import queries
from app.library import audit, experiment
from app.live import requests
from engine.config.schema import parse_experiment
from engine.exchange.import_runs import import_file
from engine.exchange.records import new_run
from storage import FinishedRun, Store
from tests.app.pages import open_page, visit, words
from tests.app.samples import DIGITS
from tests.support.signing_in import MEMBER, OTHER, PEOPLE, as_person, people_sign_in

WRITERS = ("rerun", "retry", "pause", "resume", "cancel", "archive", "delete", "models_now", "rename", "queue")


def enabled(page: AppTest) -> set[str]:
    """Buttons that change something."""
    return {str(button.key) for button in page.button if button.key in WRITERS and not button.disabled}


@pytest.mark.slow
def test_a_demo_shows_everything_and_disables_what_changes_something(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSCAPE_READ_ONLY", "1")
    for name, address in (("setup", {}), ("library", {"runs": "1,2"}), ("papers", {}), ("live", {"experiment": 1})):
        page = open_page(name, **address)
        assert not enabled(page)
        assert name in ("papers", "live") or permits.READ_ONLY in words(page)


def test_a_link_to_the_runs_of_another_offers_a_member_nothing_to_change(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    with filled_store._database.write() as connection:
        connection.exec_driver_sql(f"UPDATE experiments SET owner = '{OTHER.name}'")
    assert {"rerun", "archive", "delete"} <= enabled(visit("library", OTHER.name, runs="1,2"))
    assert not enabled(visit("library", MEMBER.name, runs="1,2"))
    assert {"rerun", "archive", "delete"} <= enabled(visit("library", PEOPLE["admin"].name, runs="1,2"))


def test_a_member_queues_and_a_visitor_reads_why_not(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    assert "queue" in enabled(visit("setup", MEMBER.name))
    page = visit("setup", PEOPLE["visitor"].name)
    assert "queue" not in enabled(page)
    assert "Only members and admins may queue experiments, presets and the demo." in words(page)


def test_only_admins_read_who_did_what(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch)
    with as_person(PEOPLE["admin"]):
        name = filled_store.experiments.get(1).name
        experiment.rename(filled_store.experiments.get(1), "better")
    for person, is_shown in ((PEOPLE["admin"], True), (MEMBER, False), (PEOPLE["visitor"], False)):
        page = visit("library", person.name)
        assert ("Audit log" in [expander.label for expander in page.expander]) is is_shown
    (row,) = audit.table(filled_store.audit.list()).to_dict("records")
    assert (row["who"], row["did"], row["what"]) == ("root@lab.test", "Rename", f"“{name}”")


def test_the_log_names_person_action_and_runs_and_not_what_was_refused(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    runs = [new_run(run) for run in parse_experiment(DIGITS | {"seeds": [0, 1]}).runs()]
    empty_store.experiments.create("mine", {}, runs, owner=MEMBER.name)
    with as_person(MEMBER):
        requests._perform("pause", [1, 2, 3, 5])
        requests.perform("high", [5])
    with as_person(OTHER), pytest.raises(permits.NotAllowed):
        requests._perform("cancel", [1])
    found = [(entry.person, entry.action, entry.subject) for entry in empty_store.audit.list()]
    assert found == [
        (MEMBER.name, "Set high priority", "run 5"),
        (MEMBER.name, "Pause", "runs 1-3, 5"),
    ]


def test_an_import_that_fails_after_its_first_run_is_logged_as_failed(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)

    def runs() -> Iterator[FinishedRun]:
        raise ValueError("the first run is damaged")
        yield

    with (
        as_person(MEMBER),
        pytest.raises(ValueError, match="damaged"),
        permits.allow("import", queries.store(), "Import", of=["runs.json"], adds="files"),
    ):
        queries.store().experiments.import_finished("e", {}, runs(), owner=MEMBER.name)
    found = [(entry.action, entry.subject) for entry in empty_store.audit.list()]
    assert found == [("Import failed", "“runs.json”"), ("Import", "“runs.json”")]
    assert empty_store.experiments.list() == []


def test_without_sign_in_nothing_is_logged_and_runs_have_no_owner(filled_store: Store) -> None:
    requests._perform("retry", [1])
    experiment.rename(filled_store.experiments.get(1), "better")
    assert filled_store.audit.list() == [] and filled_store.experiments.get(1).owner == ""


def test_an_import_adds_nothing_to_the_runs_of_another(filled_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_bytes(exchange.json_of([1, 2]))
    first = import_file(filled_store, path, owner=MEMBER.name)
    assert len(first.experiments) == 1 and first.experiments[0].owner == MEMBER.name
    again, other = import_file(filled_store, path, owner=MEMBER.name), import_file(filled_store, path, owner=OTHER.name)
    assert not again.experiments and len(again.known) == 2
    assert len(other.experiments) == 1 and not other.known
    assert not import_file(filled_store, path).experiments
