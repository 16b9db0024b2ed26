"""Finished runs as analyses see them."""

from typing import Any

from engine.analyses.support.loaded_run import Subject
from engine.simulation.simulate import Simulation
from tests.support.builders import trained


def subject_of(algorithm: dict[str, Any] | str, **changed: Any) -> Subject:
    """A tiny trained run with the models that it stores."""
    return as_subject(trained(algorithm, **changed))


def as_subject(run: Simulation) -> Subject:
    """A run as it stands, where what was recorded of it is looked at too."""
    return Subject(run.config, run.task, run.algorithm, run.models(), run.round)
