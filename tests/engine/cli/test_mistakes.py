"""Mistakes exit with 2 and lines on stderr that name the field, the value and what to do; never a traceback."""

import errno
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from engine.cli.broken_pipe import BrokenPipeStream
from engine.cli.export_runs import format_of
from engine.cli.stderr import log_unexpected
from engine.core.errors import InvalidConfig
from storage import Store
from tests.support.command_line import DIGITS, Call, make_call, write_config

HOLD = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], isolation_level=None).execute("BEGIN EXCLUSIVE")
print("held", flush=True)
input()
"""  # in a separate process, since SQLite's locks belong to a process


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    return make_call(monkeypatch, capsys, tmp_path)


def refused(call: Call, *words: object) -> str:
    """Checks that nothing is run or stored and returns the messages."""
    code, out, err = call(*words)
    assert code == 2 and out == "" and "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": 1}, ["colour", "unknown key"]),
        ({"training": {"batchsize": 8}}, ["training.batchsize", "did you mean 'batch_size'"]),
        ({"algorithms": [{"name": "fedawg"}]}, ["fedawg", "did you mean 'fedavg'"]),
        ({"algorithms": []}, ["algorithms", "at least one entry"]),
        ({"training": {"lr": -1}}, ["training.lr", "-1", "greater than 0"]),
        ({"training": {"participation": 1.5}}, ["training.participation", "1.5", "less than or equal to 1"]),
        ({"seeds": [0, 0]}, ["seeds", "distinct"]),
        ({"partition": {"name": "classes_per_client", "classes_per_client": 11}}, ["partition: classes_per_client=11"]),
        ({"partition": {"name": "natural"}}, ["partition", "natural"]),
        ({"dataset": {"name": "custom", "path": "/nowhere.npz"}, "partition": {"name": "natural"}}, ["/nowhere.npz"]),
        ({"device": "tpu"}, ["device", "tpu", "cpu"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else next(iter(value)),
)
def test_an_invalid_configuration_is_refused(
    call: Call, tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    err = refused(call, "run", write_config(tmp_path, **changes))
    assert all(word in err for word in words), err
    assert not (tmp_path / "var").exists()


def test_all_mistakes_are_reported_at_once_one_per_line(call: Call, tmp_path: Path) -> None:
    err = refused(call, "run", write_config(tmp_path, model={"name": "mlp"}, training={"rounds": 0, "lr": "fast"}))
    fields = [line.split(":")[0] for line in err.splitlines()]
    assert fields == ["model.name", "training.rounds", "training.lr"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- a list\n", "is a list, must be a mapping"),
        ("a: [1\n", "cannot be read as YAML or JSON: line 2, column 1"),
        ("", "is empty, must be a mapping"),
        (b"\x00\xff\xfe", "cannot be read (byte 1 is not valid UTF-8)"),
    ],
    ids=["list", "broken", "empty", "binary"],
)
def test_a_file_with_no_configuration_is_refused(call: Call, tmp_path: Path, content: str | bytes, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refused(call, "run", path)


def test_a_missing_configuration_is_named(call: Call) -> None:
    assert refused(call, "run", "absent.yaml").startswith("absent.yaml: cannot be read")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("training.rounds", "write a.b=VALUE"),
        ("=3", "write a.b=VALUE"),
        ("training..lr=3", "write a.b=VALUE"),
        ("trainin.rounds=3", "did you mean 'training'"),
        ("algorithms.7.mu=3", "7"),
        ("name.first=x", "name"),
        ("training.lr=[1", "not a YAML value"),
    ],
)
def test_changing_an_unknown_key_is_refused(call: Call, tmp_path: Path, change: str, words: str) -> None:
    assert words in refused(call, "run", write_config(tmp_path), "--set", change)


def test_damaged_data_are_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 not quite a zip")
    changes = {"dataset": {"name": "custom", "path": str(tmp_path / "x.npz")}, "partition": {"name": "natural"}}
    assert "dataset: " in refused(call, "run", write_config(tmp_path, **changes))


def test_a_method_that_does_not_support_the_model_is_refused(call: Call, tmp_path: Path) -> None:
    algorithms = [{"name": "fedprox_onestage", "local_lr": "theory"}]
    assert "fedprox_onestage: " in refused(call, "run", write_config(tmp_path, algorithms=algorithms, model="dnn"))


@pytest.mark.slow
def test_a_scale_needs_a_preset(call: Call, tmp_path: Path) -> None:
    assert "only a --preset has scales" in refused(call, "run", write_config(tmp_path), "--scale", "quick")
    assert "did you mean 'digits-first'" in refused(call, "run", "--preset", "digit-first")
    assert "no preset named ''" in refused(call, "run", "--preset", "")


def test_an_unwritable_path_is_refused_before_anything_runs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert "cannot be written" in refused(call, "run", write_config(tmp_path), "--export", "out/of/reach.json")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--export", "folder"), "is a folder"),
        (("--export", "file/out.json"), "is not a folder"),
        (("--models", "file"), "is not a folder"),
        (("--models", "file/models"), "is not a folder"),
    ],
)
def test_a_file_instead_of_a_folder_and_vice_versa_are_refused(
    call: Call, tmp_path: Path, words: tuple[str, str], problem: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert problem in refused(call, "run", write_config(tmp_path), *words)


def test_unfinished_runs_are_left_out_of_exports_and_named(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path), "--quiet")
    store = Store(f"sqlite:///{tmp_path}/var/fedscape.db")
    store.queue.rerun([1])
    code, _, err = call("export", 1, 2, "--output", "a.json")
    assert (code, err) == (0, "run 2 (fedavg seed 0) is skipped: it is queued\n")
    assert [run["status"] for run in json.loads((tmp_path / "a.json").read_text())["runs"]] == ["done"]
    assert "none of these runs has ended" in refused(call, "export", 2)


def test_models_are_only_exported_if_a_run_has_some(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path), "--quiet")
    store = Store(f"sqlite:///{tmp_path}/var/fedscape.db")
    store.queue.rerun([1])
    words = ("--format", "models", "--output", "out")
    assert "none of these runs has models" in refused(call, "export", 2, *words)
    assert not (tmp_path / "out").exists()
    missing = "run 2 (fedavg seed 0) has no models: it is queued\n"
    assert call("export", 1, 2, *words) == (0, "wrote out\n", missing)


def test_a_database_from_a_newer_version_is_refused(call: Call, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/new.db")
    store.ensure_schema()
    store.close()
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    assert "newer" in refused(call, "run", write_config(tmp_path), "--db", f"sqlite:///{tmp_path}/new.db")


def test_a_locked_database_is_refused(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(url := f"sqlite:///{tmp_path}/busy.db").ensure_schema()
    monkeypatch.setattr("engine.cli.exit_codes.Store", lambda url: Store(url, timeout_s=0.1))
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "busy.db"], stdin=PIPE, stdout=PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        err = refused(call, "run", write_config(tmp_path), "--db", url)
        holder.communicate(b"\n")
    assert "was locked by" in err


@pytest.mark.parametrize("url", ["nonsense", "mysql://somewhere/db", "sqlite:////proc/nowhere/x.db"])
def test_an_unusable_database_url_is_refused(call: Call, tmp_path: Path, url: str) -> None:
    assert refused(call, "run", write_config(tmp_path), "--db", url).count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "--deleted"),
        ("disk",),
        ("study", 1),
        ("export", 1),
        ("backup", "x.zip"),
        *((command, 1) for command in ("cancel", "pause", "resume", "retry", "delete", "undelete", "drop-models")),
    ],
    ids=lambda words: "-".join(map(str, words)),
)
def test_a_missing_database_is_named_and_not_created(call: Call, tmp_path: Path, words: tuple[object, ...]) -> None:
    err = refused(call, *words, "--db", f"sqlite:///{tmp_path}/typo/new.db")
    assert err == (
        f"there is no Fedscape database at sqlite:///{tmp_path}/typo/new.db; check --db (or DATABASE_URL), "
        "or run an experiment first\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_other_than_a_database_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("nothing but text, and enough of it to be read as a header" * 20)
    assert "text.db" in refused(call, "export", 1, "--db", f"sqlite:///{tmp_path}/text.db")


@pytest.mark.parametrize(
    ("path", "chosen", "format"),
    [
        (None, None, "json"),
        ("r.csv", None, "csv"),
        ("r.ZIP", None, "bundle"),
        ("r.txt", "csv", "csv"),
        ("r", None, "json"),
    ],
)
def test_the_ending_of_an_exported_file_gives_its_format(path: str | None, chosen: Any, format: str) -> None:
    assert format_of(None if path is None else Path(path), chosen) == format


def test_an_ending_and_a_format_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"x\.json: ends like json, but the format is csv; change one of them"):
        format_of(Path("x.json"), "csv")


@pytest.mark.parametrize("name", ["x.csv.gz", "x.xlsx", "x.yaml"])
def test_an_unknown_ending_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"no format has this ending; use one of \.json, \.csv, .*or give --format"):
        format_of(Path(name), None)


def test_an_export_without_a_name_replaces_no_file(call: Call, tmp_path: Path) -> None:
    config = write_config(tmp_path, name="mine").rename(tmp_path / "mine.json")
    before = config.read_text()
    assert call("run", config, "--quiet").code == 0
    assert "mine.json exists; give --output" in refused(call, "export", 1)
    assert config.read_text() == before and call("export", 1, "--output", "mine.json").code == 0
    clients = tmp_path / "mine-clients.csv"
    clients.write_text("my notes")
    assert "mine-clients.csv exists; give --output" in refused(call, "export", 1, "--format", "csv")
    assert clients.read_text() == "my notes" and not (tmp_path / "mine.csv").exists()


def test_the_endings_of_other_formats_and_an_empty_database_are_refused(call: Call, tmp_path: Path) -> None:
    assert "ends like csv, but the format is json" in refused(call, "run", write_config(tmp_path), "--export", "r.csv")
    assert "--db: is empty" in refused(call, "runs", "--db", "")


def test_an_export_without_runs_is_not_imported_in_silence(call: Call, tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text(json.dumps({"config": DIGITS, "runs": []}))
    assert "none.json has no runs; nothing was imported" in refused(call, "import", "none.json")


class FullDisk(io.TextIOWrapper):
    """A file on a disk without room for what was written first."""

    is_full = True

    def flush(self) -> None:
        if self.is_full:
            self.is_full = False
            raise OSError(errno.ENOSPC, "No space left on device")
        super().flush()


def test_output_that_is_lost_on_a_full_disk_is_a_failure(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with FullDisk(open(tmp_path / "out", "wb")) as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert call("list", "metrics") == (3, "", "a part of the output was lost: No space left on device\n")


def test_an_unknown_run_cannot_be_exported(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path), "--quiet")
    assert "no run with id 7" in refused(call, "export", 7)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: d["runs"][0].pop("seed"), "runs.0.seed"),
        (lambda d: d["runs"][0].update(label="other"), "is not a run of the file's config"),
        (lambda d: d["config"].update(color=1), "config.color"),
        (lambda d: d["runs"][0]["rounds"].pop(1), "rounds must be numbered 0, 1, 2"),
        (lambda d: d["runs"][0]["rounds"][1]["personalized"]["accuracy"].pop(), "2 values for 3 clients"),
        (lambda d: d["runs"][0]["rounds"][1]["diagnostics"].update(Q=[[1], [1, 2]]), "diagnostics.Q"),
        (lambda d: d["runs"][0].update(partition=None), "partition must not be null"),
        (lambda d: d["runs"][0]["partition"].pop("test_sizes"), "test_sizes"),
        (lambda d: d["runs"][0].update(status="running"), "status"),
        (lambda d: d["runs"][0].update(experiment_index=1), "is not a run of the file's config"),
        (
            lambda d: d["runs"][0]["partition"].update(contexts=[0]),
            "partition: Value error, every list must have one entry per client",
        ),
        (lambda d: d["runs"][0]["partition"]["class_counts"][0].pop(), "the same number of classes"),
        (lambda d: d["runs"][0]["partition"].update(train_sizes=[10**30] * 3), "partition.train_sizes.0"),
        (lambda d: d["runs"][0]["rounds"][1].update(cohort=[3]), "cohort: client 3 is not between 0 and 2"),
        (lambda d: d["runs"][0]["rounds"][1].update(clusters=[0, 0, 10**9]), "clusters.2"),
        (lambda d: d["runs"][0]["rounds"][1]["diagnostics"].update(Q=10**999), "too large"),
        (lambda d: d["runs"][0]["provenance"].update(device="\ud800"), "surrogates not allowed"),
        (lambda d: d["runs"][0]["provenance"].update(device="\\c\0pu"), "a text has a null character"),
        (lambda d: d["runs"][0]["partition"].update({"\0": 1}), "a text has a null character"),
        (lambda d: d["runs"][0]["provenance"].update(more=nested(50)), "nested more than 50 levels deep"),
        (lambda d: d["runs"][0].update(hparams={"more": nested(50)}), "nested more than 50 levels deep"),
    ],
)
@pytest.mark.slow
def test_a_damaged_export_is_not_imported(call: Call, tmp_path: Path, damage: Any, words: str) -> None:
    call("run", write_config(tmp_path), "--quiet", "--export", "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    damage(document)
    (tmp_path / "a.json").write_text(json.dumps(document))
    err = refused(call, "import", "a.json", "--db", f"sqlite:///{tmp_path}/other.db")
    assert err.startswith("a.json: ") and words in err
    assert not (tmp_path / "other.db").exists()


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_an_escaped_backslash_before_a_null_is_no_null(call: Call, tmp_path: Path) -> None:
    call("run", write_config(tmp_path), "--quiet", "--export", "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    document["runs"][0]["provenance"]["device"] = r"\u0000"
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert call("import", "a.json", "--db", f"sqlite:///{tmp_path}/other.db").code == 0


@pytest.mark.parametrize("content", ["no json", "[1, 2]", '{"runs": []}', "[" * 100_000])
def test_a_file_other_than_an_export_is_not_imported(call: Call, tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert refused(call, "import", "a.json").startswith("a.json: ")


def test_an_unexpected_error_is_one_line_and_a_log(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody saw it coming")

    monkeypatch.setattr(sys.modules["engine.cli.run"], "experiments_of", fail)
    code, _, err = call("run", "c.yaml")
    assert code == 3 and err.startswith("unexpected error: ZeroDivisionError: nobody") and err.count("\n") == 1
    assert "Traceback" in (tmp_path / "var" / "fedscape-errors.log").read_text()


def test_the_log_of_errors_has_no_password_and_is_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql+psycopg://me@lab:s3/cr@t@host/fedscape"
    monkeypatch.setattr(sys, "argv", ["engine", "run", "--db", url])
    (path := tmp_path / "fedscape-errors.log").touch(0o644)
    log_unexpected(
        ValueError(f"cannot open {url}, or ://host/db?user=me&password=s3cret&x=1 or password=s3 y"), tmp_path
    )
    assert "s3" not in path.read_text() and path.read_text().count("postgresql+psycopg://***@host/fedscape") == 2
    assert "password=***&x=1 or password=*** y" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_running_out_of_memory_is_reported_in_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(sys.modules["engine.cli.run"], "experiments_of", fail)
    code, _, err = call("run", "c.yaml")
    assert code == 3 and err.startswith("out of memory; ") and err.count("\n") == 1


def test_a_long_argument_is_abbreviated(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        call("run", "c.yaml", "--scale", "x" * 5000)
    assert max(map(len, capsys.readouterr().err.splitlines())) < 500


def test_unprintable_letters_are_escaped() -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    BrokenPipeStream(terminal).write("λ = 1")
    terminal.seek(0)
    assert terminal.read() == r"\u03bb = 1"


def test_runs_of_a_command_without_a_worker_are_cancelled(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSCAPE_SLOTS", "many")
    err = call("run", write_config(tmp_path)).err
    assert err.startswith("FEDSCAPE_SLOTS: 'many'") and err.count("\n") == 1
    assert [run.status for run in Store(f"sqlite:///{tmp_path}/var/fedscape.db").queue.runs()] == ["cancelled"]


def test_the_configuration_of_these_tests_is_valid(call: Call, tmp_path: Path) -> None:
    assert call("run", write_config(tmp_path, **DIGITS), "--quiet").code == 0
