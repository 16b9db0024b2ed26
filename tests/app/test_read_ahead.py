"""What a server reads before its first visitor comes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.server import warm_up
from storage import Store
from storage.metrics import Metrics
from tests.app.pages import open_page


def test_compare_opens_without_reading_again_what_was_read_ahead(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = watched(monkeypatch)
    warm_up.comparison()
    curves_and_clients = ("scalars", "personalized.accuracy", "global.accuracy")
    assert all(any(what in one for one in asked) for what in curves_and_clients)
    asked.clear()
    assert not open_page("compare").exception
    assert not any(what in one for one in asked for what in curves_and_clients)


def test_a_large_comparison_is_not_read_ahead(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "MOST_ROUNDS", 8 * 5 - 1)
    asked = watched(monkeypatch)
    warm_up.comparison()
    assert asked == []


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the stored rounds, as it is asked."""
    asked: list[str] = []

    def noted(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def noting(self: Metrics, *args: object) -> Any:
            asked.append(f"{name} {args}")
            return read(self, *args)

        return noting

    for name in ("scalars", "arrays_at", "totals"):
        monkeypatch.setattr(Metrics, name, noted(name, getattr(Metrics, name)))
    return asked


def test_a_database_without_a_comparison_is_none_of_its_business(empty_store: Store) -> None:
    warm_up.comparison()


def test_a_database_that_cannot_be_read_is_left_to_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none.db").write_bytes(b"not a database" * 1000)
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'none.db'}")
    warm_up.comparison()
