"""One run as an experiment: to export, to run on the command line, to open in Set up."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from engine.config.options import Machine
from engine.config.schema import DIAL_KEYS, file_label
from storage import RunRecord

PARTS = ("dataset", "partition", "model", "training", "evaluation", *DIAL_KEYS)


def experiment_of(run: RunRecord) -> dict[str, Any]:
    """A configuration for this run only, with every option.

    Unlike ``RunConfig.as_experiment`` it has the run's current name and also works for methods that are not installed.
    """
    parts = {part: run.config[part] for part in PARTS if part in run.config}
    if "training" in parts:  # local_steps and local_epochs are mutually exclusive
        parts["training"] = {name: value for name, value in parts["training"].items() if value is not None}
    machine = {name: run.config[name] for name in Machine.model_fields if run.config.get(name) is not None}
    method = run.config["algorithm"] | {"label": run.label}
    return {"name": run.experiment_name, **parts, "algorithms": [method], **seeds_of([run]), **machine}


def experiment_of_all(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """One experiment with the methods of several runs on the same data, each with its own training and dials."""
    first, *_ = every = [experiment_of(run) for run in runs]
    methods = [
        own["algorithms"][0]
        | ({"training": training} if (training := _apart(own["training"], first["training"])) else {})
        | _apart(_dials(own), _dials(first))
        for own in every
    ]
    return first | {"algorithms": methods, **seeds_of(runs)}


def seeds_of(runs: Sequence[RunRecord]) -> dict[str, list[int]]:
    """The seeds of runs of one experiment, and their splits if these have seeds of their own."""
    splits = {"splits": sorted({run.split for run in runs})} if "data_seed" in runs[0].config else {}
    return {**splits, "seeds": sorted({run.seed for run in runs})}


def _dials(experiment: Mapping[str, Any]) -> dict[str, Any]:
    return {dial: experiment[dial] for dial in DIAL_KEYS if dial in experiment}


def _apart(own: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ from the first ones; None for those that are only in the first."""
    return {name: own.get(name) for name in {**first, **own} if own.get(name) != first.get(name)}


def as_yaml(run: RunRecord) -> str:
    return yaml.safe_dump(experiment_of(run), sort_keys=False, allow_unicode=True)


def file_name(run: RunRecord) -> str:
    """``Ditto lam=1-seed0``, without an extension; ``Ditto lam=1-split3-seed0`` with a seed of its own for the data."""
    split = f"-split{run.split}" if "data_seed" in run.config else ""
    return f"{file_label(run.label)}{split}-seed{run.seed}"


def command(run: RunRecord) -> str:
    """The command that computes the run from its file, without the app."""
    return (
        f"python -m engine run {shlex.quote(file_name(run) + '.yaml')} --export {shlex.quote(file_name(run) + '.json')}"
    )
