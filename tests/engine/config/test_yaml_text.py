"""Untrusted YAML and JSON: plain values within limits, and a message with the line of an error."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from engine.config.yaml_text import MAX_CHARACTERS, MAX_LEVELS, MAX_VALUES, as_plain, problem_in, read_text, read_yaml


def bomb(levels: int, width: int, merged: bool = False) -> str:
    """``width ** levels`` values in a few hundred characters."""
    lines = ["a0: &a0 {x: 1}" if merged else f"a0: &a0 [{', '.join(['1'] * width)}]"]
    for level in range(1, levels):
        uses = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} " + (f"{{<<: [{uses}]}}" if merged else f"[{uses}]"))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("-.5", -0.5),
        ("1_000", 1000),
        ("0x1f", 31),
        (".inf", float("inf")),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("NaN", "NaN"),
        ("=", "="),
        (
            "{on: val, off: no, y: yes, t: true, f: False}",
            {"on": "val", "off": "no", "y": "yes", "t": True, "f": False},
        ),
        ("!!str 5", "5"),
        ("", None),
        ('{\n\t"a": 1\n}', {"a": 1}),
        ('"\\ud83d\\ude00"', "😀"),
        ('{a: "\\ud83d\\ude00"}', {"a": "😀"}),
        ("{x: &x {p: 1}, y: {<<: *x, q: 2}}", {"x": {"p": 1}, "y": {"p": 1, "q": 2}}),
        ("[&a [1], *a]", [[1], [1]]),
        ("[&a {<<: {q: 1}, q: 2}, {<<: *a}]", [{"q": 2}, {"q": 2}]),
    ],
)
def test_valid_text_is_parsed_to_its_value(text: str, value: Any) -> None:
    assert read_yaml(text) == value


def test_values_of_python_become_those_of_a_file() -> None:
    given = {
        "seeds": range(2),
        "sweep": {"lam": (np.float64(0.5), 1)},
        "lr": np.logspace(-1, 0, 2),
        "n": np.int64(3),
        "path": Path("a/b"),
    }
    plain = {"seeds": [0, 1], "sweep": {"lam": [0.5, 1]}, "lr": [0.1, 1.0], "n": 3, "path": "a/b"}
    found = as_plain(given)
    assert found == plain and type(found["n"]) is int and type(found["sweep"]["lam"][0]) is float
    assert as_plain(range(10**12)) == range(10**12)  # too many, which the schema refuses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (bomb(9, 9), "counting each use of an alias"),
        (bomb(9, 9, merged=True), "counting each use of an alias"),
        ("a: &a [*a]", "line 1, column 8: *a contains itself"),
        ("*a", "undefined alias"),
        ("[" * 100_000, f"nested more than {MAX_LEVELS} levels"),
        ('{"a":' * 5000, f"more than {MAX_LEVELS} levels"),
        ("[" * 40 + "]" * 40, f"nested more than {MAX_LEVELS} levels"),
        ("[" + "1," * MAX_VALUES + "1]", f"more than {MAX_VALUES:,} values"),
        ("[" + "a," * MAX_VALUES + "a]", f"more than {MAX_VALUES:,} values"),
        ("x" * (MAX_CHARACTERS + 1), f"at most {MAX_CHARACTERS:,} are allowed"),
        ("{a: 1, b: 2, a: 3}", "line 1, column 14: the key 'a' appears twice"),
        ('{"a": 1, "a": 2}', "appears twice"),
        ("9" * 5000, "more than 400 digits"),
        ("0x" + "f" * 5000, "more than 400 digits"),
        ("0b_", "invalid literal"),
        ("!!set {a}", "the tag !!set"),
        ("!!int ''", "the tag !!int"),
        ("!!bool maybe", "the tag !!bool"),
        ("!!binary aGk=", "the tag !!binary"),
        ("!!python/object:os.system x", "the tag !!python/object:os.system"),
        ("? [1]\n: 2", "unhashable key"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: [1", "line 1, column 6"),
        ('"x\\ud83d"', "'\\ud83d'"),
        ('{a: "\\0"}', "'\\x00'"),
        ('"\\u0007"', "'\\x07'"),
        ("\x07", "'\\x07'"),
    ],
)
def test_invalid_text_is_refused_with_one_line(text: str, reason: str) -> None:
    with pytest.raises(yaml.YAMLError) as refused:
        read_yaml(text)
    message = str(refused.value)
    assert reason in message and len(message) < 200 and "\n" not in message


def test_ten_thousand_seeds_and_the_deepest_experiment_are_within_limits() -> None:
    assert read_yaml(f"seeds: [{', '.join(map(str, range(10_000)))}]")["seeds"][-1] == 9999
    assert read_yaml("[" * MAX_LEVELS + "]" * MAX_LEVELS)


def test_shared_values_count_each_time() -> None:
    value: list[Any] = [1] * 10
    for _ in range(5):
        value = [value] * 10
    assert "values" in str(problem_in(value))
    itself: list[Any] = []
    itself.append(itself)
    assert "levels" in str(problem_in(itself))
    assert "digits" in str(problem_in({"lr": 10**5000}))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.yaml").write_bytes("name: λ".encode(encoding))
    assert read_text(tmp_path / "a.yaml") == "name: λ"


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(ValueError, match="byte 6 is not valid UTF-8"):
        read_text(tmp_path / "a.yaml")


def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "endless.yaml"):
        with pytest.raises(ValueError, match="must be a regular file"):
            read_text(tmp_path / name)
    with pytest.raises(ValueError, match="null"):
        read_text(Path("a\0b"))


def test_a_file_of_many_megabytes_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "a.yaml", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="bytes"):
        read_text(tmp_path / "a.yaml")
