"""Finished runs in the form that analyses get."""

from typing import Any

from engine.analyses.support.loaded_run import Subject
from engine.simulation.simulate import Simulation
from tests.support.builders import trained


def subject_of(algorithm: dict[str, Any] | str, **changed: Any) -> Subject:
    """A tiny trained run with its stored models."""
    return as_subject(trained(algorithm, **changed))


def as_subject(run: Simulation) -> Subject:
    """A run in its current state, for tests that also check its records."""
    return Subject(run.config, run.task, run.algorithm, run.models(), run.round)
