"""Reads the input of commands: files, presets and ``--set`` become validated experiments."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from engine.config.presets import load_preset
from engine.config.schema import ExperimentConfig, load_config, parse_experiment, parse_value, set_value
from engine.core.errors import MAX_SHOWN, InvalidConfig, cut, shown

MAX_NAME_BYTES = 200  # file systems allow 255, and temporary names are longer


def experiments_of(arguments: argparse.Namespace) -> list[ExperimentConfig]:
    """All requested experiments. Raises InvalidConfig with all mistakes together."""
    if arguments.scale and arguments.preset is None:
        raise InvalidConfig([f"--scale {arguments.scale}: only a --preset has scales; leave it out"])
    preset = None if arguments.preset is None else load_preset(arguments.preset)
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
            example = "write a.b=VALUE, like training.rounds=5 or algorithms.0.lam=12"
            raise InvalidConfig([f"--set {cut(change, MAX_SHOWN)}: {example}"])
        try:
            config = set_value(config, path, parse_value(text))
        except yaml.YAMLError as error:
            raise InvalidConfig(
                [f"--set {cut(path, MAX_SHOWN)}: {shown(text)} is not a YAML value ({error})"]
            ) from None
        except InvalidConfig as error:
            raise InvalidConfig(f"--set {problem}" for problem in error.problems) from None
    return config


def check_writable(*, file: Path | None = None, folder: Path | None = None) -> None:
    """Checks that the results can be written, before computing them. Raises InvalidConfig."""
    if file is not None:
        if os.path.isdir(file) or file.name in ("", ".."):
            example = _shown_path(file / "runs.json")
            raise InvalidConfig([f"{_shown_path(file)}: is a folder; give the name of a file in it, like {example}"])
        if os.path.exists(file) and not os.path.isfile(file):  # replacing it would remove the device
            raise InvalidConfig([f"{_shown_path(file)}: is a pipe or a device; give the name of a regular file"])
        _check_folder(file, file.absolute().parent)
    if folder is not None:
        _check_folder(folder, folder.absolute())


def _check_folder(given: Path, folder: Path) -> None:
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in given.parts):
        reason = f"a name in it has more than {MAX_NAME_BYTES} bytes"
    elif "\0" in str(given):
        reason = "it has a null character"
    else:
        nearest = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
        reason = _write_problem(nearest)
    if reason:
        raise InvalidConfig([f"{_shown_path(given)}: cannot be written, {reason}; choose another path"])


def _write_problem(folder: Path) -> str:
    if not os.path.isdir(folder):
        return f"{_shown_path(folder)} is not a folder"
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"{_shown_path(folder)} is not writable ({error.strerror})"
    return ""


def _shown_path(path: Path) -> str:
    return cut(str(path), 2 * MAX_SHOWN)
