"""The choices of studies, as exports and bundles have them: entries of unknown origin, checked against the studies."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field

from engine.config.sampler import MAX_TRIALS
from engine.config.schema import ExperimentConfig
from engine.config.study import Study
from engine.core.errors import InvalidConfig

# Any time zone can show these; the first and last years of a datetime overflow.
Time = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(2200, 1, 1, tzinfo=UTC))]


class ChoiceEntry(BaseModel):
    """The trial that was chosen for a method; ``experiment`` is the index of its experiment in the document."""

    experiment: Annotated[int, Field(ge=0)]
    entry: str
    split: Annotated[int, Field(ge=0, lt=2**32)]
    trial: Annotated[int, Field(ge=0, lt=MAX_TRIALS)]
    value: Annotated[float, Field(allow_inf_nan=False)] | None
    error: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    considered: Annotated[int, Field(ge=1, le=MAX_TRIALS)]
    tied: Annotated[int, Field(ge=1, le=MAX_TRIALS)]
    chosen_at: Time


def by_experiment(
    entries: Sequence[ChoiceEntry], experiments: Sequence[ExperimentConfig], at: Path | str
) -> list[tuple[ChoiceEntry, ...]]:
    """The choices of each experiment. Raises InvalidConfig for those of no study, and for repeated ones.

    ``at`` is where the entries are, in messages.
    """
    tuned = [set() if experiment.tune is None else set(Study(experiment).tuned) for experiment in experiments]
    found: list[dict[tuple[str, int], ChoiceEntry]] = [{} for _ in experiments]
    for i, entry in enumerate(entries):
        key, what = (entry.entry, entry.split), f"{at}: {i}: {entry.entry!r:.60} on split {entry.split}"
        if entry.experiment >= len(experiments) or key not in tuned[entry.experiment]:
            raise InvalidConfig([f"{what} is not tuned by its experiment"])
        if key in found[entry.experiment]:
            raise InvalidConfig([f"{what} is chosen twice"])
        found[entry.experiment][key] = entry
    return [tuple(own.values()) for own in found]
