"""Limits on the disk space of models."""

import pytest

from engine.core.errors import InvalidConfig
from engine.worker.cleanup import clean_up
from engine.worker.limits import GIB, MIB, enforce_model_limit, max_models_bytes
from storage import Store
from tests.worker.samples import compute, kinds


@pytest.mark.parametrize(("text", "limit"), [("", 256), ("0", 0), ("12", 12), ("0.5", 0.5)])
def test_the_size_limit_of_models_can_be_set(monkeypatch: pytest.MonkeyPatch, text: str, limit: float) -> None:
    monkeypatch.setenv("FEDSCAPE_MODELS_MB", text)
    assert max_models_bytes() == limit * MIB


@pytest.mark.parametrize("name", ["FEDSCAPE_MODELS_MB", "FEDSCAPE_KEEP_GB"])
@pytest.mark.parametrize("text", ["many", "-1", "nan", "inf"])
def test_an_invalid_limit_is_reported_when_the_dispatcher_starts(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidConfig, match=f"{name}: '{text}', must be a number of at least 0"):
        clean_up(store)


def test_a_limit_of_0_stores_no_models(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDSCAPE_MODELS_MB", "0")
    run = compute(store, training__rounds=1)
    assert run.status == "done" and kinds(store, run.id) == []


def test_models_of_older_runs_are_deleted_when_a_run_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compute(store, training__rounds=1)
    size = store.disk_use().models_bytes
    monkeypatch.setenv("FEDSCAPE_KEEP_GB", str(1.5 * size / GIB))
    second = compute(store, training__rounds=1)
    assert kinds(store, first.id) == [] and kinds(store, second.id) == ["model-best", "model-last"]
    assert "exceeded FEDSCAPE_KEEP_GB=" in store.events.list(first.id)[-1].message


def test_without_a_limit_all_models_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSCAPE_KEEP_GB", raising=False)
    run = compute(store, training__rounds=1)
    enforce_model_limit(store)
    assert kinds(store, run.id) == ["model-best", "model-last"]
