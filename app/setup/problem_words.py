"""The engine's messages in the words of the page: labels of fields, and no notation of configuration files."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.forms import label_of, name_in_words, parameters_of
from app.setup import draft as drafts
from app.setup.dial_options import options_of
from app.wording import capital, count
from engine.config.options import Evaluation, Machine, Training
from engine.config.schema import DIAL_KEYS, NUM_SEEDS
from engine.config.tune import Tune
from engine.core.registry import ALGORITHMS, Options, Parameter

LABELS = {
    "name": "Name",
    "dataset": "Data set",
    "partition": "Data split",
    "model": "Model",
    "training": "Training",
    "algorithms": "Methods",
    "seeds": "Seeds",
    "splits": "Splits",
    "evaluation": "Evaluation",
    "tune": "Tuning",
}
SEEDS = "Whole numbers{} separated by commas, each only once, such as 0, 1, 2"
KNOWN = {
    "at least one entry like {name": "Add at least one method",
    "is used twice; give each entry its own": "Two methods have the same name; give one of them another label",
    "sweep and tune are mutually exclusive": "Sweep or tune the options of a method, not both",
    "but tune needs fixed splits": "A study needs fixed splits, such as 0, 1, 2",
}
BOUNDS = {
    "greater than or equal to": "at least",
    "greater than": "above",
    "less than or equal to": "at most",
    "less than": "below",
}
_BOUND = re.compile(rf"should be ({'|'.join(BOUNDS)}) (\S+?)(?=;|$)")
_KINDS = (
    (re.compile(r"should be a valid integer(, [^;]*)?"), "must be a whole number"),
    (re.compile(r"should be a valid number(, [^;]*)?"), "must be a number"),
    (re.compile(r"should be a finite number"), "must be a finite number"),
)
_ONE_LINE = re.compile(r"must be one line of at most \d+ characters$")
_OR = re.compile(r"; or should be '([^']+)'")
_BEGINNING = re.compile(r"(Must|At most|Whole|Add|A study) ")  # of sentences in this file, not of names
_TOO_MANY = re.compile(
    r"num_clients=\d+ with min_samples=(\d+) each exceeds the (\d+) available ([a-z ]+); lower num_clients to (\d+)"
)
_TOO_FEW = re.compile(r"client (\d+) keeps (\d+) of (\d+) samples for training, fewer than min_samples=(\d+);")


def in_words(problems: Iterable[str], raw: Mapping[str, Any]) -> list[str]:
    """Each ``path: message`` with the same path, and the message in the words of the page."""
    found = []
    for problem in problems:
        path, colon, message = problem.partition(": ")
        found.append(f"{path}{colon}{_message(path, message, raw)}")
    return found


def labeled(problem: str, raw: Mapping[str, Any]) -> str:
    """``Learning rate: must be above 0``: a problem whose field is not on the page."""
    path, _, message = problem.partition(": ")
    label = label_at(path, raw)
    if _BEGINNING.match(message):
        message = f"{message[:1].lower()}{message[1:]}"
    return f"{label}: {message}" if label and message else problem


def label_at(path: str, raw: Mapping[str, Any]) -> str:
    """``Clients``, ``Ditto λ``, ``Malicious share``: the label of the field at a path; empty if it is unknown."""
    section, *rest = path.split(".")
    if section == "algorithms" and rest:
        return _of_method(raw["algorithms"][int(rest[0])], rest[1:])
    parameter = _parameter(section, rest, raw)
    if parameter is None:
        return LABELS.get(section) or (capital(section) if section in DIAL_KEYS else "")
    return label_of(parameter).partition(" (")[0]


def _of_method(entry: Mapping[str, Any], rest: list[str]) -> str:
    known = ALGORITHMS.get(entry["name"])
    method = str(entry.get("label") or known.title)
    if not rest:
        return method
    parameters = {p.name: p for p in (*parameters_of(Training), *known.parameters)}
    option = next((name for name in reversed(rest) if name in parameters), None)
    return f"{method} {name_in_words(parameters[option]) if option else rest[0].replace('_', ' ')}"


def _parameter(section: str, rest: list[str], raw: Mapping[str, Any]) -> Parameter | None:
    """The option at a path; machine options are at the top level."""
    name = rest[0] if rest else section
    return next((p for p in _parameters(section, raw) if p.name == name), None)


def _parameters(section: str, raw: Mapping[str, Any]) -> tuple[Parameter, ...]:
    if section in drafts.SECTIONS:
        registry, _ = drafts.SECTIONS[section]
        return registry.get(raw[section]["name"]).parameters
    if section in DIAL_KEYS:
        return parameters_of(options_of(section, raw[section])) if section in raw else ()
    kinds: dict[str, type[Options]] = {"training": Training, "evaluation": Evaluation, "tune": Tune}
    return parameters_of(kinds.get(section, Machine))


def _message(path: str, message: str, raw: Mapping[str, Any]) -> str:
    section = path.partition(".")[0]
    if "must be a list of distinct whole numbers" in message and section in ("seeds", "splits"):
        given = raw.get(section)
        each = given if isinstance(given, list) else [given]
        is_outside = any(type(one) is int and not 0 <= one < NUM_SEEDS for one in each)
        return SEEDS.format(f" from 0 to {count(NUM_SEEDS - 1)}" if is_outside else "")
    if known := next((words for part, words in KNOWN.items() if part in message), ""):
        return known
    if found := _TOO_MANY.search(message):
        return _too_many(raw, *found.groups())
    if found := _TOO_FEW.search(message):
        client, own, of, needed = found.groups()
        return (
            f"Client {client} has {own} of its {of} samples for training, but needs at least {needed}: use fewer "
            "clients, or let them differ less"
        )
    if found := _ONE_LINE.search(message):
        return capital(found[0])
    if found := _BOUND.search(message):
        words = f"Must be {BOUNDS[found[1]]} {count(int(found[2])) if found[2].isdigit() else found[2]}"
        return words + "".join(f", or “{word}”" for word in _OR.findall(message))
    for kind, words in _KINDS:
        if kind.search(message):
            return capital(words) + "".join(f", or “{word}”" for word in _OR.findall(message))
    if section == "algorithms":
        return message
    words = _without_names(message, _parameters(section, raw))
    return capital(words) if section == "partition" else words


def _too_many(raw: Mapping[str, Any], needed: str, available: str, samples: str, most: str) -> str:
    dataset = drafts.SECTIONS["dataset"][0].short_title(raw["dataset"]["name"])
    return (
        f"At most {count(int(most))} clients: {dataset} has {count(int(available))} {samples} and each client needs at "
        f"least {needed}"
    )


def _without_names(message: str, parameters: Iterable[Parameter]) -> str:
    """``classes_per_client=11 exceeds ...`` as ``classes per client 11 exceeds ...``."""
    for parameter in parameters:
        name, words = rf"\b(?:\w+\.)?{parameter.name}", name_in_words(parameter)
        message = re.sub(rf"{name}=(?=\S)", f"{words} ", message)
        if "_" in parameter.name:
            message = re.sub(rf"{name}\b", words, message)
    return message
