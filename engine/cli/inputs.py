"""Reads the input of commands: files, presets and ``--set`` become validated experiments."""

import argparse
from collections.abc import Sequence
from typing import Any

import yaml

from engine.config.files import load_config, parse_value, set_value
from engine.config.presets import load_preset
from engine.config.schema import ExperimentConfig, parse_experiment
from engine.core.errors import MAX_SHOWN, InvalidConfig, cut, shown


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
