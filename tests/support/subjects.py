"""Finished runs as analyses see them."""

from typing import Any

from engine.subject import Subject
from tests.support.builders import trained


def subject_of(algorithm: dict[str, Any] | str, **changed: Any) -> Subject:
    """A tiny trained run with the models that it stores."""
    run = trained(algorithm, **changed)
    return Subject(run.config, run.task, run.algorithm, run.models(), run.round)
