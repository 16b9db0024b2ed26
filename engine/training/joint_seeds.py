"""Computes the work of several runs at once, for ``seeds_together``, by concatenating their clients into one task.

A run that is trained with others gets the results that it would get alone, up to rounding. Only calls with equal
options and shapes are joined; everything else is computed for each run separately.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from engine.backends import OnFeatures
from engine.backends.batched import Batched
from engine.backends.fused import Fused
from engine.backends.loop import Loop
from engine.core.devices import sent
from engine.core.lockstep import Lockstep, MemberStopped
from engine.core.registry import Options
from engine.federation.batches import Plan
from engine.federation.clients import ClientData, Samples
from engine.task import Task

Values = Mapping[str, Any]
"""Tensors [S, ...] of a cohort by name, or dicts of them."""
Train = Callable[[Task, Sequence[Plan], Values], Values]
"""(task, plans, values of the cohort) -> results of the cohort."""

T = TypeVar("T")

_MOST_KEPT = 8  # two pools, with training, validation and test data of each
_PLAIN = (Fused, Batched, Loop)  # backends without state of their run


def train(task: Task, plans: Sequence[Plan], values: Values, compute: Train, same: Hashable) -> Values:
    """``compute(task, plans, values)``, at once with runs of other seeds that train the same way.

    ``plans`` have the same steps, and ``compute`` uses no tensors but its arguments. ``same`` is equal for two runs
    only if their ``compute`` functions do the same.
    """
    lockstep = task.lockstep
    is_plain = type(task.backend) in _PLAIN and all(map(_is_plain, plans))
    if lockstep is None or not is_plain:
        return compute(task, plans, values)
    key = "train", same, type(task.backend), tuple(plan.is_full for plan in plans), kind(values)
    return lockstep.meet(key, _Training(task, plans, values, compute), _train_all)


def _is_plain(plan: Plan) -> bool:
    """Whether its batches are rows of the training data, unchanged."""
    return type(plan) is Plan and not plan.augmentation and not plan.sampling


@dataclass(frozen=True)
class _Training:
    """The arguments of ``train``."""

    task: Task
    plans: Sequence[Plan]
    values: Values
    compute: Train


def _train_all(runs: Sequence[_Training]) -> list[Values]:
    first = runs[0]
    if len(runs) == 1:
        return [first.compute(first.task, first.plans, first.values)]
    tasks, data = [run.task for run in runs], [run.task.data.train for run in runs]
    joint = replace(joined(tasks), data=replace(first.task.data, train=joined_data(tasks, data)))
    of_all = [join_plans(plans, data) for plans in zip(*(run.plans for run in runs), strict=True)]
    plans, rows = [plan for plan, _ in of_all], of_all[0][1]  # the same rows in all, since their steps are the same
    results = first.compute(joint, plans, rows.join([run.values for run in runs]))
    for note in joint.notes:
        for task in tasks:
            task.note(note)
    parts: list[Values] = rows.split(results)
    return parts


def joined(tasks: Sequence[Task]) -> Task:
    """The task and data of the first run, with a ``tick`` that calls the ``tick`` of every run."""

    def tick() -> None:
        for member, task in enumerate(tasks):
            try:
                task.tick()
            except Exception as error:
                raise MemberStopped(member, error) from error

    return replace(tasks[0], tick=tick, notes=[], lockstep=None)


def joined_data(tasks: Sequence[Task], parts: Sequence[ClientData]) -> ClientData:
    """The clients of all runs, run after run. A pool that runs share is not copied."""
    lockstep = tasks[0].lockstep
    assert lockstep is not None
    pools = list({id(part.pool.x): part.pool for part in parts}.values())
    pool: Samples = _kept(lockstep, pools, lambda: _join_pools(pools))
    data: ClientData = _kept(lockstep, parts, lambda: _join_data(parts, pools, pool))
    return data


def _kept(lockstep: Lockstep, of: Sequence[object], compute: Callable[[], T]) -> T:
    """What ``compute`` returned the first time for the same objects, if it is among the last ``_MOST_KEPT`` used."""
    key = tuple(map(id, of))
    found: tuple[T, Sequence[object]] = lockstep.kept.pop(key, None) or (compute(), of)
    lockstep.kept[key] = found  # with the objects, so that their ids are not reused
    while len(lockstep.kept) > _MOST_KEPT:
        lockstep.kept.pop(next(iter(lockstep.kept)))
    return found[0]


def _join_pools(pools: Sequence[Samples]) -> Samples:
    return pools[0] if len(pools) == 1 else Samples(torch.cat([p.x for p in pools]), torch.cat([p.y for p in pools]))


def _join_data(parts: Sequence[ClientData], pools: Sequence[Samples], pool: Samples) -> ClientData:
    starts, start = {}, 0
    for one in pools:
        starts[id(one.x)] = start
        start += len(one.y)
    rows = torch.cat([part.rows + starts[id(part.pool.x)] for part in parts])
    sizes = torch.cat([part.sizes for part in parts])
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    are_relabeled = any(part.relabeled is not None for part in parts)
    relabeled = torch.cat([part.all_labels for part in parts]) if are_relabeled else None
    return ClientData(pool, rows, offsets, parts[0].scale, parts[0].dtype, relabeled)


@dataclass(frozen=True)
class Rows:
    """Where the clients of each of several runs are among the clients of all."""

    sizes: tuple[int, ...]  # clients of each run
    order: Int[Tensor, "S"] | None = None  # of all clients, most steps first; None: run after run

    def join(self, values: Sequence[Any]) -> Any:
        """Concatenates tensors [S, ...] of each run, or dicts of them."""
        if isinstance(values[0], Mapping):
            return {n: self.join([value[n] for value in values]) for n in values[0]}
        whole = torch.cat(list(values))
        return whole if self.order is None else whole.index_select(0, self.order)

    def split(self, value: Any) -> list[Any]:
        """The inverse of ``join``."""
        if isinstance(value, Mapping):
            parts = {n: self.split(v) for n, v in value.items()}
            return [{n: part[k] for n, part in parts.items()} for k in range(len(self.sizes))]
        if self.order is not None:
            value = torch.empty_like(value).index_copy_(0, self.order, value)
        return list(value.split(self.sizes))


def join_plans(plans: Sequence[Plan], data: Sequence[ClientData]) -> tuple[Plan, Rows]:
    """The batches of all runs, as places in their joined data."""
    sizes, steps = tuple(len(plan.steps) for plan in plans), [n for plan in plans for n in plan.steps]
    shape = tuple(max(plan.rows.shape[axis] for plan in plans) for axis in (1, 2))
    parts, counts, start = [], [], 0
    for plan, own in zip(plans, data, strict=True):
        rows = plan.rows + start
        if rows.shape[1:] != shape:
            whole = rows[:, :1, :1].repeat(1, *shape)  # padding is a sample of the same client, as in a run alone
            whole[:, : rows.shape[1], : rows.shape[2]] = rows
            rows = whole
        parts.append(rows)
        counts.append([*plan.counts, *[(0,) * len(plan.steps)] * (shape[0] - len(plan.counts))])
        start += own.num_samples
    rows, of_steps = torch.cat(parts), [[n for row in step for n in row] for step in zip(*counts, strict=True)]
    order = sorted(range(len(steps)), key=lambda client: -steps[client])
    places = Rows(sizes)
    if order != list(range(len(steps))):
        by_steps = sent(order, rows.device)
        places, rows = Rows(sizes, by_steps), rows.index_select(0, by_steps)
        steps = [steps[client] for client in order]
        of_steps = [[row[client] for client in order] for row in of_steps]
    return Plan(rows, tuple(map(tuple, of_steps)), tuple(steps), plans[0].is_full), places


def identity(objective: Any) -> Hashable:
    """Equal for objectives that do the same: they have the same code, and hold equal numbers, names and options."""
    if isinstance(objective, OnFeatures):
        return identity(objective.loss), tuple(sorted(objective.l2.items())), identity(objective.gradients)
    if isinstance(objective, partial):
        return identity(objective.func), tuple(map(_value, objective.args)), _named(objective.keywords)
    if isinstance(objective, FunctionType):
        defaults, named = objective.__defaults__ or (), objective.__kwdefaults__ or {}
        closed = [cell.cell_contents for cell in objective.__closure__ or ()]
        return objective.__code__, tuple(map(_value, (*closed, *defaults))), _named(named)
    return None if objective is None else id(objective)


def _value(value: Any) -> Hashable:
    is_equal_by_value = isinstance(value, int | float | str | Options | None)
    return value if is_equal_by_value else identity(value)


def _named(values: Mapping[str, Any]) -> Hashable:
    return tuple((name, _value(value)) for name, value in sorted(values.items()))


def kind(value: Any) -> Hashable:
    """The names, shapes and dtypes of one client's values."""
    if isinstance(value, Mapping):
        return tuple((n, kind(v)) for n, v in value.items())
    return tuple(value.shape[1:]), value.dtype
