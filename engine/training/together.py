"""Local training of several runs at once: their cohorts become one, over the joined data of all runs."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from engine.backends import Objective, OnFeatures
from engine.backends.batched import Batched
from engine.backends.fused import Fused
from engine.backends.loop import Loop
from engine.core.lockstep import MemberStopped
from engine.core.params import ClientParams
from engine.federation.batches import Plan
from engine.federation.clients import ClientData, Samples
from engine.task import Task


@dataclass(frozen=True)
class Rows:
    """Where the clients of several runs are in the joined cohort."""

    sizes: tuple[int, ...]
    order: Int[Tensor, "S"] | None  # the clients of all runs, by their steps; None: run after run

    def join(self, values: Sequence[Tensor]) -> Tensor:
        joined = torch.cat(list(values))
        return joined if self.order is None else joined.index_select(0, self.order)

    def join_params(self, params: Sequence[ClientParams]) -> ClientParams:
        return {n: self.join([p[n] for p in params]) for n in params[0]}

    def split(self, value: Tensor) -> list[Tensor]:
        if self.order is not None:
            value = torch.empty_like(value).index_copy_(0, self.order, value)
        return list(value.split(self.sizes))

    def split_params(self, params: ClientParams) -> list[ClientParams]:
        parts = {n: self.split(p) for n, p in params.items()}
        return [{n: parts[n][k] for n in parts} for k in range(len(self.sizes))]


def can_join(task: Task, plan: Plan) -> bool:
    is_plain = type(task.backend) in (Fused, Batched, Loop)
    return task.lockstep is not None and is_plain and plan.augmentation is None and plan.drawn is None


def kind(params: ClientParams) -> tuple[Hashable, ...]:
    """Names and shapes of one client's tensors."""
    return tuple((n, tuple(p.shape[1:]), p.dtype) for n, p in params.items())


def join_plans(plans: Sequence[Plan], data: Sequence[ClientData]) -> tuple[Plan, Rows]:
    """The batches of all runs as places in their joined data."""
    sizes = tuple(len(plan.steps) for plan in plans)
    steps = [n for plan in plans for n in plan.steps]
    device = plans[0].rows.device
    starts, start = [], 0
    for plan, own in zip(plans, data, strict=True):
        starts += [start] * len(plan.steps)
        start += own.num_samples
    depth, width = (max(plan.rows.shape[k] for plan in plans) for k in (1, 2))
    if all(plan.rows.shape[1:] == (depth, width) for plan in plans):
        rows = torch.cat([plan.rows for plan in plans])
    else:
        rows = torch.zeros(len(steps), depth, width, dtype=torch.long, device=device)
        for part, plan in zip(rows.split(sizes), plans, strict=True):
            part[:, : plan.rows.shape[1], : plan.rows.shape[2]] = plan.rows
    rows += _sent(tuple(starts), device)[:, None, None]
    counts = [
        tuple(c for plan in plans for c in (plan.counts[t] if t < len(plan.counts) else (0,) * len(plan.steps)))
        for t in range(max(len(plan.counts) for plan in plans))
    ]
    order = sorted(range(len(steps)), key=lambda i: -steps[i])
    if order == list(range(len(steps))):
        where = Rows(sizes, None)
    else:
        where = Rows(sizes, _sent(tuple(order), device))
        rows = rows.index_select(0, where.order)
        counts = [tuple(row[i] for i in order) for row in counts]
        steps = [steps[i] for i in order]
    return Plan(rows, tuple(counts), tuple(steps), plans[0].is_full), where


@lru_cache(maxsize=64)
def _sent(values: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)


def join_tasks(tasks: Sequence[Task]) -> Task:
    """The task of the first run with the training data of all."""
    lockstep = tasks[0].lockstep
    assert lockstep is not None
    key = tuple(id(task.data.train) for task in tasks)
    if key not in lockstep.kept:
        lockstep.kept.clear()
        lockstep.kept[key] = (join_data([task.data.train for task in tasks]), [task.data.train for task in tasks])
    train = lockstep.kept[key][0]

    def tick() -> None:
        for k, task in enumerate(tasks):
            try:
                task.tick()
            except Exception as error:
                raise MemberStopped(k, error) from error

    return replace(tasks[0], data=replace(tasks[0].data, train=train), tick=tick, lockstep=None)


def join_data(parts: Sequence[ClientData]) -> ClientData:
    pools: list[Samples] = []
    for part in parts:
        if not any(part.pool.x.data_ptr() == p.x.data_ptr() for p in pools):
            pools.append(part.pool)
    starts, start = {}, 0
    for pool in pools:
        starts[pool.x.data_ptr()] = start
        start += len(pool.y)
    pool = pools[0] if len(pools) == 1 else Samples(torch.cat([p.x for p in pools]), torch.cat([p.y for p in pools]))
    rows = torch.cat([part.rows + starts[part.pool.x.data_ptr()] for part in parts])
    offsets, start = [], 0
    for part in parts:
        offsets.append(part.offsets[:-1] + start)
        start += part.num_samples
    offsets.append(torch.tensor([start], device=rows.device))
    relabelled = None
    if any(part.relabelled is not None for part in parts):
        relabelled = torch.cat([part.all_labels for part in parts])
    return ClientData(pool, rows, torch.cat(offsets), parts[0].scale, parts[0].dtype, relabelled)


def same(objective: Objective | None) -> Hashable:
    """A key of what an objective computes."""
    if objective is None:
        return None
    if isinstance(objective, OnFeatures):
        return "features", _code(objective.loss), tuple(sorted(objective.l2.items())), _code(objective.slopes)
    return _code(objective)


def _code(function: Any) -> Hashable:
    if function is None:
        return None
    if not isinstance(function, FunctionType):
        return id(function)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = tuple(v if isinstance(v, (int, float, str, bool, type(None), tuple)) else id(v) for v in cells)
    code: CodeType = function.__code__
    return code, values, function.__defaults__
