"""The commands with ``--db`` on a PostgreSQL server."""

import json
from pathlib import Path

import pytest

from storage import Store
from tests.engine.command_line import make_call, write_config

pytestmark = pytest.mark.postgres


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


def test_a_server_that_does_not_answer_is_a_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = make_call(monkeypatch, capsys, tmp_path)
    said = call("run", write_config(tmp_path), "--db", "postgresql://me:secret@/x?host=/no/such/folder")
    assert said.code == 2 and "check that the server runs" in said.err
    assert "secret" not in said.err and "Traceback" not in said.err
