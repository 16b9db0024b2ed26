"""Damaged configurations and files, in a fixed order: each is refused or is a valid run.

VALUES   experiments with one invalid value, by the method, data set, ... that has the option, and by name
WHOLE    experiments that are invalid as a whole
TEXTS    invalid contents of a configuration file
CHANGES  invalid arguments of ``--set``
DATA     files without valid data, and the reason; ``write_data`` writes one of them
"""

import base64
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from engine.config.options import Evaluation, Machine, Training
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Entry, Options

GOOD: dict[str, Any] = {
    "name": "tiny",
    "dataset": {"name": "digits"},
    "partition": {"name": "iid", "num_clients": 3},
    "model": {"name": "mlr"},
    "training": {"rounds": 1, "local_steps": 1},
    "algorithms": [{"name": "fedavg"}],
    "seeds": [0],
}
YAML = yaml.safe_dump(GOOD)
LONG = "x" * 5000
Placed = Callable[[dict[str, Any]], dict[str, Any]]


def every_options_class() -> Iterator[tuple[str, type[Options], Placed]]:
    """Yields name, class, and a function that puts values into an experiment."""
    yield "training", Training, lambda given: {"training": given}
    yield "evaluation", Evaluation, lambda given: {"evaluation": given}
    yield "machine", Machine, lambda given: given
    for section, registry in (("dataset", DATASETS), ("partition", PARTITIONERS), ("model", MODELS)):
        yield from ((entry.name, entry.options, _placed(section, entry.name)) for entry in registry)
    for entry in ALGORITHMS:
        yield entry.name, entry.options, _placed("algorithms", entry.name)


def _placed(section: str, name: str) -> Placed:
    def placed(given: dict[str, Any]) -> dict[str, Any]:
        entry = {"name": name, **given}
        return {section: [entry] if section == "algorithms" else entry}

    return placed


def _values() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, options, placed in every_options_class():
        for parameter in Entry(name, "", "", options, options).parameters:
            at = f"{name}.{parameter.name}"
            wrong: list[Any] = [{"a": [1]}]
            if parameter.maximum is not None:
                wrong.append(10**300 if name in ("training", "machine") else parameter.maximum * 2 + 1)
            if parameter.minimum is not None:
                wrong.append(parameter.minimum - 1)
            damaged = {f"{at}={value!r:.20}": placed({parameter.name: value}) for value in wrong}
            found.setdefault(name, {}).update(damaged)
    return found


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES = _values()
WHOLE: dict[str, dict[str, Any]] = {
    "a name of 5,000 characters": {"name": LONG},
    "a name of two lines": {"name": "a\nb"},
    "a name with a null": {"name": "a\0b"},
    "a name with an escape sequence": {"name": "\x1b[2J"},
    "half a character as name": {"name": "\ud800"},
    "a number as name": {"name": 1e300},
    "a label of 5,000 characters": {"algorithms": [{"name": "fedavg", "label": LONG}]},
    "a number as label": {"algorithms": [{"name": "fedavg", "label": 1e300}]},
    "two labels that are one file": {"algorithms": [{"name": "fedavg", "label": c} for c in ("a/b", "a\\b")]},
    "an unknown name of 5,000 characters": {"algorithms": [LONG]},
    "no mapping as dataset": {"dataset": [["digits"]]},
    "a deep value": {"seeds": _nested(200)},
    "many unknown keys": {f"key {i}": i for i in range(5000)},
    "an unknown key of 5,000 characters": {LONG: LONG},
    "a million seeds": {"seeds": list(range(1_000_000))},
    "10,001 seeds": {"seeds": list(range(10_001))},
    "a seed of 31 digits": {"seeds": [10**30]},
    "a seed of 300 digits": {"seeds": [10**300]},
    "a seed twice": {"seeds": [0, 0]},
    "seeds that are no numbers": {"seeds": [None, True, "1", [1]]},
    "a sweep of a million runs": {
        "algorithms": [{"name": "ditto", "sweep": {"lam": list(range(1000)), "personal_lr": list(range(1000))}}]
    },
    "a sweep of nothing": {"algorithms": [{"name": "ditto", "sweep": {"lam": []}}]},
    "a sweep whose labels are too long": {
        "algorithms": [{"name": "fedprox", "sweep": {"mu": [LONG], "training.lr": [0.1]}}]
    },
    "a sweep of a path without end": {"algorithms": [{"name": "ditto", "sweep": {"a." * 3000 + "b": [1]}}]},
    "a sweep of a path with a gap": {"algorithms": [{"name": "ditto", "sweep": {"training..lr": [1]}}]},
    "a sweep of what has no keys": {"algorithms": [{"name": "ditto", "lam": 1, "sweep": {"lam.x": [1]}}]},
    "ten thousand mistakes": {"algorithms": [{"name": "ditto", "sweep": {"lam": list(range(-10_000, 0))}}]},
    "no room for the batches": {
        "training": {"rounds": 1, "local_steps": 1_000_000, "batch_size": 1_000_000},
        "partition": {"name": "iid", "num_clients": 200},
    },
    "more clients than samples": {"partition": {"name": "iid", "num_clients": 1_000_000}},
    "generated data without end": {
        "dataset": {"name": "synthetic", "num_clients": 1_000_000, "samples_per_client": 1_000_000, "dim": 1_000_000},
        "partition": "natural",
    },
    "a hypernetwork larger than the memory": {
        "model": {"name": "dnn", "hidden": 16384},
        "algorithms": [{"name": "pfedhn", "hidden": 16384}],
    },
    "a path with a null": {"dataset": {"name": "custom", "path": "a\0b.csv"}, "partition": "natural"},
    "a path of 5,000 characters": {"dataset": {"name": "custom", "path": f"{LONG}.csv"}, "partition": "natural"},
    "a path that is a folder": {"dataset": {"name": "custom", "path": "."}, "partition": "natural"},
}


def _bomb(part: Callable[[str], str], first: str) -> str:
    return "\n".join([f"a0: &a0 {first}", *(f"a{i}: &a{i} {part(', '.join([f'*a{i - 1}'] * 9))}" for i in range(1, 9))])


TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"- 1",
    "a word": b"word",
    "a YAML bomb": _bomb("[{}]".format, "[1, 1, 1]").encode(),
    "a YAML bomb of merges": _bomb("{{<<: [{}]}}".format, "{x: 1}").encode(),
    "a list that contains itself": f"{YAML}\na: &a [*a]".encode(),
    "an alias of nothing": f"{YAML}\nthreads: *a".encode(),
    "the same key twice": f"{YAML}\nname: other".encode(),
    "the same key twice in JSON": json.dumps(GOOD).replace("{", '{"name": "other", ', 1).encode(),
    "5,000 open lists": f"{YAML}\nthreads: {'[' * 5000}".encode(),
    "100,000 open mappings": b'{"a":' * 100_000,
    "a whole number of 5,000 digits": f"{YAML}\nthreads: {'9' * 5000}".encode(),
    "a hexadecimal number of 5,000 digits": f"{YAML}\nthreads: 0x{'f' * 5000}".encode(),
    "a key of 5,000 digits": f"{YAML}\n? 0x{'f' * 5000}\n: 1".encode(),
    "a number in base 60 without end": f"{YAML}\nthreads: 1{':59' * 50_000}".encode(),
    "1e400": f"{YAML}\nthreads: 1e400".encode(),
    "an infinite learning rate": YAML.replace("rounds: 1", "rounds: 1\n  lr: .inf").encode(),
    "a learning rate that is not a number": YAML.replace("rounds: 1", "rounds: 1\n  lr: .nan").encode(),
    "Infinity in JSON": json.dumps(GOOD | {"checkpoint_s": float("inf")}).encode(),
    "a date": f"{YAML}\nthreads: 2024-01-01".encode(),
    "a set": YAML.replace("name: tiny", "name: !!set {a}").encode(),
    "an int that is none": f"{YAML}\nthreads: !!int ''".encode(),
    "a bool that is none": f"{YAML}\nthreads: !!bool maybe".encode(),
    "bytes": YAML.replace("name: tiny", "name: !!binary aGk=").encode(),
    "a Python object": f"{YAML}\nthreads: !!python/object/apply:os.getpid []".encode(),
    "a custom tag": f"{YAML}\nthreads: !mine 1".encode(),
    "a key that is a list": f"{YAML}\n? [1]\n: 2".encode(),
    "two documents": f"{YAML}\n---\n{YAML}".encode(),
    "another version of YAML": f"%YAML 9.9\n---\n{YAML}".encode(),
    "half a character": json.dumps(GOOD | {"name": "\ud83d"}).encode(),
    "a null in a text": json.dumps(GOOD | {"name": "\0"}).encode(),
    "a null in the file": f"{YAML}\0".encode(),
    "a control character": f"{YAML}\n# \x07".encode(),
    "Latin-1": f"{YAML}\n# é".encode("latin-1"),
    "half of UTF-16": f"{YAML}".encode("utf-16")[:-1],
    "UTF-32": YAML.encode("utf-32"),
    "a line of a megabyte": f"{YAML}\nthreads: {'x' * 1_000_000}".encode(),
    "five megabytes": b"# comment\n" * 500_000,
    "a PNG": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "a ZIP": b"PK\x03\x04" + bytes(300),
    "a tab as indentation in YAML": b"name: tiny\ntraining:\n\trounds: 1",
    "cut off": YAML.encode()[:40] + b" [",
    "a cut off JSON": json.dumps(GOOD).encode()[:-3],
}
LEGAL_TEXTS: dict[str, bytes] = {
    "an emoji in JSON": json.dumps(GOOD | {"name": "😀"}).encode(),
    "JSON with tabs": json.dumps(GOOD, indent="\t").encode(),
    "UTF-16": YAML.encode("utf-16"),
    "a byte order mark": YAML.encode("utf-8-sig"),
    "anchors and merges": YAML.replace(
        "- name: fedavg",
        "- {name: fedavg, training: &a {lr: 0.1}}\n- {name: local_train, training: {<<: *a, momentum: 0.5}}",
    ).encode(),
}
CHANGES: dict[str, str] = {
    "no value": LONG,
    "no path": "=1",
    "3,000 levels": "training." + "a." * 3000 + "b=1",
    "an item of 5,000 digits": f"algorithms.{'9' * 5000}.lam=1",
    "an item with a digit of another script": "algorithms.٠.lam=1",
    "a key of what has none": "seeds.0.x=1",
    "5,000 open lists": f"threads={'[' * 5000}",
    "a YAML bomb": f"threads={{{', '.join(_bomb('[{}]'.format, '[1, 1, 1]').splitlines())}}}",
    "a text of 100,000 characters": f"threads={LONG * 20}",
    "half a character": "name=\udcff",
    "a whole number of 5,000 digits": f"training.lr={'9' * 5000}",
    "1e400": "training.lr=1e400",
    "1e308": "training.lr=1e308",
    "10^18 steps": f"algorithms.0.finetune_steps={10**18}",
    "a set": "seeds=!!set {1}",
    "an item that is none": "algorithms.7.mu=3",
}


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")
X, Y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
DATA: dict[str, bytes] = {
    "empty.csv": b"",
    "image.csv": PNG,
    "header.csv": b"label,x\n",
    "no-label.csv": b"a,b\n1,2\n3,4\n",
    "words.csv": b"label,x\n0,one\n1,two\n",
    "missing.csv": b"label,x\n0,\n1,2\n",
    "infinite.csv": b"label,x\n0,inf\n1,2\n",
    "nulls.csv": b"label,x\n\0,1\n1,\0\n",
    "ragged.csv": b"label,x\n0,1\n1,2,3,4\n",
    "latin.csv": "label,größe\n0,ä\n".encode("latin-1"),
    "utf16.csv": "label,x\n0,1\n1,2\n".encode("utf-16"),
    "one-class.csv": b"label,x\n0,1\n0,2\n",
    "fraction-label.csv": b"label,x\n0.5,1\n0,2\n",
    "quote.csv": b'label,x\n"0,1\n1,2\n',
    "empty.npz": b"",
    "text.npz": b"not quite a zip",
    "cut.npz": _npz(x=X, y=Y)[:-40],
    "no-y.npz": _npz(x=X),
    "objects.npz": _npz(x=X, y=np.array([{}, {}, 1, 2, 3, 4], dtype=object)),
    "short-y.npz": _npz(x=X, y=Y[:3]),
    "flat.npz": _npz(x=X.ravel(), y=np.arange(12) % 2),
    "no-samples.npz": _npz(x=X[:0], y=Y[:0]),
    "infinite.npz": _npz(x=X + np.inf, y=Y),
    "complex.npz": _npz(x=X + 1j, y=Y),
    "large-label.npz": _npz(x=X, y=Y * 1e300),
    "split.npz": _npz(x=X, y=Y, split=Y + 5),
    "empty.parquet": b"",
    "text.parquet": b"PAR1" + bytes(50) + b"PAR1",
    "image.png": PNG,
    "no-ending": b"label,x\n0,1\n1,2\n",
    "pickle.pkl": b"\x80\x04N.",
}
SPECIAL = ("pipe.csv", "pipe.npz", "pipe.parquet", "endless.csv", "endless.npz", "pipes", "nothing", "dangling.csv")


def write_data(folder: Path, name: str) -> Path:
    """Writes the file, pipe, link or folder with that name."""
    path = folder / name
    if name in DATA:
        path.write_bytes(DATA[name])
    elif name == "pipes":
        (path / "a").mkdir(parents=True)
        os.mkfifo(path / "a" / "one.png")
    elif name == "nothing":
        path.mkdir()
    elif name == "dangling.csv":
        path.symlink_to(folder / "gone.csv")
    elif name.startswith("endless"):
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    return path
