"""YAML and JSON from outside as plain values, within limits: a short text can stand for billions of values.

Values are null, true and false, numbers, texts, lists and mappings. Anchors, aliases and ``<<`` work; what they repeat
counts every time. ``1e-3`` is a number, as in JSON and Python. Dates and times are texts, also ``12:30``.
"""

import codecs
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

MAX_CHARACTERS = 1 << 18  # an experiment has a few thousand
MAX_VALUES = 30_000  # 10,000 seeds, and room to spare
MAX_LEVELS = 32  # an experiment has five
MAX_DIGITS = 400  # of a whole number; the largest float has 309
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # control characters and halves of characters
_TWO_HALVES = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")  # how JSON escapes a character beyond 16 bits
_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str) -> Any:
    """The value of a YAML or JSON text. Raises yaml.YAMLError, whose message fits in a line."""
    if len(text) > MAX_CHARACTERS:
        raise yaml.YAMLError(f"it has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read")
    try:
        value = _read_json(text)
    except (ValueError, RecursionError):  # not JSON, or a mistake that the YAML loader can locate
        value = _read_yaml(text)
    if problem := problem_in(value):
        raise yaml.YAMLError(problem)
    return value


def read_text(path: Path) -> str:
    """A regular file in UTF-8 or, with a byte order mark, in UTF-16. Raises OSError or ValueError."""
    # A pipe without a writer would block even open(); a device may never end.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is a pipe or a device, not a regular file")
        data = file.read(4 * MAX_CHARACTERS + 1)
    if len(data) > 4 * MAX_CHARACTERS:
        raise ValueError(f"it has more than {4 * MAX_CHARACTERS:,} bytes")
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}") from None


def problem_in(value: Any) -> str | None:
    """Why a configuration cannot hold this value, or nothing. Parts that are shared count every time."""
    waiting, seen = [(value, 1)], 0
    while waiting:
        item, level = waiting.pop()
        seen += 1
        if isinstance(item, str):
            if found := _NOT_TEXT.search(item):
                return f"a text has the character {found[0]!r}, which cannot be stored or shown"
        elif isinstance(item, int):
            if item.bit_length() > 4 * MAX_DIGITS:
                return f"a whole number has more than {MAX_DIGITS} digits"
        elif isinstance(item, Mapping | list | tuple):
            if level > MAX_LEVELS:
                return f"it is nested more than {MAX_LEVELS} levels deep"
            if seen + len(waiting) + len(item) > MAX_VALUES:
                return f"it has more than {MAX_VALUES:,} values"
            waiting += [(inner, level + 1) for inner in item]
            if isinstance(item, Mapping):
                waiting += [(inner, level + 1) for inner in item.values()]
    return None


def _read_json(text: str) -> Any:
    """Much faster than as YAML. Raises ValueError."""
    return json.loads(text, object_pairs_hook=_mapping, parse_int=_whole_number, parse_constant=_not_json)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key appears twice")
    return mapping


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a whole number has more than {MAX_DIGITS} digits")
    return int(digits)


def _not_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON; in YAML it is a text")


def _read_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        reason = ", ".join(filter(None, [error.context, error.problem]))
    except yaml.reader.ReaderError as error:
        place, reason = "", f"the character {chr(error.character)!r} at position {error.position} is not allowed"
    except ValueError as error:
        place, reason = "", str(error)
    raise yaml.YAMLError(place + " ".join(reason.split())[:160])


def _refused(reason: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=reason, problem_mark=mark)


class _Loader(yaml.SafeLoader):
    """Safe YAML without tags, whose mappings have different keys, and which stops at the limits."""

    yaml_implicit_resolvers = {  # numbers follow below; dates stay texts
        first: [(tag, pattern) for tag, pattern in found if tag in (f"{_TAG}null", f"{_TAG}bool", f"{_TAG}merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._values = self._level = 0
        self._values_behind: dict[str, int] = {}  # each anchor

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        before = self._values
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self.anchors and event.anchor not in self._values_behind:
                raise _refused(f"*{event.anchor} contains itself", event.start_mark)
            self._values += self._values_behind.get(str(event.anchor), 0)
        elif event.tag not in (None, "!", f"{_TAG}str"):
            raise _refused(f"the tag {event.tag.replace(_TAG, '!!')[:40]} is not known here", event.start_mark)
        else:
            self._values += 1
        self._level += 1
        if self._values > MAX_VALUES:
            raise _refused(f"it has more than {MAX_VALUES:,} values, counting each use of an alias", event.start_mark)
        if self._level > MAX_LEVELS:
            raise _refused(f"it is nested more than {MAX_LEVELS} levels deep", event.start_mark)
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
                raise _refused(f"the key {key.value[:40]!r} appears twice", key.start_mark)
            seen.add(key.value)
        return node

    def text(self, node: yaml.ScalarNode) -> str:
        joined = _TWO_HALVES.sub(_character, self.construct_scalar(node))
        return str(joined)

    def whole_number(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MAX_DIGITS:
            raise _refused(f"a whole number has more than {MAX_DIGITS} digits", node.start_mark)
        return int(self.construct_yaml_int(node))


def _character(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")


_Loader.add_constructor(f"{_TAG}str", _Loader.text)
_Loader.add_constructor(f"{_TAG}int", _Loader.whole_number)
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
