"""The layout of an analysis' findings: its arrays and values, on which the page that draws them relies.

An analysis declares it with a static method ``layout(params)``. Findings are checked before they are drawn, and before
they are imported from a file of unknown origin; those of an analysis without a layout are not.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.core.run_json import problems_of

Count = Annotated[int, Field(ge=0, lt=2**53)]
Number = float | None


class Values(BaseModel):
    """Base of the values of findings: ``"3"`` is not a number."""

    model_config = ConfigDict(strict=True)


class NoValues(Values): ...


def _none(found: Findings) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Layout:
    """``arrays`` and ``optional`` ones, name -> sizes: ``"R N 2"``.

    Sizes are letters with one meaning per file, or numbers: N clients and C classes of the run; others are free.
    """

    arrays: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, str] = field(default_factory=dict)  # arrays of indices into the named size
    values: type[Values] = NoValues
    named: Callable[[Findings], Mapping[str, str]] = _none  # further arrays, whose names are in the values
    missing: Callable[[Findings], Collection[str]] = _none  # names that the page needs but the values lack


@runtime_checkable
class HasLayout(Protocol):
    """The additional interface of an analysis whose findings are checked."""

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        """The layout of findings computed with these options; ``params`` has those that are not at their default."""


def layout_of(kind: str, params: Mapping[str, Any]) -> Layout | None:
    """The layout of an analysis; None if it declares none, or is not installed here."""
    analysis = ANALYSES.get(kind).make if kind in ANALYSES else None
    return analysis.layout(params) if isinstance(analysis, HasLayout) else None


def check_findings(kind: str, params: Mapping[str, Any], found: Findings, partition: Mapping[str, Any]) -> None:
    """Checks findings against their layout. Raises CheckpointInvalid."""
    layout = layout_of(kind, params)
    if layout is None:
        return
    sizes = {"N": len(partition.get("test_sizes", ())), "C": len((partition.get("class_counts") or [[]])[0])}
    try:
        layout.values.model_validate(found.values)
        _check_arrays({**layout.arrays, **layout.named(found)}, found.arrays, sizes, required=True)
        _check_arrays(layout.optional, found.arrays, sizes, required=False)
        for name, size in layout.below.items():
            array = found.arrays[name]
            if array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < sizes[size]):
                raise ValueError(f"{name} must be below {sizes[size]}")
        if missing := layout.missing(found):
            raise ValueError(f"{min(missing)} is missing in its values")
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
        array, expected = arrays[name], words.split()
        if array.dtype.kind not in "biuf" or array.ndim != len(expected) or 0 in array.shape:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, must be numbers [{words}]")
        for size, word in zip(array.shape, expected, strict=True):
            if size != (int(word) if word.isdecimal() else sizes.setdefault(word, size)):
                raise ValueError(f"{name} has shape {list(array.shape)}, must be {words} with {sizes}")
