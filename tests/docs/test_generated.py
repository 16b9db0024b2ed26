"""Generated pages match the code."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import catalogue, command_line, configuration
from docs.generate import PAGES
from docs.markdown import allowed, default_of, parameters_of
from engine.config.options import Machine
from engine.config.schema import parse_experiment
from engine.core.errors import InvalidConfig
from engine.core.registry import ALGORITHMS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), f"run `make docs` and commit {path.name}"


def test_the_command_line_reference_has_every_command_and_option() -> None:
    text = command_line.reference()
    assert all(f"## {name}\n" in text for name in ("run", "list", "worker", "export", "import"))
    assert "`--set a.b=VALUE`" in text and "`RUN_ID...`" in text


def test_the_configuration_page_has_the_keys_of_the_schema() -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_experiment({"colour": 1})
    (known,) = re.findall(r"colour: 1, unknown key; known: (.*)", str(refused.value))
    assert known.split(", ") == [*configuration.SECTIONS, *Machine.model_fields]


def test_the_keys_of_an_algorithm_on_the_configuration_page_are_accepted() -> None:
    entry = {"name": "ditto", "label": "D", "sweep": {"lam": [1, 2]}, "tune": {"lam": [0.1, 1, "log"]}}
    entry |= {"training": {"lr": 0.1}, "attack": "sign_flip", "aggregator": "median", "compression": "top_k"}
    entry |= {"privacy": {"noise": 2}, "system": {"compute_s": 0.01}}
    assert list(entry) == list(configuration.ENTRY)
    base = {"dataset": "digits", "partition": "iid", "model": "mlr"}
    assert len(parse_experiment({**base, "algorithms": [_without(entry, "tune")]}).runs()) == 2
    study = {**base, "partition": {"name": "iid", "val_fraction": 0.2}, "splits": [0], "tune": {"trials": 3}}
    assert len(parse_experiment({**study, "algorithms": [_without(entry, "sweep")]}).runs()) == 3


def _without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


def test_the_example_of_the_configuration_page_is_valid() -> None:
    assert len(parse_experiment(yaml.safe_load(configuration.EXAMPLE)).runs()) == 3 * (1 + 3 + 1 + 1)


def test_the_study_of_the_configuration_page_is_valid() -> None:
    assert len(parse_experiment(yaml.safe_load(configuration.STUDY)).runs()) == 4 * 3 * 8


def test_a_default_from_the_training_settings_names_the_setting() -> None:
    ditto = ALGORITHMS.get("ditto").options
    defaults = {p.name: default_of(ditto, p) for p in parameters_of(ditto)}
    assert defaults == {"lam": "`1.0`", "personal_steps": "`training.local_steps`", "personal_lr": "`training.lr`"}


def test_bounds_say_whether_they_are_inclusive() -> None:
    found = {p.name: allowed(p) for p in parameters_of(configuration.Training)}
    assert found["rounds"] == "1 to 1,000,000"
    assert found["participation"] == "above 0, up to 1"
    assert found["momentum"] == "at least 0, below 1"
    assert found["batch_size"] == "1 to 1,000,000 or `full`"


def test_the_catalogue_lists_what_ships() -> None:
    text = catalogue.PAGE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in text for name in ("ditto", "digits", "dirichlet", "mlr", "lowest5", "landscape"))
    assert "| `digits-first` |" in text and "`lam=1.0`" in text
