"""The ``tune:`` section of an experiment, and the place of a run in a study.

A study trains every method with several settings, the trials; chooses one by validation accuracy; and trains the
defaults and the choice again with fresh seeds, the final runs. Only these are evaluated on test data.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from engine.config.sampler import MAX_COLUMNS, MAX_TRIALS, Sampler
from engine.config.tpe import Point
from engine.core.registry import Options
from engine.core.vocabulary import ModelKind

Select = Literal["mean", "weighted_mean", "lowest10", "lowest5", "loss"]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Tune(Options):
    """How settings are chosen, with the same budget for every method."""

    advanced: ClassVar[tuple[str, ...]] = ("rounds", "seeds", "model", "per")

    trials: int = Field(
        16, ge=1, le=MAX_TRIALS, description="Settings tried per method and split; the first has the defaults."
    )
    gradients: float | None = Field(
        None,
        gt=0,
        le=1e18,
        title="Gradients, instead of trials",
        description="Budget in gradient evaluations instead of a number of trials: at least 2 trials, and more until "
        "it is spent.",
    )
    rounds: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        title="Rounds of a trial",
        description="Rounds of a trial; by default those of the final runs.",
        json_schema_extra={"unset": "as in final runs"},
    )
    seeds: tuple[Seed, ...] = Field(
        (1000,), title="Seeds of the trials", description="Seeds of the trials; final runs must have other seeds."
    )
    select: Select = Field(
        "mean",
        title="Select by",
        description="What decides: a summary over clients of the last round's validation accuracies, or the validation "
        "loss (loss).",
    )
    model: ModelKind = Field(
        "personalized", title="Selected model", description="The model whose validation results decide."
    )
    sampler: Sampler = Field(
        "sobol",
        description="How settings are drawn: evenly spread (sobol), independently (random), or near those that were "
        "good so far (tpe). With tpe, methods share the learning rates of the first 10 trials only.",
    )
    per: Literal["split", "first"] = Field(
        "split",
        title="Settings per",
        description="split: each split chooses its own settings; first: all splits use those chosen on the first.",
    )

    @field_validator("seeds", mode="before")
    @classmethod
    def _one_or_several(cls, raw: Any) -> Any:
        return (raw,) if isinstance(raw, int) else raw

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError("must be distinct whole numbers, at least one")
        return seeds


@dataclass(frozen=True)
class StudyRun:
    """The place of a run in a study: a trial, or a final run with the settings of a trial. Trial 0 has the defaults.

    ``point`` is the trial's point in the search spaces, if it depended on results.
    """

    role: Literal["trial", "final"]
    entry: str  # label of the method
    split: int
    trial: int
    point: Point | None = None

    @classmethod
    def from_dict(cls, raw: Any) -> "StudyRun":
        """Raises ValueError."""
        if not isinstance(raw, Mapping) or set(raw) - {"point"} != {"role", "entry", "split", "trial"}:
            raise ValueError("must have exactly the keys role, entry, split, trial, and for some trials point")
        if raw["role"] not in ("trial", "final") or not isinstance(raw["entry"], str):
            raise ValueError("role must be trial or final, and entry a label")
        if any(type(raw[name]) is not int or raw[name] < 0 for name in ("split", "trial")):
            raise ValueError("split and trial must be whole numbers from 0")
        return cls(**{**raw, "point": _point(raw["point"])} if "point" in raw else raw)

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        point = found.pop("point")
        return found if point is None else {**found, "point": list(point)}


def _point(raw: Any) -> Point:
    """Raises ValueError."""
    is_list = isinstance(raw, list | tuple) and 1 <= len(raw) <= MAX_COLUMNS
    if not is_list or not all(type(u) in (int, float) and 0 <= u < 1 for u in raw):
        raise ValueError(f"point must be a list of 1 to {MAX_COLUMNS} numbers from 0, below 1")
    return tuple(map(float, raw))
