"""Diagnostics that a page draws: an import must have all of a group or none, in matching shapes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.core.results import RoundResult


class Group(NamedTuple):
    """``numbers`` have one value per round; ``arrays`` share a shape of ``axes`` axes (of two, first the client)."""

    arrays: tuple[str, ...] = ()
    axes: int = 1
    numbers: tuple[str, ...] = ()
    is_steady: bool = True  # same shape in every round
    may_be_missing: tuple[str, ...] = ()
    may_be_alone: tuple[str, ...] = ()


GROUPS = (
    Group(arrays=("layer_scores", "personal_layers"), axes=2, may_be_missing=("personal_layers",)),
    Group(arrays=("capacity", "cost"), numbers=("mu", "K_hat"), is_steady=False, may_be_alone=("K_hat",)),
    Group(arrays=("mean_update_norm", "max_update_norm"), is_steady=False),
    Group(numbers=("inertia", "kmeans_iterations", "kmeans_seconds", "model_distance")),
)
PER_CLIENT = (  # as arrays they have one value per client; also in storage/backup_check.py
    "aggregator.weight",
    "arrived",
    "privacy.epsilon",
    "residual_norm",
    "speed",
    "update_cosine",
    "update_norm",
)


def check(rounds: Sequence[RoundResult], num_clients: int) -> None:
    """Checks the diagnostics of all rounds. Raises ValueError."""
    for r in rounds:
        for name in PER_CLIENT:
            array = r.arrays.get(f"diagnostics.{name}")
            if array is not None and array.shape != (num_clients,):
                raise ValueError(
                    f"round {r.round}: diagnostics: {name} has the shape {list(array.shape)}; "
                    f"it must have one value for each of the {num_clients} clients"
                )
    for group in GROUPS:
        shapes = set[tuple[int, ...]]()
        for r in rounds:
            try:
                shapes |= _shapes(group, r, num_clients)
            except ValueError as error:
                raise ValueError(f"round {r.round}: diagnostics: {error}") from None
        if group.is_steady and len(shapes) > 1:
            raise ValueError(f"diagnostics: {' and '.join(group.arrays)} must have the same shape in every round")


def _shapes(group: Group, r: RoundResult, num_clients: int) -> set[tuple[int, ...]]:
    expected = (*group.arrays, *group.numbers)
    numbers = {name for name in expected if f"diagnostics.{name}" in r.scalars}
    arrays = {name: a for name in expected if (a := r.arrays.get(f"diagnostics.{name}")) is not None}
    given = numbers | arrays.keys()
    if unexpected := sorted((numbers & set(group.arrays)) | (arrays.keys() & set(group.numbers))):
        raise ValueError(
            f"{unexpected[0]} is {'an array' if unexpected[0] in arrays else 'a number'}, which it must not be"
        )
    missing = set(expected) - set(group.may_be_missing) - given
    if missing and given - set(group.may_be_alone):
        raise ValueError(f"{', '.join(sorted(given))} given without {', '.join(sorted(missing))}")
    shapes = {array.shape for array in arrays.values()}
    for shape in shapes:
        if len(shape) != group.axes or 0 in shape or (group.axes == 2 and shape[0] != num_clients):
            raise ValueError(f"{' and '.join(arrays)} have the invalid shape {list(shape)}")
    if len(shapes) > 1:
        raise ValueError(f"{' and '.join(arrays)} must have equal shapes")
    if group.arrays and any(np.isnan(r.scalars[f"diagnostics.{name}"]) for name in numbers):
        raise ValueError(f"{', '.join(sorted(numbers))}: must not be null")
    return shapes
