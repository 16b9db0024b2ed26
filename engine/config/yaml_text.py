"""Parses untrusted YAML and JSON, with limits: a short text can expand to billions of values.

Values are null, booleans, numbers, strings, lists and mappings. Anchors, aliases and ``<<`` work; what they repeat is
counted each time. ``1e-3`` is a number, as in JSON and Python. Dates and times are strings, ``12:30`` too, and so are
``on``, ``off``, ``yes`` and ``no``, as in YAML 1.2: ``evaluation: {on: val}``.
"""

import codecs
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

MAX_CHARACTERS = 1 << 18  # a typical experiment has a few thousand
MAX_VALUES = 30_000  # enough for 10,000 seeds
MAX_LEVELS = 32  # an experiment needs five
MAX_DIGITS = 400  # of an integer; the largest float has 309
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # control characters and surrogates
_TWO_HALVES = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")  # JSON's escape of a character beyond 16 bits
_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str) -> Any:
    """Parses a YAML or JSON text. Raises yaml.YAMLError with a one-line message."""
    if len(text) > MAX_CHARACTERS:
        raise yaml.YAMLError(f"it has {len(text):,} characters; at most {MAX_CHARACTERS:,} are allowed")
    try:
        value = _read_json(text)
    except (ValueError, RecursionError):  # not JSON, or an error that the YAML loader locates
        value = _read_yaml(text)
    if problem := problem_in(value):
        raise yaml.YAMLError(problem)
    return value


def read_text(path: Path) -> str:
    """Reads a regular file in UTF-8 or, with a byte order mark, UTF-16. Raises OSError or ValueError."""
    # A pipe without a writer would block even open(); a device may never end.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it must be a regular file, not a pipe or device")
        data = file.read(4 * MAX_CHARACTERS + 1)
    if len(data) > 4 * MAX_CHARACTERS:
        raise ValueError(f"it must have at most {4 * MAX_CHARACTERS:,} bytes; exported runs are imported, not run")
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not valid {encoding.removesuffix('-sig').upper()}") from None


def as_plain(value: Any) -> Any:
    """A deep copy of a configuration made in Python, with the values that a file would give.

    Tuples, ranges and arrays become lists, NumPy's numbers become Python's, and paths strings.
    """
    if isinstance(value, Mapping):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.size <= MAX_VALUES else value
    if isinstance(value, range) and len(value) > MAX_VALUES:
        return value
    if isinstance(value, list | tuple | range):
        return [as_plain(inner) for inner in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def problem_in(value: Any) -> str | None:
    """Why a configuration cannot contain this value; None if it can. Shared parts count each time."""
    pending, seen = [(value, 1)], 0
    while pending:
        item, level = pending.pop()
        seen += 1
        if isinstance(item, str):
            if found := _NOT_TEXT.search(item):
                return f"a string contains the character {found[0]!r}, which cannot be stored or shown"
        elif isinstance(item, int):
            if item.bit_length() > 4 * MAX_DIGITS:
                return f"an integer has more than {MAX_DIGITS} digits"
        elif isinstance(item, Mapping | list | tuple):
            if level > MAX_LEVELS:
                return f"it is nested more than {MAX_LEVELS} levels deep"
            if seen + len(pending) + len(item) > MAX_VALUES:
                return f"it has more than {MAX_VALUES:,} values"
            pending += [(inner, level + 1) for inner in item]
            if isinstance(item, Mapping):
                pending += [(inner, level + 1) for inner in item.values()]
    return None


def _read_json(text: str) -> Any:
    """Parses JSON, much faster than as YAML. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_mapping, parse_int=_whole_number, parse_constant=_reject_constant)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key appears twice")
    return mapping


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer has more than {MAX_DIGITS} digits")
    return int(digits)


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON; in YAML it is a string")


def _read_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = ", ".join(filter(None, [error.context, error.problem]))
    except yaml.reader.ReaderError as error:
        position, reason = "", f"the character {chr(error.character)!r} at position {error.position} is not allowed"
    except ValueError as error:
        position, reason = "", str(error)
    raise yaml.YAMLError(position + " ".join(reason.split())[:160])


def _error(reason: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=reason, problem_mark=mark)


class _Loader(yaml.SafeLoader):
    """A safe YAML loader without tags, with unique keys and with limits."""

    yaml_implicit_resolvers = {  # booleans and numbers are added below; dates remain strings
        first: [(tag, pattern) for tag, pattern in found if tag in (f"{_TAG}null", f"{_TAG}merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._level = 0
        self._values_behind: dict[str, int] = {}  # number of values per anchor

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        before = self._values
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._values_behind:
                raise _error(f"*{event.anchor} contains itself", event.start_mark)
            self._values += self._values_behind.get(str(event.anchor), 0)
        elif event.tag not in (None, "!", f"{_TAG}str"):
            raise _error(f"the tag {event.tag.replace(_TAG, '!!')[:40]} is not supported", event.start_mark)
        else:
            self._values += 1
        self._level += 1
        if self._values > MAX_VALUES:
            raise _error(f"it has more than {MAX_VALUES:,} values, counting each use of an alias", event.start_mark)
        if self._level > MAX_LEVELS:
            raise _error(f"it is nested more than {MAX_LEVELS} levels deep", event.start_mark)
        node = super().compose_node(parent, index)
        self._level -= 1
        if event.anchor and not isinstance(event, yaml.AliasEvent):
            self._values_behind[event.anchor] = self._values - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge"]
        seen: set[str] = set()
        for key in keys:
            if key.value in seen:
                raise _error(f"the key {key.value[:40]!r} appears twice", key.start_mark)
            seen.add(key.value)
        return node

    def text(self, node: yaml.ScalarNode) -> str:
        joined = _TWO_HALVES.sub(_character, self.construct_scalar(node))
        return str(joined)

    def whole_number(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MAX_DIGITS:
            raise _error(f"an integer has more than {MAX_DIGITS} digits", node.start_mark)
        return int(self.construct_yaml_int(node))


def _character(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")


_Loader.add_constructor(f"{_TAG}str", _Loader.text)
_Loader.add_constructor(f"{_TAG}int", _Loader.whole_number)
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(
    f"{_TAG}float",
    re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_Loader.add_implicit_resolver(
    f"{_TAG}int",
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
