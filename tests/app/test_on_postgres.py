"""Pages on a PostgreSQL database, also while its server is down."""

from collections.abc import Iterator
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.data import queries
from storage import Store
from tests.app.pages import VIEWS, open_page, words
from tests.app.samples import DIGITS, store_experiment
from tests.support.postgres import Server

pytestmark = pytest.mark.postgres
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


def test_a_page_reports_a_stopped_server_and_recovers(postgres_server: Server, store: Store) -> None:
    page = AppTest.from_file(str(VIEWS.parent / "main.py"), default_timeout=90).run()
    assert not page.exception
    with postgres_server.stopped():
        page.run()
        assert not page.exception and "does not answer" in words(page)
    page.run()
    assert not page.exception and "does not answer" not in words(page)
