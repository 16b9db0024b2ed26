"""The commands with ``--db`` on a PostgreSQL server."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import engine.cli.run
from storage import RunRecord, Store
from tests.support.command_line import make_call, write_config
from tests.support.postgres import Server

pytestmark = pytest.mark.postgres


@pytest.mark.slow
def test_a_run_is_stored_exported_and_imported_on_postgresql(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = make_call(monkeypatch, capsys, tmp_path)
    url = postgres_store.url.replace("+psycopg", "")
    ran = call("run", write_config(tmp_path), "--db", url, "--export", "out.json", "--models", "models")
    assert ran.code == 0 and "done, round 2 of 2" in ran.err
    (run,) = postgres_store.queue.runs()
    assert run.status == "done" and len(postgres_store.metrics.rounds(run.id)) == 3
    assert {path.name for path in tmp_path.glob("models/*/*")} >= {"initial.safetensors", "global.safetensors"}
    assert call("import", "out.json").code == 0
    (again,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert again["summary"] == Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs()[0].summary


@pytest.mark.slow
def test_a_command_survives_a_server_restart(
    postgres_server: Server,
    postgres_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    call = make_call(monkeypatch, capsys, tmp_path)
    look, looks = engine.cli.run._runs, []

    def without_a_server_at_first(*args: Any, **options: Any) -> list[RunRecord]:
        looks.append(1)
        if len(looks) == 1:
            postgres_server.stop()
        return look(*args, **options)

    monkeypatch.setattr(engine.cli.run, "_runs", without_a_server_at_first)
    monkeypatch.setattr(engine.cli.run, "time", SimpleNamespace(sleep=lambda seconds: postgres_server.start()))
    assert call("run", write_config(tmp_path), "--db", postgres_store.url).code == 0
    assert [run.status for run in postgres_store.queue.runs()] == ["done"]


def test_an_unreachable_server_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = make_call(monkeypatch, capsys, tmp_path)
    result = call("run", write_config(tmp_path), "--db", "postgresql://me:secret@/x?host=/no/such/folder")
    assert result.code == 2 and "Check that the server runs" in result.err
    assert "secret" not in result.err and "Traceback" not in result.err
