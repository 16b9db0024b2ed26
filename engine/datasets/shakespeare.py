"""Shakespeare: the task is to predict the next character of a role's lines from the 80 before it.

The roles are the clients. A sample is a row of character ids ``x[m, t]`` in 1..80 (LEAF's alphabet; 0 is no character)
and the id of the following character. Read from the files that LEAF's scripts write,
``DATA_DIR/shakespeare/data/train/*.json`` and ``test/*.json``, or from ``DATA_DIR/shakespeare/roles.jsonl.gz``, one
JSON object per line: play, role, speeches.

The split is by time, since windows of a text overlap: test characters come after all training characters of the role.
With LEAF's files it is LEAF's own; of other texts, the last ``test_share`` of a role's text is for testing. Validation
samples are drawn at random from the training windows and overlap with them, unless ``stride`` exceeds ``length``.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from pydantic import Field

from engine.core.errors import DataUnavailable
from engine.core.registry import DATASETS, Options
from engine.datasets import Pool, Progress
from engine.datasets.leaf import PARTS, leaf_bytes, leaf_files, leaf_folder, leaf_patterns, leaf_users, unreadable

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"  # LEAF's
CLASS_NAMES = ("newline", "space", *ALPHABET[2:])
UNKNOWN = ALPHABET.index(" ")  # for other characters
OVERLAP = "neighboring windows of a text have characters in common"
FOLDER, ROLES = "shakespeare", "roles.jsonl.gz"
LEAF_LENGTH = 80
TOTAL_CHARS = 4_300_000
_PARSED = 4  # bytes of memory for a byte of JSON
_INDEX = np.full(128, UNKNOWN, np.int32)
_INDEX[[ord(c) for c in ALPHABET]] = np.arange(len(ALPHABET))

Windows = tuple[np.ndarray, np.ndarray]  # x [n, length] int32 ids from 1, y [n] int64 labels from 0


class ShakespeareOptions(Options):
    advanced: ClassVar[tuple[str, ...]] = ("length", "test_share")

    stride: int = Field(
        10,
        ge=1,
        le=1000,
        title="Stride",
        description="Every stride-th character is predicted; 1 predicts all, as LEAF does, and takes 10 times the "
        "memory and time of 10.",
    )
    min_chars: int = Field(
        2000,
        ge=2,
        le=1_000_000,
        title="Minimum text",
        description="Roles with fewer characters are left out.",
    )
    length: int = Field(LEAF_LENGTH, ge=1, le=1000, title="Length", description="Characters before the predicted one.")
    test_share: float = Field(
        0.2,
        gt=0,
        lt=1,
        title="Test share",
        description="Share of a role's text, at its end, for testing; with LEAF's files their own split is used.",
    )


@DATASETS.register(
    "shakespeare",
    title="Shakespeare (next character, by role)",
    short="Shakespeare",
    paper="McMahan et al. Communication-Efficient Learning of Deep Networks from Decentralized Data. AISTATS 2017; "
    "Caldas et al. LEAF. 2018.",
)
@dataclass(frozen=True)
class Shakespeare:
    options: ShakespeareOptions
    needs_download: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True  # all seeds read the same files, once per process
    files: ClassVar[tuple[str, ...]] = (f"{FOLDER}/{ROLES}", *leaf_patterns(FOLDER))

    def present(self, data_dir: Path) -> bool:
        return leaf_folder(data_dir / FOLDER) is not None or os.path.isfile(data_dir / FOLDER / ROLES)

    def memory(self, data_dir: Path) -> int:
        windows = TOTAL_CHARS // self.options.stride * (2 * 4 * self.options.length + 48)
        return windows + leaf_bytes(data_dir / FOLDER, _PARSED)

    def load(self, data_dir: Path, rng: np.random.Generator, progress: Progress | None = None) -> Pool:
        """Raises DataUnavailable if a file is missing or invalid, or no role has enough text."""
        folder = leaf_folder(data_dir / FOLDER)
        if folder is None:
            roles = self._of_texts(data_dir / FOLDER / ROLES)
        else:
            roles = self._of_leaf(folder, progress)
        if not roles:
            raise DataUnavailable(
                f"{data_dir / FOLDER}: no role has min_chars={self.options.min_chars} characters with "
                f"length={self.options.length} of them before a training and a test character; lower one of them"
            )
        pieces = [piece for role in roles for piece in role]  # training, test, training, test, ...
        sizes = [len(y) for _, y in pieces]
        owner = np.arange(len(pieces))
        return Pool(
            np.concatenate([x for x, _ in pieces]),
            np.concatenate([y for _, y in pieces]),
            num_classes=len(ALPHABET),
            client=np.repeat(owner // 2, sizes),
            split=np.repeat(owner % 2, sizes),
            class_names=CLASS_NAMES,
            overlap=OVERLAP if self.options.stride <= self.options.length else "",
        )

    def _of_texts(self, path: Path) -> list[tuple[Windows, Windows]]:
        o, roles = self.options, []
        for text in _texts(path):
            if len(text) < o.min_chars:
                continue
            ids = encoded(text)
            cut = len(ids) - round(o.test_share * len(ids))
            if min(cut, len(ids) - cut) > o.length:
                roles.append((windows(ids[:cut], o.length, o.stride), windows(ids[cut:], o.length, o.stride)))
        return roles

    def _of_leaf(self, folder: Path, progress: Progress | None) -> list[tuple[Windows, Windows]]:
        found: dict[str, dict[str, Windows]] = {}
        total: dict[str, int] = {}
        paths = [(part, path) for part in PARTS for path in leaf_files(folder, part)]
        for i, (part, path) in enumerate(paths):
            if progress is not None:
                progress(f"Reading {path.name}", i / len(paths))
            for user, x, y in leaf_users(path):
                total[user] = total.get(user, self.options.length) + len(y)
                found.setdefault(user, {})[part] = self._samples(path, user, x, y)
        chosen = [user for user in found if total[user] >= self.options.min_chars and len(found[user]) == len(PARTS)]
        roles = [(found[user]["train"], found[user]["test"]) for user in chosen]
        return [(a, b) for a, b in roles if len(a[1]) and len(b[1])]

    def _samples(self, path: Path, user: str, x: list[str], y: list[str]) -> Windows:
        """Every stride-th sample of a user."""
        length, stride = self.options.length, self.options.stride
        x, y = x[::stride], y[::stride]
        if not all(isinstance(text, str) and len(text) == length for text in x):
            raise unreadable(path, f"user {user} must have texts of length={length}")
        if not all(isinstance(char, str) and len(char) == 1 for char in y):
            raise unreadable(path, f"user {user} must have one character as each label")
        ids = encoded("".join(x)).reshape(-1, length)
        return ids + 1, encoded("".join(y)).astype(np.int64)


def encoded(text: str) -> np.ndarray:
    """The place of each character in the alphabet, int32; others become a space."""
    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)
    return _INDEX[np.minimum(codes, len(_INDEX) - 1)]  # the last code, DEL, is not in the alphabet


def windows(ids: np.ndarray, length: int, stride: int) -> Windows:
    """The ``length`` characters before every ``stride``-th character, and that character."""
    x = sliding_window_view(ids[:-1], length)[::stride]
    return x + np.int32(1), ids[length::stride].astype(np.int64)


def _texts(path: Path) -> Iterator[str]:
    """The speeches of each role, separated by newlines. Raises DataUnavailable."""
    if not os.path.isfile(path):
        folder = path.parent / "data" / "train"
        raise DataUnavailable(
            f"there is no {path}, nor {folder} with JSON files of LEAF; run LEAF's preprocess.sh for shakespeare and "
            f"copy its folder data into {path.parent}, or set DATA_DIR"
        )
    done = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                role = json.loads(line)
                speeches = role.get("speeches") if isinstance(role, dict) else None
                if not isinstance(speeches, list) or not all(isinstance(speech, str) for speech in speeches):
                    raise ValueError("it must be an object with speeches, a list of texts")
                yield "\n".join(speeches)
                done += 1
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataUnavailable(
            f"{path}, line {done + 1}: {error}. Expected: a JSON object per line with play, role and speeches, packed "
            "by gzip"
        ) from error
