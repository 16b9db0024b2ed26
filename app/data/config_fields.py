"""The configuration fields in which the compared runs differ, and their titles."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from app.data.comparison import NOT_THE_METHOD, Method, method_name
from app.forms import name_in_words, parameters_of
from app.wording import MISSING, capital, plural
from engine.config.options import Evaluation, Training
from engine.config.schema import DIAL_KEYS, DIALS, OPTION_DIALS
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Options, Parameter, Registry
from storage import RunRecord

REGISTRIES = {"algorithm": ALGORITHMS, "dataset": DATASETS, "partition": PARTITIONERS, "model": MODELS} | DIALS
SCHEMAS: dict[str, type[Options]] = {"training": Training, "evaluation": Evaluation, **OPTION_DIALS}
SECTIONS = {
    "algorithm": "Method",
    "dataset": "Data set",
    "partition": "Partition",
    "model": "Model",
    "training": "Training",
    "evaluation": "Evaluation",
} | {name: capital(name) for name in DIAL_KEYS}
MAX_COLUMNS = 12  # that a reader can compare


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's configuration as ``dataset.R`` -> value, without fields that do not affect its numbers."""
    found: dict[str, Any] = {}
    for section, own in config.items():
        if section in NOT_THE_METHOD:
            continue
        if isinstance(own, Mapping):
            found.update({f"{section}.{name}": value for name, value in own.items()})
        else:
            found[section] = own
    return found


def varied(methods: Sequence[Method]) -> tuple[list[str], int]:
    """The fields in which the methods differ, and the number of fields in which they are equal.

    A field that only some of the methods have, like another method's λ, counts as different.
    """
    configs = [flat(method.runs[0].config) for method in methods]
    names = list(dict.fromkeys(name for own in configs for name in own))
    apart = [name for name in names if len({_key(own.get(name, ...)) for own in configs}) > 1]
    return apart, len(names) - len(apart)


def groupings(methods: Sequence[Method]) -> list[str]:
    """The varied fields by which runs can be pooled: all runs have them, and some methods share a value."""
    configs = [flat(method.runs[0].config) for method in methods]
    return [
        name
        for name in varied(methods)[0]
        if all(name in own for own in configs) and len({_key(own[name]) for own in configs}) < len(methods)
    ]


def table(methods: Sequence[Method]) -> pd.DataFrame:
    """[field, <a column per method>]: a row per field that differs."""
    shown = methods[:MAX_COLUMNS]
    configs = {method.name: flat(method.runs[0].config) for method in shown}
    rows = [
        {"field": title(name, shown)}
        | {method: text(name, own[name]) if name in own else MISSING for method, own in configs.items()}
        for name in varied(shown)[0]
    ]
    return pd.DataFrame(rows, columns=["field", *configs])


def about(methods: Sequence[Method]) -> str:
    """A note on what the table does not show."""
    alike, left_out = varied(methods)[1], len(methods) - MAX_COLUMNS
    rest = f" {plural(left_out, 'more method has', 'more methods have')} no column here." if left_out > 0 else ""
    return (
        f"{plural(alike, 'setting is', 'settings are')} equal and not shown; {MISSING} : the method has no such "
        f"setting. Seeds are not settings.{rest}"
    )


def title(name: str, methods: Sequence[Method]) -> str:
    """``Partition: α``, ``Method: λ``, from the registries."""
    section, _, option = name.partition(".")
    if option == "name" or not option:
        return SECTIONS.get(section, section)
    parameter = parameter_of(name, [run.config for method in methods for run in method.runs])
    return f"{SECTIONS.get(section, section)}: {name_in_words(parameter) if parameter else option}"


def parameter_of(name: str, configs: Sequence[Mapping[str, Any]]) -> Parameter | None:
    """The registered parameter of a field such as ``training.lr`` or ``algorithm.lam``, if the runs use it."""
    section, _, option = name.partition(".")
    if section in SCHEMAS:
        known = parameters_of(SCHEMAS[section])
    else:
        registry = REGISTRIES.get(section)
        things = dict.fromkeys(str(c[section]["name"]) for c in configs if c.get(section)) if registry else {}
        known = tuple(p for thing in things if registry and thing in registry for p in registry.get(thing).parameters)
    return next((p for p in known if p.name == option), None)


def text(name: str, value: Any) -> str:
    """A value as text; registered names by their short titles."""
    section, _, option = name.partition(".")
    registry: Registry | None = REGISTRIES.get(section)
    if option == "name" and isinstance(value, str):
        return registry.short_title(value) if registry is not None else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def value_of(name: str, run: RunRecord) -> str:
    """The name of a run's group: ``α = 0.1``, ``MNIST``."""
    value = text(name, flat(run.config).get(name))
    if name.endswith(".name"):
        return value
    parameter = parameter_of(name, [run.config])
    return f"{parameter.symbol if parameter else name.rpartition('.')[2]} = {value}"


def setting_in_words(section: str, option: str, own: Mapping[str, Any]) -> str:
    """``clients = 40``: an option of the part ``own`` of a configuration."""
    name = f"{section}.{option}"
    parameter = parameter_of(name, [{section: own}])
    return f"{name_in_words(parameter) if parameter else option} = {text(name, own[option])}"


def names_along(runs: Sequence[RunRecord], axis: str) -> dict[int, str]:
    """run -> its method's name on a chart over the field ``axis``: runs of one name are averaged over seeds.

    If runs differ in more than the axis, the name includes the difference: ``FedAvg, rounds = 50``.
    """
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(method_name(run.label, run.algorithm), []).append(run)
    found: dict[int, str] = {}
    for name, own in groups.items():
        configs = [flat(run.config) for run in own]
        fields = dict.fromkeys(field for config in configs for field in config if field != axis)
        apart = [f for f in fields if len({_key(config.get(f, ...)) for config in configs}) > 1]
        found |= {run.id: ", ".join([name, *(value_of(field, run) for field in apart)]) for run in own}
    return found


def _key(value: Any) -> str:
    return "absent" if value is ... else json.dumps(value, sort_keys=True)
