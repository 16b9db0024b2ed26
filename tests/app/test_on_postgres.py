"""Pages on a PostgreSQL database, also while its server is down."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.access import permits
from app.data import queries
from storage import Store
from tests.app.pages import VIEWS, open_page, words
from tests.app.samples import DIGITS, store_experiment
from tests.app.test_limits import all_at_once
from tests.storage.samples import new_run
from tests.support.postgres import Server
from tests.support.signing_in import MEMBER, people_sign_in

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
ONE_METHOD: dict[str, Any] = DIGITS | {"algorithms": [{"name": "ditto"}]}


@pytest.fixture
def store(postgres_store: Store) -> Iterator[Store]:
    """Two finished runs of one method, with empty caches."""
    store_experiment(postgres_store, ONE_METHOD)
    st.cache_resource.clear()
    yield postgres_store
    queries.store().close()


def test_the_library_lists_runs_and_the_other_pages_open(store: Store) -> None:
    newest, oldest = (run.id for run in store.queue.runs())
    table = open_page("library").dataframe[0].value
    assert table[table.columns[0]].tolist() == [newest, oldest]
    assert 0 < table["mean"].min() <= 100
    for page in ("compare", "live", "run"):
        assert open_page(page, runs=f"{oldest},{newest}", run=newest).title


@pytest.mark.parametrize("check_s", [pytest.param(1e-3, id="in its check"), pytest.param(1e9, id="while it reads")])
def test_a_page_reports_a_stopped_server_and_recovers(
    postgres_server: Server, store: Store, monkeypatch: pytest.MonkeyPatch, check_s: float
) -> None:
    monkeypatch.setattr(queries, "CHECK_S", check_s)
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=90).run()
    page.switch_page("views/library.py").run()
    assert not page.exception and "2 runs" in words(page)
    with postgres_server.stopped():
        page.run()
        assert not page.exception and "does not answer" in words(page)
    page.run()
    assert not page.exception and "does not answer" not in words(page)


def test_requests_at_the_same_time_keep_the_limit_together(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    people_sign_in(monkeypatch, FEDSCAPE_MAX_QUEUED="5")
    lock, all_have_written = permits.lock_usage, threading.Barrier(4)

    def lock_after_all_have_written(connection: sa.Connection) -> None:
        all_have_written.wait()
        lock(connection)

    def request(number: int) -> object:
        with permits.allow("queue", queries.store(), "Queue", adds="runs") as person:
            return queries.store().experiments.create(str(number), {}, [new_run()] * 2, owner=person.name)

    monkeypatch.setattr(permits, "lock_usage", lock_after_all_have_written)
    answers = all_at_once(4, request)
    assert sum(isinstance(answer, permits.NotAllowed) for answer in answers) == 2
    assert store.shares.usage(MEMBER.name).queued == 4
