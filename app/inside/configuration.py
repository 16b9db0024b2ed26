"""Every option of a run with its default and its meaning, from the registries and schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from app.data.config_fields import REGISTRIES, SCHEMAS, SECTIONS
from app.forms import label_of, parameters_of
from app.handbook.options_table import default as in_words
from engine.config.options import Machine
from engine.core.registry import Options
from storage import RunRecord

COLUMNS = ["part", "option", "value", "default", "meaning", "differs"]


def options(run: RunRecord) -> pd.DataFrame:
    """[part, option, value, default, meaning, differs]; what differs from its default comes first."""
    rows: list[dict[str, Any]] = []
    for key, registry in REGISTRIES.items():
        if not run.config.get(key):
            continue
        part, given = SECTIONS[key], dict(run.config[key])
        name = given.pop("name", "")
        known = name in registry
        title = registry.get(name).title if known else name
        rows.append(_row(part, registry.kind, title, "", f"Configuration name: {name}.", True))
        rows += _rows(part, given, registry.get(name).options if known else Options, _resolved(run, key))
    for key, schema in SCHEMAS.items():
        rows += _rows(SECTIONS[key], run.config.get(key) or {}, schema, {})
    machine = {name: run.config[name] for name in Machine.model_fields if name in run.config}
    rows += _rows("Machine", machine, Machine, {})
    if "data_seed" in run.config:
        rows.append(_row("Run", "data_seed", run.split, "", "Seed of the data, the split and held-out clients.", True))
    drawn = "initial model" if "data_seed" in run.config else "split, the initial model"
    rows.append(_row("Run", "seed", run.seed, "", f"Seed of the {drawn} and the batches.", True))
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("differs", ascending=False, kind="stable", ignore_index=True)


def _rows(part: str, given: Mapping[str, Any], schema: type[Options], resolved: Mapping[str, Any]) -> Iterator[dict]:
    """``resolved`` has the numbers that words like "training" stand for."""
    parameters = {p.name: p for p in parameters_of(schema)}
    defaults = _defaults(schema)
    for name, value in given.items():
        parameter = parameters.get(name)
        usual = defaults.get(name, parameter.default if parameter else None)
        shown = value if resolved.get(name, value) == value else f"{in_words(resolved[name])} (as in {value})"
        option, meaning = (label_of(parameter), parameter.description) if parameter else (name, "")
        yield _row(part, option, shown, usual if parameter else "", meaning, parameter is None or value != usual)


def _row(part: str, option: str, value: Any, default: Any, meaning: str, differs: bool) -> dict[str, Any]:
    return {
        "part": part,
        "option": option,
        "value": in_words(value),
        "default": in_words(default),
        "meaning": meaning,
        "differs": differs,
    }


def _defaults(schema: type[Options]) -> dict[str, Any]:
    """The defaults of a schema; none if it has required fields."""
    needed = any(field.is_required() for field in schema.model_fields.values())
    return {} if needed else schema().model_dump(mode="json")


def _resolved(run: RunRecord, key: str) -> Mapping[str, Any]:
    return run.hparams if key == "algorithm" else {}
