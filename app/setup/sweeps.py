"""Sweeps in a configuration: each method has its own; one of a training option that all methods have is shared."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.forms import name_in_words, parameters_of
from engine.config.schema import Training
from engine.core.registry import Options

OF_TRAINING = "training."  # begins the name of a swept training option
SCHEDULED = ("lr_decay", "lr_decay_rounds")  # used by one schedule only
UNITS = {"local_steps": "steps", "local_epochs": "epochs"}  # of local training


def shared(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The training options that all methods sweep over the same values; methods with their own value do not count."""
    found = {}
    for name in (f"{OF_TRAINING}{field}" for field in Training.model_fields if field not in SCHEDULED):
        lists = [(entry.get("sweep") or {}).get(name) for entry in entries if not has_own(entry, name)]
        if lists and lists[0] is not None and all(values == lists[0] for values in lists):
            found[name] = lists[0]
    units = {f"{OF_TRAINING}{unit}" for unit in UNITS}
    return {name: values for name, values in found.items() if not units <= set(found) or name not in units}


def has_own(entry: Mapping[str, Any], name: str) -> bool:
    """Whether a method has its own value for the training option ``name``."""
    return name.removeprefix(OF_TRAINING) in (entry.get("training") or {})


def of_training(given: Mapping[str, Any]) -> list[str]:
    """The training options among sweeps."""
    swept = [name.removeprefix(OF_TRAINING) for name in given if name.startswith(OF_TRAINING)]
    return [field for field in swept if field in Training.model_fields]


def together(entry: Mapping[str, Any], of_all: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """A method with its own sweeps and the shared ones, in their ``order``; new ones last."""
    own = entry.get("sweep", {}) | {name: values for name, values in of_all.items() if not has_own(entry, name)}
    swept = {name: own[name] for name in [*(name for name in order if name in own), *own]}
    rest = {key: value for key, value in entry.items() if key != "sweep"}
    return {**rest, "sweep": swept} if swept else rest


def in_words(name: str, options: type[Options] = Training) -> str:
    """``learning rate swept``: an option of the training, or of these ``options``."""
    kind = Training if name.startswith(OF_TRAINING) else options
    known = {p.name: p for p in parameters_of(kind)}.get(name.removeprefix(OF_TRAINING))
    return f"{name_in_words(known) if known else name} swept"
