"""Configurations as files, and values of the command line's ``--set``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.config.yaml_text import MAX_LEVELS, read_text, read_yaml
from engine.core.errors import MAX_SHOWN, InvalidConfig, cut, shown


def load_config(path: Path | str) -> dict[str, Any]:
    """Reads a YAML or JSON file. Raises InvalidConfig that names the file."""
    name = cut(str(path), 2 * MAX_SHOWN)
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidConfig([f"{name}: cannot be read ({reason}); give a YAML or JSON file"]) from None
    try:
        raw = read_yaml(text)
    except yaml.YAMLError as error:
        raise InvalidConfig([f"{name}: cannot be read as YAML or JSON: {error}"]) from None
    if not isinstance(raw, dict):
        what = "is empty" if raw is None else f"is a {type(raw).__name__}"
        raise InvalidConfig([f"{name}: {what}, must be a mapping of keys to values"])
    if {"config", "runs"} <= raw.keys():
        raise InvalidConfig([f"{name}: is an export of runs; import it with python -m engine import"])
    return raw


def parse_value(text: str) -> Any:
    """Parses a YAML value as ``--set`` does; ``1e-3`` is a number. Raises yaml.YAMLError."""
    return read_yaml(text)


def set_value(raw: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Returns a copy of ``raw`` with ``a.b`` set; list items by number: ``algorithms.0.lam``. Raises InvalidConfig."""
    keys = path.split(".")
    if not all(keys) or len(keys) > MAX_LEVELS:
        raise InvalidConfig([f"{shown(path)}: is not a path to a value; use training.rounds, algorithms.0.lam, ..."])
    return _with(raw, keys, value)


def _with(raw: Mapping[str, Any], keys: Sequence[str], value: Any) -> dict[str, Any]:
    head, *rest = keys
    copy = {**raw}
    if not rest:
        copy[head] = value
    elif isinstance(copy.get(head), list):
        items = list(copy[head])
        index, *tail = rest
        if index not in map(str, range(len(items))):
            known = f"use an item from 0 to {len(items) - 1}"
            raise InvalidConfig([f"{_path(keys)}: {shown(index)} is not an item of {cut(head, 40)}; {known}"])
        place = int(index)
        items[place] = _with(_as_mapping(items[place], keys), tail, value) if tail else value
        copy[head] = items
    else:
        copy[head] = _with(_as_mapping(copy.get(head), keys), rest, value)
    return copy


def _as_mapping(value: Any, keys: Sequence[str]) -> Mapping[str, Any]:
    """The mapping to set a key in; a bare name becomes ``{name: ...}``."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    if isinstance(value, str):
        return {"name": value}
    raise InvalidConfig([f"{_path(keys)}: {shown(value)} is not a mapping, so no key can be set in it"])


def _path(keys: Sequence[str]) -> str:
    return cut(".".join(keys), MAX_SHOWN)
