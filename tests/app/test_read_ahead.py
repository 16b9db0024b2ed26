"""The reads of a server before its first visit."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.papers import card
from app.server import warm_up
from storage import Store
from storage.metrics import Metrics
from tests.app.pages import open_page, words


@pytest.mark.slow
def test_compare_opens_without_reading_twice(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = watched(monkeypatch)
    warm_up.comparison()
    curves_and_clients = ("scalars", "personalized.accuracy", "global.accuracy")
    assert all(any(what in one for one in queries) for what in curves_and_clients)
    queries.clear()
    assert not open_page("compare").exception
    assert not any(what in one for one in queries for what in curves_and_clients)


def test_a_large_comparison_is_not_read_ahead(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "MAX_ROUNDS", 8 * 5 - 1)
    queries = watched(monkeypatch)
    warm_up.comparison()
    assert queries == []


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the queries for stored rounds."""
    queries: list[str] = []

    def noted(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def noting(self: Metrics, *args: object) -> Any:
            queries.append(f"{name} {args}")
            return read(self, *args)

        return noting

    for name in ("scalars", "arrays_at", "totals"):
        monkeypatch.setattr(Metrics, name, noted(name, getattr(Metrics, name)))
    return queries


def test_papers_opens_without_drawing_its_cards_again(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up.gallery()
    monkeypatch.setattr(card, "sketch", None)
    assert "data:image/svg+xml," in words(open_page("papers"))


def test_without_a_comparison_nothing_is_read_ahead(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = watched(monkeypatch)
    warm_up.comparison()
    assert queries == []


def test_an_unreadable_database_is_left_to_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none.db").write_bytes(b"not a database" * 1000)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'none.db'}")
    warm_up.comparison()


def test_garbage_is_collected_once_everything_is_loaded_or_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        assert not gc.isenabled()
        raise OSError("disk")

    monkeypatch.setattr(warm_up, "_load", fails)
    gc.disable()  # as app/server/asgi.py does
    try:
        with pytest.raises(OSError, match="disk"):
            warm_up.everything()
        assert gc.isenabled()
    finally:
        gc.enable()
