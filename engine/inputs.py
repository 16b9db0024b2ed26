"""What the command line is asked to do: files, presets and changes become validated experiments."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.config import ExperimentConfig, load_config, parse_experiment, parse_value, set_value
from engine.errors import InvalidConfig
from engine.presets import load_preset


def experiments_of(arguments: argparse.Namespace) -> list[ExperimentConfig]:
    """Every experiment that is asked for, all their mistakes told at once."""
    if arguments.scale and not arguments.preset:
        raise InvalidConfig([f"--scale {arguments.scale}: only a --preset has scales; leave it out"])
    preset = load_preset(arguments.preset) if arguments.preset else None
    experiments, problems = [], dict[str, None]()
    for config in preset.configs(arguments.scale) if preset else [load_config(arguments.config)]:
        try:
            experiments.append(parse_experiment(_changed(config, arguments.changes)))
        except InvalidConfig as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise InvalidConfig(problems)
    return experiments


def _changed(config: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not all(path.split(".")):
            raise InvalidConfig([f"--set {change}: write a.b=VALUE, like training.rounds=5 or algorithms.0.lam=12"])
        try:
            config = set_value(config, path, parse_value(text))
        except yaml.YAMLError as error:
            raise InvalidConfig([f"--set {change}: {text!r} is no YAML value ({error})"]) from None
        except InvalidConfig as error:
            raise InvalidConfig(f"--set {problem}" for problem in error.problems) from None
    return config


def check_writable(*, file: Path | None = None, folder: Path | None = None) -> None:
    """Better now than after an hour of computing."""
    if file is not None:
        if os.path.isdir(file):
            raise InvalidConfig([f"{file}: is a folder; give the name of a file in it, like {file / 'runs.json'}"])
        _check_folder(file, file.absolute().parent)
    if folder is not None:
        _check_folder(folder, folder.absolute())


def _check_folder(wanted: Path, folder: Path) -> None:
    nearest = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
    if not os.path.isdir(nearest):
        reason = f"{nearest} is no folder"
    elif not os.access(nearest, os.W_OK):
        reason = f"{nearest} is not yours to write"
    else:
        return
    raise InvalidConfig([f"{wanted}: cannot be written, {reason}; choose another place"])
