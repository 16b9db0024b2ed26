"""Sweeps in a configuration: each method has its own; one of a training option or a dial that all have is shared."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.forms import name_in_words, parameters_of
from app.setup.dial_options import options_of
from engine.config.options import Training
from engine.config.schema import DIAL_KEYS
from engine.core.registry import Options

OF_TRAINING = "training."  # begins the name of a swept training option
PARAMETERS = {f"{OF_TRAINING}{p.name}": p for p in parameters_of(Training)}
SCHEDULED = ("lr_decay", "lr_decay_rounds")  # used by one schedule only
UNITS = {"local_steps": "steps", "local_epochs": "epochs"}  # of local training


def shared(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of training and dials that all methods sweep over the same values.

    Methods with their own value do not count, nor do dials that are off.
    """
    entries: Sequence[Mapping[str, Any]] = config["algorithms"]
    names = [f"{OF_TRAINING}{field}" for field in Training.model_fields if field not in SCHEDULED]
    dials = {dial: options_of(dial, config[dial]).model_fields for dial in DIAL_KEYS if dial in config}
    names += [f"{dial}.{field}" for dial, fields in dials.items() for field in fields]
    found = {}
    for name in names:
        lists = [(entry.get("sweep") or {}).get(name) for entry in entries if not has_own(entry, name)]
        if lists and lists[0] is not None and all(values == lists[0] for values in lists):
            found[name] = lists[0]
    units = {f"{OF_TRAINING}{unit}" for unit in UNITS}
    return {name: values for name, values in found.items() if not units <= set(found) or name not in units}


def has_own(entry: Mapping[str, Any], name: str) -> bool:
    """Whether a method has its own value for the option ``name`` of the training, or its own dial."""
    section, _, field = name.partition(".")
    return field in (entry.get(section) or {}) if section == "training" else has_own_dial(entry, section)


def has_own_dial(entry: Mapping[str, Any], dial: str) -> bool:
    """Whether a method sets a dial, or sweeps over kinds of it."""
    return dial in entry or dial in (entry.get("sweep") or {})


def num_points(entry: Mapping[str, Any]) -> int:
    """The combinations of the values that a method of a valid configuration sweeps."""
    return math.prod(map(len, (entry.get("sweep") or {}).values()))


def of_training(given: Mapping[str, Any]) -> list[str]:
    """The training options among sweeps."""
    swept = [name.removeprefix(OF_TRAINING) for name in given if name.startswith(OF_TRAINING)]
    return [field for field in swept if field in Training.model_fields]


def merge_sweeps(entry: Mapping[str, Any], of_all: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """A method with its own sweeps and the shared ones, in their ``order``; new ones last."""
    own = entry.get("sweep", {}) | {name: values for name, values in of_all.items() if not has_own(entry, name)}
    swept = {name: own[name] for name in [*(name for name in order if name in own), *own]}
    rest = {key: value for key, value in entry.items() if key != "sweep"}
    return {**rest, "sweep": swept} if swept else rest


def in_words(name: str, options: type[Options] = Training) -> str:
    """``learning rate swept``: an option of the training, or of these ``options``."""
    known = PARAMETERS.get(name) or {p.name: p for p in parameters_of(options)}.get(name)
    return f"{name_in_words(known) if known else name} swept"
