"""Configuration and summary of a stored run as JSON of unknown origin: the parts that the app reads.

A backup is refused unless its runs match these declarations. A configuration may be older than the options of its
parts, so only their kinds are checked.
"""

from typing import Annotated, Any

from pydantic import Field

from engine.core.run_json import Name, Size, Strict

Seed = Annotated[int, Field(ge=0, lt=2**32)]
Part = dict[str, Any] | None
Scores = dict[str, float | None] | None


class NamedPart(Strict):
    name: Name
    num_clients: Size | None = None


class StudyEntry(Strict):
    """``engine.config.tune.StudyRun``."""

    role: Name
    entry: str
    split: Seed
    trial: Size


class ConfigEntry(Strict):
    """``engine.config.schema.RunConfig``."""

    algorithm: NamedPart
    dataset: NamedPart
    partition: NamedPart
    model: NamedPart
    training: dict[str, Any]
    evaluation: Part = None
    attack: Part = None
    aggregator: Part = None
    compression: Part = None
    privacy: Part = None
    system: Part = None
    data_seed: int | None = None
    study: StudyEntry | None = None


class SummaryEntry(Strict):
    """The summaries of each kind of model, in the last and the ``best`` round."""

    __pydantic_extra__: dict[str, Scores]
    best: dict[str, Scores] | None = None
