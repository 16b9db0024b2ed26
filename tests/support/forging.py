"""Malicious files: exports, bundles and backups, each damaged in one way and otherwise valid.

A case takes the parts of a valid file and a folder, and returns a path in it. Checksums and sizes match, unless they
are the damage.
"""

import hashlib
import json
import os
import sqlite3
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

Parts = dict[str, bytes]  # the members of a valid archive
Case = Callable[[Parts, Path], Path]

CANARY = "../../beside/canary.bin"  # as named by a row of the target's database


# Exports.


def document(change: Callable[[dict[str, Any]], Any]) -> Case:
    """Changes the exported document."""

    def case(parts: Parts, folder: Path) -> Path:
        found = json.loads(parts["runs.json"])
        change(found)
        return written(folder / "runs.json", json.dumps(found).encode())

    return case


def run(**values: Any) -> Case:
    return document(lambda d: d["runs"][0].update(values))


def provenance(**values: Any) -> Case:
    return document(lambda d: d["runs"][0]["provenance"].update(values))


def partition(**values: Any) -> Case:
    return document(lambda d: d["runs"][0]["partition"].update(values))


def round_(number: int = 1, **values: Any) -> Case:
    return document(
        lambda d: d["runs"][0]["rounds"][number].update({k.replace("global_", "global"): v for k, v in values.items()})
    )


def diagnostics(**values: Any) -> Case:
    return document(lambda d: [r["diagnostics"].update(values) for r in d["runs"][0]["rounds"]])


def text(change: Callable[[bytes], bytes]) -> Case:
    return lambda parts, folder: written(folder / "runs.json", change(parts["runs.json"]))


def fifo(parts: Parts, folder: Path) -> Path:
    os.mkfifo(folder / "runs.json")
    return folder / "runs.json"


N = 4
ZEROS = [0] * N
EXPORTS: dict[str, Case] = {
    "versions are text": provenance(versions="everything"),
    "versions are numbers": provenance(versions={"torch": 2}),
    "versions are nested": provenance(versions={"torch": {"a": []}}),
    "warnings are text": provenance(warnings="all is well"),
    "extra is text": provenance(extra="more"),
    "layers are numbers": provenance(extra={"layers": [1, 2]}),
    "fingerprint is a list": provenance(dataset_fingerprint=["a"]),
    "threads are huge": provenance(threads=10**30),
    "provenance is a list": run(provenance=[]),
    "partition is text": run(partition="even"),
    "sizes are text": partition(test_sizes=["3"] * N),
    "sizes are negative": partition(test_sizes=[-1] * N),
    "sizes are huge": partition(test_sizes=[10**400] * N),
    "sizes are fractions": partition(test_sizes=[1.5] * N),
    "contexts are huge": partition(contexts=[2**31 - 1] * N),
    "contexts are too few": partition(contexts=[0]),
    "class names are too few": partition(class_names=["one"]),
    "class counts are ragged": partition(class_counts=[[1], [1, 2], [1], [1]]),
    "no classes": partition(class_counts=[[]] * N, class_names=[]),
    "no test samples": partition(test_sizes=ZEROS),
    "notes are text": partition(notes="a note"),
    "no clients": partition(
        **{n: [] for n in ("train_sizes", "val_sizes", "test_sizes", "class_counts")}, contexts=None
    ),
    "rounds are a mapping": run(rounds={}),
    "rounds are not counted": document(lambda d: d["runs"][0]["rounds"].reverse()),
    "rounds without partition": run(partition=None),
    "accuracy beyond one": round_(personalized={"accuracy": [7.0] * N, "loss": ZEROS}),
    "accuracy of other clients": round_(personalized={"accuracy": [0.5] * (N + 1)}),
    "accuracy is text": round_(personalized={"accuracy": ["much"] * N}),
    "loss beyond single precision": round_(personalized={"accuracy": [0.5] * N, "loss": [1e300] * N}),
    "a metric named like a path": round_(personalized={"../../accuracy": [0.5] * N}),
    "bytes are negative": round_(bytes_up=-1),
    "seconds are text": round_(seconds="long"),
    "a cohort of others": round_(cohort=[99]),
    "clusters too few": round_(clusters=[0]),
    "clusters beyond int16": round_(clusters=[10**6] * N),
    "diagnostics ragged": diagnostics(cost=[[1], [1, 2]]),
    "diagnostics of text": diagnostics(mu="much"),
    "diagnostics nested": diagnostics(mu={"a": 1}),
    "layer scores of other clients": diagnostics(layer_scores=[[0.5, 0.5]]),
    "layer scores are a number a client": diagnostics(layer_scores=ZEROS),
    "the terms of K without their weight": diagnostics(capacity=[1, 2], cost=[2, 1]),
    "a number in the place of an array": diagnostics(capacity=1, cost=2, mu=1, K_hat=1),
    "an array in the place of a number": diagnostics(model_distance=[1, 2]),
    "a weight that is not known": diagnostics(capacity=[1, 2], cost=[2, 1], mu=None, K_hat=2),
    "the terms of K without their answer": diagnostics(capacity=[1, 2], cost=[2, 1], mu=1),
    "norms of one kind only": diagnostics(mean_update_norm=[1.0]),
    "norms of different clusters": diagnostics(mean_update_norm=[1.0], max_update_norm=[1.0, 2.0]),
    "update norms in two dimensions": diagnostics(update_norm=[[1, 2], [3, 4]]),
    "arrivals of other clients": diagnostics(arrived=[1] * (N + 1)),
    "a guarantee for other clients": diagnostics(**{"privacy.epsilon": [1.0]}),
    "unseen clients that are not there": round_(unseen={"accuracy": [0.5]}),
    "status of a running run": run(status="running"),
    "a run of another configuration": run(label="somebody else's"),
    "seed is text": run(seed="zero"),
    "configuration is a list": document(lambda d: d.update(config=[])),
    "no runs": document(lambda d: d.pop("runs")),
    "runs are numbers": document(lambda d: d.update(runs=[1, 2])),
    "not a number": text(lambda t: t.replace(b'"seconds": ', b'"seconds": NaN, "x": ', 1)),
    "infinite": text(lambda t: t.replace(b'"seed": 0', b'"seed": Infinity', 1)),
    "an exponent without end": text(lambda t: t.replace(b'"bytes_up": ', b'"bytes_up": 1e99999, "x": ', 1)),
    "an integer without end": text(lambda t: t.replace(b'"seed": 0', b'"seed": ' + b"9" * 5000, 1)),
    "nested without end": text(lambda t: b'{"config": ' + b"[" * 100_000),
    "half a surrogate pair": text(lambda t: t.replace(b'"label": "', b'"label": "\\ud800', 1)),
    "cut short": text(lambda t: t[: len(t) // 2]),
    "empty": text(lambda t: b""),
    "no text": text(lambda t: bytes(range(256))),
    "a folder": lambda parts, folder: folder,
    "a pipe": fifo,
    "a device": lambda parts, folder: Path("/dev/zero"),
    "absent": lambda parts, folder: folder / "absent.json",
}

ACCEPTED: dict[str, Case] = {
    "as it was": document(lambda d: None),
    "no origin at all": run(provenance={}),
    "an origin with more in it": provenance(more={"a": [1]}, versions={"*bold* <b>": "[link](http://x)"}),
    "no round was evaluated": document(
        lambda d: [r.update({"personalized": None, "global": None}) for r in d["runs"][0]["rounds"]]
    ),
    "no round at all": run(rounds=[], status="failed"),
    "neither rounds nor partition": run(rounds=[], partition=None, status="cancelled"),
    "nothing was measured": document(
        lambda d: [r.update({"personalized": {"accuracy": [None] * N}}) for r in d["runs"][0]["rounds"]]
    ),
    "different clusters in every round": document(
        lambda d: [r.update({"clusters": [(i + r["round"]) % 7 for i in range(N)]}) for r in d["runs"][0]["rounds"]]
    ),
    "clusters below zero": document(
        lambda d: [r.update({"clusters": [-1, 0, 1, -32768]}) for r in d["runs"][0]["rounds"]]
    ),
    "a client without samples": partition(test_sizes=[0, 5, 5, 5], train_sizes=[0, 5, 5, 5]),
    "contexts far apart": partition(contexts=[0, 1, 2, 999_999]),
    "layers that are scored": diagnostics(layer_scores=[[0.5, 0.5]] * N, personal_layers=[[1, 0]] * N),
    "the terms of K": diagnostics(capacity=[1, 2], cost=[2, 1], mu=1.0, K_hat=2),
    "the terms of K for more clusters in later rounds": document(
        lambda d: [
            r["diagnostics"].update(capacity=[1] * (r["round"] + 1), cost=[2] * (r["round"] + 1), mu=1.0, K_hat=1)
            for r in d["runs"][0]["rounds"]
        ]
    ),
    "uploads of each client": diagnostics(update_norm=[1.0] * N, arrived=[0, 1, 1, None], speed=[1.0] * N),
    "custom diagnostics": diagnostics(mine=[[[1]]], also_mine=[1, 2], another=None),
    "distances that are not known": document(
        lambda d: [r["diagnostics"].update(model_distance=None, inertia=None) for r in d["runs"][0]["rounds"][1:]]
    ),
    "an answer without the terms of K": diagnostics(K_hat=2),
    "seconds that were not": round_(seconds=None, bytes_up=None, bytes_down=1e300),
    "an error of many lines": document(lambda d: d["runs"][0]["provenance"].update(error="<script>\n" * 50)),
}


# Archives.


def packed(folder: Path, parts: Parts, **changes: Any) -> Path:
    """An archive with a matching manifest; ``changes`` replace fields of the manifest."""
    manifest = json.loads(parts["manifest.json"])
    members = {
        n: {"sha256": hashlib.sha256(d).hexdigest(), "size_bytes": len(d)}
        for n, d in parts.items()
        if n != "manifest.json"
    }
    manifest |= {"members": members} | changes
    return zipped(folder, parts | {"manifest.json": json.dumps(manifest).encode()})


def zipped(folder: Path, parts: Parts, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "forged.zip", "w", compression) as file:
        for name, data in parts.items():
            file.writestr(zipfile.ZipInfo(name), data, compression)
    return folder / "forged.zip"


def archive(change: Callable[[Parts], Any], **manifest: Any) -> Case:
    """Changes members, with a matching manifest."""

    def case(parts: Parts, folder: Path) -> Path:
        new = dict(parts)
        change(new)
        return packed(folder, new, **manifest)

    return case


def manifest(**changes: Any) -> Case:
    return archive(lambda parts: None, **changes)


def manifest_text(data: bytes) -> Case:
    return lambda parts, folder: zipped(folder, parts | {"manifest.json": data})


def without(field: str) -> Case:
    def case(parts: Parts, folder: Path) -> Path:
        found = json.loads(parts["manifest.json"])
        del found[field]
        return zipped(folder, parts | {"manifest.json": json.dumps(found).encode()})

    return case


def entry(name: str, mode: int = 0, listed: bool = True, flags: int = 0) -> Case:
    """Adds a member with this name and file mode."""

    def case(parts: Parts, folder: Path) -> Path:
        data = CANARY.encode()
        path = packed(folder, parts | ({name: data} if listed else {}))
        info = zipfile.ZipInfo(name)
        info.external_attr, info.create_system = mode << 16, 3
        with zipfile.ZipFile(path) as old:
            there = {n: old.read(n) for n in old.namelist() if n != info.filename}
        with zipfile.ZipFile(path, "w") as new:
            for n, d in there.items():
                new.writestr(zipfile.ZipInfo(n), d)
            info.flag_bits |= flags
            new.writestr(info, data)
        if flags:
            raw = bytearray(path.read_bytes())
            raw[raw.rindex(b"PK\1\2") + 8] |= flags
            path.write_bytes(raw)
        return path

    return case


def raw_name(fake: bytes) -> Case:
    """A member with a name that no zip program writes, by replacing the bytes of another name."""

    def case(parts: Parts, folder: Path) -> Path:
        path = packed(folder, parts | {"x" * len(fake): b"data"})
        path.write_bytes(path.read_bytes().replace(b"x" * len(fake), fake))
        return path

    return case


def twice(other: Callable[[str], str]) -> Case:
    """Repeats the first member under the same or a similar name."""

    def case(parts: Parts, folder: Path) -> Path:
        name = next(name for name in parts if name != "manifest.json")
        path = packed(folder, parts | {other(name): b"other"} if other(name) != name else parts)
        if other(name) == name:
            with zipfile.ZipFile(path, "a") as file, _no_warning():
                file.writestr(zipfile.ZipInfo(name), parts[name])
        return path

    return case


@contextmanager
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def claims(size: int) -> Case:
    """The last member claims this size, in the directory and in the manifest."""

    def case(parts: Parts, folder: Path) -> Path:
        path = packed(folder, parts)
        raw = bytearray(path.read_bytes())
        at = raw.rindex(b"PK\1\2")
        raw[at + 20 : at + 28] = struct.pack("<II", size, size)
        path.write_bytes(raw)
        return path

    return case


def overlapping(parts: Parts, folder: Path) -> Path:
    """A thousand members that share the same bytes of the file."""
    path = packed(folder, parts)
    with zipfile.ZipFile(path, "a") as file:
        info = file.infolist()[0]
        for i in range(1000):
            again = zipfile.ZipInfo(f"again-{i}")
            again.header_offset, again.file_size, again.compress_size, again.CRC = (
                info.header_offset,
                info.file_size,
                info.compress_size,
                info.CRC,
            )
            file.filelist.append(again)
            file.NameToInfo[again.filename] = again
        file._didModify = True
    return path


def cut(parts: Parts, folder: Path) -> Path:
    path = packed(folder, parts)
    return written(path, path.read_bytes()[:-60])


def bomb(parts: Parts, folder: Path) -> Path:
    return zipped(folder, parts | {"runs.json": bytes(50_000_000)}, zipfile.ZIP_DEFLATED)


ARCHIVES: dict[str, Case] = {
    "a name above": entry("../escaped"),
    "a name above, not listed": entry("../escaped", listed=False),
    "a name from the root": entry("/tmp/escaped"),
    "a name in another folder": entry("artifacts/../../escaped"),
    "a name with backslashes": raw_name(b"..\\..\\escaped"),
    "a name with a NUL": raw_name(b"runs.json\0.png"),
    "a name that hides": entry(".hidden"),
    "a folder in it": entry("folder/"),
    "a symbolic link": entry("link", stat.S_IFLNK | 0o777),
    "a device in it": entry("device", stat.S_IFCHR | 0o666),
    "a pipe in it": entry("pipe", stat.S_IFIFO | 0o666),
    "a member that is encrypted": entry("secret", flags=1),
    "an unlisted member": entry("more", listed=False),
    "an unknown member": entry("more"),
    "a name twice": twice(lambda name: name),
    "names that differ in case": twice(str.upper),
    "a claim of 4 GB": claims(2**32 - 2),
    "members that overlap": overlapping,
    "a bomb": bomb,
    "cut short": cut,
    "no manifest": lambda parts, folder: zipped(folder, {n: d for n, d in parts.items() if n != "manifest.json"}),
    "an invalid manifest": manifest_text(b"rubbish"),
    "a manifest that is a list": manifest_text(b"[]"),
    "a manifest nested without end": manifest_text(b"[" * 100_000),
    "a manifest in no encoding": manifest_text(b"\xff"),
    "members are a list": manifest(members=[]),
    "members are numbers": manifest(members={"a": 1}),
    "an invalid checksum": manifest(members={"runs.json": {"sha256": "../x", "size_bytes": 1}}),
    "a size below zero": manifest(members={"runs.json": {"sha256": "0" * 64, "size_bytes": -1}}),
    "a size that is text": manifest(members={"runs.json": {"sha256": "0" * 64, "size_bytes": "1"}}),
    "a format that is text": manifest(format="1"),
    "a format without end": manifest(format=10**30),
    "a kind that is a list": manifest(kind=[]),
    "a kind with colors": manifest(kind="\x1b[31mred\x1b[0m"),
    "no kind": without("kind"),
    "no members": without("members"),
}


# Bundles.


def beside(change: Callable[[list[dict[str, Any]]], Any]) -> Case:
    def edit(parts: Parts) -> None:
        found = json.loads(parts["beside.json"])
        change(found)
        parts["beside.json"] = json.dumps(found).encode()

    return archive(edit)


def member(part: str, data: bytes) -> Case:
    """Replaces the first member whose name contains ``part``."""
    return archive(lambda parts: parts.update({next(name for name in parts if part in name): data}))


def models(num_clients: int = N, /, **shapes: tuple[int, ...]) -> bytes:
    tensors = {name.replace("_", "/"): np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return save(tensors, metadata={"num_clients": str(num_clients)})


def findings(values: dict[str, Any], **arrays: np.ndarray) -> bytes:
    return save(arrays, metadata={"values": json.dumps(values)})


BUNDLES: dict[str, Case] = {
    "the other kind": manifest(kind="Fedscape backup"),
    "no list of what is beside": archive(lambda parts: parts.pop("beside.json")),
    "what is beside are numbers": archive(lambda parts: parts.update({"beside.json": b"[1, 2]"})),
    "what is beside is of more runs": beside(lambda b: b.append(b[0])),
    "an invalid document": archive(lambda parts: parts.update({"runs.json": b"\0"})),
    "versions are text": archive(
        lambda parts: parts.update(
            {"runs.json": parts["runs.json"].replace(b'"versions": {', b'"versions": "x", "y": {')}
        )
    ),
    "one file for two models": beside(lambda b: b[0]["models"][1].update(member=b[0]["models"][0]["member"])),
    "one kind of models twice": beside(lambda b: b[0]["models"][1].update(kind=b[0]["models"][0]["kind"])),
    "models of no kind": beside(lambda b: b[0]["models"][0].update(kind="../../checkpoint")),
    "the manifest as models": beside(lambda b: b[0]["models"][0].update(member="manifest.json")),
    "the document as models": beside(lambda b: b[0]["models"][0].update(member="runs.json")),
    "models above": beside(lambda b: b[0]["models"][0].update(member="../../../etc/passwd")),
    "a round below zero": beside(lambda b: b[0]["models"][0].update(round=-1)),
    "options that are text": beside(lambda b: b[0]["analyses"][0].update(params="none")),
    "an analysis named like a path": beside(lambda b: b[0]["analyses"][0].update(kind="../confusion")),
    "a time that is none": beside(lambda b: b[0]["events"][0].update(at="then")),
    "an invalid level": beside(lambda b: b[0]["events"][0].update(level="loud")),
    "invalid models": member("model-last", b"rubbish"),
    "models with a header without end": member("model-last", struct.pack("<Q", 2**62) + b"{}"),
    "models of five clients": member("model-last", models(initial_w=(3,), personalized_w=(N + 1, 3))),
    "models unlike their initial model": member("model-last", models(initial_w=(3,), personalized_w=(N, 4))),
    "models without an initial model": member("model-last", models(personalized_w=(N, 3))),
    "models without clients": member("model-last", models(initial_w=(3,))),
    "invalid findings": member("analysis", b"rubbish"),
    "findings without arrays": member("analysis", findings({})),
    "findings of other clients": member("analysis", findings({}, personalized=np.zeros((N + 1, 10, 10), np.int32))),
    "findings of other classes": member("analysis", findings({}, personalized=np.zeros((N, 2, 2), np.int32))),
    "findings of two axes": member("analysis", findings({}, personalized=np.zeros((N, 10), np.int32))),
    "findings whose values are a list": member(
        "analysis", save({"personalized": np.zeros((N, 10, 10))}, metadata={"values": "[]"})
    ),
}


# Backups.


def rows(*statements: str | tuple[str, tuple[Any, ...]], **changes: Any) -> Case:
    """Runs these statements on the database of the backup."""

    def edit(parts: Parts, folder: Path) -> Path:
        path = written(folder / "forged.db", parts["fedscape.db"])
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            for statement in statements:
                connection.execute(*((statement,) if isinstance(statement, str) else statement))
            connection.commit()
        new = parts | {"fedscape.db": path.read_bytes()}
        path.unlink()
        return packed(folder, new, **changes)

    return edit


def artifact(parts: Parts) -> str:
    return next(name for name in parts if name.startswith("artifacts/"))


def turned(parts: Parts) -> None:
    """Changes the bytes of every page except the first."""
    data = parts["fedscape.db"]
    parts["fedscape.db"] = data[:8192] + bytes(byte ^ 0x55 for byte in data[8192:])


EVIL = "BEGIN DELETE FROM runs; END"
BACKUPS: dict[str, Case] = {
    "the other kind": manifest(kind="Fedscape bundle"),
    "a path above": rows(f"UPDATE artifacts SET path = '{CANARY}' WHERE id = 1"),
    "a path from the root": rows("UPDATE artifacts SET path = '/etc/hostname' WHERE id = 1"),
    "a path of no artifact": rows("UPDATE artifacts SET path = '1/notes.txt' WHERE id = 1"),
    "a path of another run": rows("UPDATE artifacts SET run_id = 2 WHERE id = 1"),
    "a path with a NUL": rows(("UPDATE artifacts SET path = ? WHERE id = 1", ("1/x\0y",))),
    "a kind like a path": rows("UPDATE artifacts SET kind = '../../x' WHERE id = 1"),
    "an artifact of another sum": rows(f"UPDATE artifacts SET sha256 = '{'0' * 64}' WHERE id = 1"),
    "an artifact of less than nothing": rows("UPDATE artifacts SET size_bytes = -1 WHERE id = 1"),
    "an artifact that is not there": archive(lambda parts: parts.pop(artifact(parts))),
    "an artifact without a row": rows("DELETE FROM artifacts WHERE id = 1"),
    "an artifact named like no other": archive(lambda parts: parts.update({"artifacts/1/x.bin": b"x"})),
    "a log beside the database": archive(lambda parts: parts.update({"fedscape.db-wal": b"x"})),
    "an artifact with other bytes": archive(lambda parts: parts.update({artifact(parts): b"other"})),
    "findings of another run": rows("UPDATE analyses SET run_id = 2"),
    "a trigger": rows(f"CREATE TRIGGER evil AFTER INSERT ON events {EVIL}"),
    "a trigger with a name of SQLite's": rows(
        f"CREATE TRIGGER evil AFTER UPDATE ON runs {EVIL}",
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET name = 'sqlite_evil', sql = replace(sql, 'evil', 'sqlite_evil') WHERE name = 'evil'",
    ),
    "a view": rows("CREATE VIEW evil AS SELECT * FROM runs"),
    "a view in the place of a table": rows("DROP TABLE saved_views", "CREATE VIEW saved_views AS SELECT 1 AS id"),
    "a virtual table": rows("CREATE VIRTUAL TABLE evil USING fts5(x)"),
    "a table more": rows("CREATE TABLE evil (x)"),
    "a table less": rows("DROP TABLE saved_views"),
    "a column more": rows("ALTER TABLE engines ADD COLUMN evil TEXT"),
    "a column that computes itself": rows("ALTER TABLE engines ADD COLUMN evil AS (length(host))"),
    "a table that refuses": rows("DROP TABLE saved_views", "CREATE TABLE saved_views (id INTEGER CHECK (0))"),
    "an index that computes": rows("CREATE INDEX evil ON runs (length(label))"),
    "rubbish": archive(lambda parts: parts.update({"fedscape.db": b"rubbish" * 1000})),
    "nothing": archive(lambda parts: parts.update({"fedscape.db": b""})),
    "another program's database": archive(lambda parts: parts.update({"fedscape.db": other_database()})),
    "pages that were turned": archive(turned),
    "half a database": archive(lambda parts: parts.update({"fedscape.db": parts["fedscape.db"][:40960]})),
    "no database": archive(lambda parts: parts.pop("fedscape.db")),
    "an older schema than it has": manifest(schema="0001"),
    "a schema of the future": manifest(schema="9999"),
    "a schema that is a number": manifest(schema=3),
    "no schema": without("schema"),
    "a revision that is none": rows("UPDATE alembic_version SET version_num = '0001'"),
    "no revision": rows("DELETE FROM alembic_version"),
    "no number of runs": without("runs"),
    "another number of runs": manifest(runs=77),
    "a number of runs that is text": manifest(runs="2"),
    "text in the place of a number": rows("UPDATE runs SET rounds = 'many'"),
    "a blob in the place of text": rows("UPDATE runs SET label = x'00ff'"),
    "text in no encoding": rows("UPDATE runs SET label = CAST(x'ff41' AS TEXT)"),
    "a status of no run": rows("UPDATE runs SET status = 'ready'"),
    "a round before the first": rows("UPDATE runs SET round = -7"),
    "a run of no rounds": rows("UPDATE runs SET rounds = 0"),
    "a time that is none": rows("UPDATE runs SET created_at = 'then'"),
    "a time that cannot be": rows("UPDATE runs SET created_at = '2026-13-41 99:00:00.000000'"),
    "a switch that is neither": rows("UPDATE experiments SET archived = 7"),
    "an invalid level": rows("UPDATE events SET level = 'loud'"),
    "options that are no JSON": rows("UPDATE runs SET hparams = '{'"),
    "options that are a list": rows("UPDATE runs SET hparams = '[]'"),
    "options that are infinite": rows("UPDATE runs SET hparams = '{\"a\": 1e999}'"),
    "options with a number without end": rows(f"UPDATE runs SET hparams = '{{\"a\": {'9' * 5000}}}'"),
    "options nested without end": rows("UPDATE runs SET hparams = '" + '{"a":' * 20_000 + "'"),
    "options nested in 60 levels": rows("UPDATE runs SET hparams = '" + '{"a":' * 60 + "1" + "}" * 60 + "'"),
    "versions are text": rows('UPDATE runs SET provenance = \'{"versions": "all"}\''),
    "no method": rows("UPDATE runs SET config = json_remove(config, '$.algorithm')"),
    "no data set": rows("UPDATE runs SET config = json_remove(config, '$.dataset')"),
    "a data set that is text": rows("UPDATE runs SET config = json_set(config, '$.dataset', 'x')"),
    "a number of clients that is text": rows(
        "UPDATE runs SET config = json_set(config, '$.partition.num_clients', 'x')"
    ),
    "training that is a list": rows("UPDATE runs SET config = json_set(config, '$.training', json('[1]'))"),
    "no role in a study": rows("UPDATE runs SET config = json_set(config, '$.study', json('{}'))"),
    "a summary that is a list": rows("UPDATE runs SET summary = json_set(summary, '$.personalized', json('[1]'))"),
    "a mean that is text": rows("UPDATE runs SET summary = json_set(summary, '$.best.personalized.mean', 'x')"),
    "a partition without sizes": rows("UPDATE partitions SET partition = '{}'"),
    "a partition of text": rows("UPDATE partitions SET partition = json_set(partition, '$.class_names', 'x')"),
    "sizes that are text": rows("UPDATE partitions SET partition = json_set(partition, '$.test_sizes[0]', 'x')"),
    "a blob cut short": rows("UPDATE client_metrics SET data = x'00'"),
    "a shape without end": rows("UPDATE client_metrics SET shape = '9999999999,9999999999'"),
    "sparse values cut short": rows("UPDATE client_metrics SET dtype = 'sparse <f4', data = x'000000'"),
    "sparse values of unknown clients": rows(
        "UPDATE client_metrics SET dtype = 'sparse <f4', data = x'FFFFFF7F00000000' WHERE shape NOT LIKE '%,%'"
    ),
    "sparse values of a client twice": rows(
        "UPDATE client_metrics SET dtype = 'sparse <f4', data = x'00000000000000000000000000000000' "
        "WHERE shape NOT LIKE '%,%'"
    ),
    "a sparse shape without end": rows(
        "UPDATE client_metrics SET dtype = 'sparse <f4', shape = '9999999999', data = x'' WHERE shape NOT LIKE '%,%'"
    ),
    "a shape below zero": rows("UPDATE client_metrics SET shape = '-1'"),
    "a shape of other clients": rows("UPDATE client_metrics SET shape = '2,2' WHERE name LIKE 'personalized.%'"),
    "values that are objects": rows("UPDATE client_metrics SET dtype = '|O8'"),
    "values that are times": rows("UPDATE client_metrics SET dtype = '<M8[s]'"),
    "update norms in two dimensions": rows(
        "UPDATE client_metrics SET name = 'diagnostics.update_norm', shape = '2,2' WHERE name = 'train_loss'"
    ),
    "clusters of other clients": rows("UPDATE cluster_assignments SET labels = x'0000'"),
    "a cohort of others": rows("UPDATE rounds SET cohort = x'63000000'"),
    "a cohort cut short": rows("UPDATE rounds SET cohort = x'0000'"),
    "rows of no run": rows(
        "PRAGMA foreign_keys=OFF",
        "INSERT INTO events (run_id, at, level, kind, message) "
        "VALUES (99, '2026-01-01 00:00:00.000000', 'info', '', '')",
    ),
}


def other_database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE notes (text)")
        return connection.serialize()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
