"""The layout of each analysis' findings, on which the pages that draw them rely.

Sizes are letters with one meaning per file: N clients and C classes of the run; others are free. Analyses of plugins
have no entry: they are not drawn by pages of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from engine.core.run_json import Name, problems_of

Count = Annotated[int, Field(ge=0, lt=2**53)]
Share = Annotated[float, Field(ge=-1, le=1)]
Number = float | None
DataScope = Literal["own", "everyone"]
Model = Literal["global", "personalized", "alone", "initial"]
Data = Literal["test", "train"]


class Values(BaseModel):
    model_config = ConfigDict(strict=True)


class NoValues(Values): ...


class Separation(Values):
    agreement: Share | None
    chance: Share | None
    silhouette: Share | None


class FeatureValues(Values):
    round: Count
    data: Data
    width: Count
    are_inputs: bool
    explained: Annotated[list[float], Field(min_length=2, max_length=2)]
    by_class: Annotated[Separation, Field(alias="class")]
    client: Separation


class MapValues(Values):
    difference: float


class LandscapeValues(Values):
    round: Count
    data: Data
    samples: dict[DataScope, Count]


class PlaneValues(Values):
    models: Annotated[list[Model], Field(min_length=3, max_length=3)]
    losses: dict[DataScope, dict[Model, Number]]


class Operator(Values):
    name: Name
    calls: Count
    self_ms: float


class ProfileValues(Values):
    parts: Annotated[list[Name], Field(min_length=1, max_length=20)]
    evaluation_every: Annotated[int, Field(ge=1, lt=2**31)]
    evaluation_seconds: float
    operators: Annotated[list[Operator], Field(max_length=1000)]
    profiled_steps: Count


class Measure(Values):
    model: Literal["global", "personalized"]
    on: DataScope
    samples: Count
    loss: Number
    first_order: Number
    worst: Number
    eigenvalue: Number
    eigenvalue_bound: Number
    trace: Number
    trace_error: Number


class SharpnessValues(Values):
    measures: Annotated[list[Measure], Field(min_length=1, max_length=4)]


@dataclass(frozen=True)
class Layout:
    """The arrays and values of an analysis; ``below`` are arrays of indices into the named size."""

    arrays: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, str] = field(default_factory=dict)
    values: type[BaseModel] = NoValues


LAYOUTS = {
    "client_map": Layout(
        {"rounds": "R", "clients": "R N 2", "shown": "R", "explained": "2"},
        {"shared": "R K 2", "start": "2"},
        values=MapValues,
    ),
    "confusion": Layout({"personalized": "N C C"}, {"global": "N C C"}),
    "features": Layout(
        {"tsne": "M 2", "pca": "M 2", "label": "M", "client": "M"},
        below={"label": "C", "client": "N"},
        values=FeatureValues,
    ),
    "landscape": Layout(
        {"axis": "A", "personalized_own": "A A", "personalized_everyone": "A A"},
        {"global_own": "A A", "global_everyone": "A A"},
        values=LandscapeValues,
    ),
    "plane": Layout({"x": "A", "y": "B", "own": "B A", "everyone": "B A", "places": "3 2"}, values=PlaneValues),
    "profile": Layout({"rounds": "R", "samples_per_second": "R"}, values=ProfileValues),
    "sharpness": Layout(values=SharpnessValues),
    "sharpness of clients": Layout(dict.fromkeys(("eigenvalue", "rise", "loss", "accuracy"), "N")),
    "trade_off": Layout({"own": "N", "others": "N"}),
}


def check_findings(kind: str, params: Mapping[str, Any], found: Findings, partition: Mapping[str, Any]) -> None:
    """Checks findings against their layout. Raises CheckpointInvalid."""
    layout = LAYOUTS.get(f"{kind} of clients" if params.get("of") == "clients" else kind)
    if layout is None:
        return
    sizes = {"N": len(partition.get("test_sizes", ())), "C": len((partition.get("class_counts") or [[]])[0])}
    parts = found.values.get("parts", []) if kind == "profile" else []
    try:
        layout.values.model_validate(found.values)
        seconds = {f"seconds.{part}": "R" for part in parts}
        _check_arrays({**layout.arrays, **seconds}, found.arrays, sizes, required=True)
        _check_arrays(layout.optional, found.arrays, sizes, required=False)
        for name, size in layout.below.items():
            array = found.arrays[name]
            if array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < sizes[size]):
                raise ValueError(f"{name} must be below {sizes[size]}")
        _check_places(kind, found)
    except ValidationError as error:
        raise CheckpointInvalid(f"not a result of {kind}: {problems_of(error)[0]}") from error
    except ValueError as error:
        raise CheckpointInvalid(f"not a result of {kind}: {error}; recompute it") from error


def _check_arrays(
    layout: Mapping[str, str], arrays: Mapping[str, np.ndarray], sizes: dict[str, int], *, required: bool
) -> None:
    for name, words in layout.items():
        if name not in arrays:
            if required:
                raise ValueError(f"{name} is missing")
            continue
        array, wanted = arrays[name], words.split()
        if array.dtype.kind not in "biuf" or array.ndim != len(wanted) or 0 in array.shape:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, must be numbers [{words}]")
        for size, word in zip(array.shape, wanted, strict=True):
            if size != (int(word) if word.isdecimal() else sizes.setdefault(word, size)):
                raise ValueError(f"{name} has shape {list(array.shape)}, must be {words} with {sizes}")


def _check_places(kind: str, found: Findings) -> None:
    """Checks the keys that a page looks up."""
    if kind == "landscape":
        needed = {name.partition("_")[2] for name in found.arrays if "_" in name}
        there = set(found.values["samples"])
    elif kind == "plane":
        needed = {f"{ground} {model}" for ground in ("own", "everyone") for model in found.values["models"]}
        there = {f"{ground} {model}" for ground, losses in found.values["losses"].items() for model in losses}
    elif kind == "sharpness" and "measures" in found.values:
        needed, there = {"own"}, {row["on"] for row in found.values["measures"] if row["model"] == "personalized"}
    else:
        return
    if missing := needed - there:
        raise ValueError(f"{min(missing)} is missing in its values")
