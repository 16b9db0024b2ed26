"""Diagnostics that a page draws beside one another: who brings some of them brings all, in shapes that fit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.core.results import RoundResult


class Group(NamedTuple):
    """``numbers`` are one a round; ``arrays`` have equal shapes of so many ``axes``, the first of two a client each."""

    arrays: tuple[str, ...] = ()
    axes: int = 1
    numbers: tuple[str, ...] = ()
    is_steady: bool = True  # the shape is the same in every round
    may_be_missing: tuple[str, ...] = ()
    may_be_alone: tuple[str, ...] = ()


GROUPS = (
    Group(arrays=("layer_scores", "personal_layers"), axes=2, may_be_missing=("personal_layers",)),
    Group(arrays=("capacity", "cost"), numbers=("mu", "K_hat"), may_be_alone=("K_hat",)),
    Group(arrays=("mean_update_norm", "max_update_norm"), is_steady=False),
    Group(numbers=("inertia", "kmeans_iterations", "kmeans_seconds", "model_distance")),
)


def check(rounds: Sequence[RoundResult], num_clients: int) -> None:
    """Raises ValueError that names what does not fit."""
    for group in GROUPS:
        shapes = set[tuple[int, ...]]()
        for r in rounds:
            try:
                shapes |= _shapes(group, r, num_clients)
            except ValueError as error:
                raise ValueError(f"round {r.round}: diagnostics: {error}") from None
        if group.is_steady and len(shapes) > 1:
            raise ValueError(f"diagnostics: {' and '.join(group.arrays)} change their shape between rounds")


def _shapes(group: Group, r: RoundResult, num_clients: int) -> set[tuple[int, ...]]:
    wanted = (*group.arrays, *group.numbers)
    numbers = {name for name in wanted if f"diagnostics.{name}" in r.scalars}
    arrays = {name: a for name in wanted if (a := r.arrays.get(f"diagnostics.{name}")) is not None}
    there = numbers | arrays.keys()
    if odd := sorted((numbers & set(group.arrays)) | (arrays.keys() & set(group.numbers))):
        raise ValueError(f"{odd[0]} is {'an array' if odd[0] in arrays else 'a number'}, which it never is")
    missing = set(wanted) - set(group.may_be_missing) - there
    if missing and there - set(group.may_be_alone):
        raise ValueError(f"{', '.join(sorted(there))} without {', '.join(sorted(missing))}")
    shapes = {array.shape for array in arrays.values()}
    for shape in shapes:
        if len(shape) != group.axes or 0 in shape or (group.axes == 2 and shape[0] != num_clients):
            raise ValueError(f"{' and '.join(arrays)} have the shape {list(shape)}, which cannot be drawn")
    if len(shapes) > 1:
        raise ValueError(f"{' and '.join(arrays)} have different shapes")
    if group.arrays and any(np.isnan(r.scalars[f"diagnostics.{name}"]) for name in numbers):
        raise ValueError(f"{', '.join(sorted(numbers))}: not known, where a number is needed")
    return shapes
