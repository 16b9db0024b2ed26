"""Estimates the cost of runs: each method is timed briefly on the actual data, the rest is arithmetic.

    seconds per round = fixed cost of a round + seconds per gradient x gradients per round
    seconds per evaluation = fixed cost + seconds per client, including training at evaluation

They come from two short rounds with few clients and local steps, each within ``BUDGET_S``, and their evaluations.
"""

import json
import math
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st
import torch

from app.data.lru import Lru
from app.data.once import Once
from app.data.pools import federation_of, file_state, is_present, pool_of, sample_bytes, split_of
from app.data.turns import leave_if_outdated
from engine.config.options import Training
from engine.config.schema import RunConfig
from engine.config.tune import Tune
from engine.core.errors import TooLarge
from engine.core.vocabulary import ModelKind
from engine.federation.batches import num_local_steps
from engine.federation.clients import Federation
from engine.models import num_parameters
from engine.simulation.dial_settings import num_sampled
from engine.simulation.evaluation import score
from engine.simulation.preflight import method_notes, num_model_values
from engine.simulation.simulate import Simulation

BUDGET_S = 1.5  # for timing a method
POINTS = ((8, 2), (20, 6))  # clients and local steps of two short rounds
SHORT_S = 0.15  # if the first takes longer, the second is skipped
START_S, RECORD_S = 0.3, 0.008  # in a warm worker: setting up a run; recording an evaluated round
PROCESS_BYTES = 350e6  # a worker before it has any data
MAX_STATE_BYTES = 3e8  # bytes of all clients' models that the web process is ready to build
EVALUATED_ARRAYS, SCALARS, SCALAR_BYTES = 6, 25, 60


@dataclass(frozen=True)
class Moment:
    """The measurements of one method."""

    round_s: float  # seconds of a whole round; NaN if it was too slow to time
    evaluation_s: float  # seconds of evaluating the clients; NaN likewise
    parameters: int
    state_bytes: float
    gradients: float  # evaluations in a whole round


@dataclass(frozen=True)
class Timed:
    """A short round, and the evaluation of a few clients after it; NaN if that was too slow."""

    seconds: float
    gradients: float
    state_bytes: float
    evaluation_s: float


@dataclass(frozen=True)
class Cost:
    """The cost of one run, or of several together. ``seconds`` and ``gradients`` are None if not measured."""

    seconds: float | None
    gradients: float | None
    memory_bytes: float
    disk_bytes: float


_moments: Lru[Hashable, Once[Moment]] = Lru(500)


class _Enough(Exception):
    """The time budget is used up."""


def cost_of(run: RunConfig) -> Cost:
    """Estimate one run. Raises the errors that would prevent its start: Unsupported, DataUnavailable, ..."""
    split = split_of(run)
    clients = len(split["train_sizes"])
    moment = measure(run)
    samples = sum(map(sum, (split["train_sizes"], split["val_sizes"], split["test_sizes"])))
    model_bytes = moment.parameters * _itemsize(run.training)
    state = moment.state_bytes or 2 * clients * model_bytes
    evaluated = num_evaluations(run.training.rounds, run.evaluation.every)
    rows = (
        evaluated * EVALUATED_ARRAYS * _num_evaluated(run, clients) * 4 + run.training.rounds * SCALARS * SCALAR_BYTES
    )
    seconds = START_S + run.training.rounds * moment.round_s + evaluated * (RECORD_S + moment.evaluation_s)
    return Cost(
        seconds=None if math.isnan(seconds) else seconds,
        gradients=None if math.isnan(moment.gradients) else run.training.rounds * moment.gradients,
        memory_bytes=PROCESS_BYTES + samples * sample_bytes(run) + 3 * state,
        disk_bytes=rows + 2 * state + 2 * (clients + 1) * model_bytes,
    )


def total_cost(costs: Iterable[Cost], slots: int) -> Cost:
    """All runs in sequence on each slot, as far as their times are known; the ``slots`` largest in memory."""
    costs = list(costs)
    largest = sorted((cost.memory_bytes for cost in costs), reverse=True)[:slots]
    known = [cost.seconds for cost in costs if cost.seconds is not None]
    seconds = max(sum(known) / slots, max(known)) if known else None
    counted = [cost.gradients for cost in costs if cost.gradients is not None]
    return Cost(seconds, sum(counted) if counted else None, sum(largest), sum(cost.disk_bytes for cost in costs))


def measure(run: RunConfig) -> Moment:
    """Time the method in a turn, once per configuration, regardless of seed, length and name."""
    training = {name: value for name, value in run.training.model_dump(mode="json").items() if name != "rounds"}
    evaluation = run.evaluation.model_dump(mode="json", include={"on", "clients"})
    key = (_what(run, training=training, evaluation=evaluation), file_state(run))
    return _moments.get_or_put(key, lambda: Once(partial(_measured, run))).get()


def _what(run: RunConfig, **changed: Any) -> str:
    """The configuration without fields that do not affect the costs."""
    left_out = ("seed", "data_seed", "study", "name", "label", "evaluation")
    return json.dumps({k: v for k, v in run.to_dict().items() if k not in left_out} | changed, sort_keys=True)


def _measured(run: RunConfig) -> Moment:
    pool, split = pool_of(run), split_of(run)
    clients = len(split["train_sizes"])
    parameters = num_parameters(run.model, pool.x.shape[1:], pool.num_classes)
    if num_model_values(run, clients, parameters) * _itemsize(run.training) > MAX_STATE_BYTES:
        return _untimed(parameters)
    try:
        data = federation_of(run)
    except TooLarge:
        return _untimed(parameters)
    steps = local_steps(run.training, split["train_sizes"])
    cohort = max(1, round(num_sampled(run, clients)))
    few, more = ((min(n, cohort), max(1, min(e, round(steps)))) for n, e in POINTS)
    evaluated = [min(n, clients) for n, _ in POINTS]
    try:
        first = _one_round(_shortened(run, few[0] / clients, few[1]), data, evaluated[0])
        whole = first.gradients * cohort / few[0] * steps / few[1]
        second = first
        if first.seconds < SHORT_S:
            second = _one_round(_shortened(run, more[0] / clients, more[1]), data, evaluated[1])
        else:
            evaluated[1] = evaluated[0]
    except _Enough:
        return _untimed(parameters)
    round_s = _extrapolated(whole, (first.gradients, first.seconds), (second.gradients, second.seconds))
    points = zip(evaluated, (first.evaluation_s, second.evaluation_s), strict=True)
    return Moment(round_s, _extrapolated(_num_evaluated(run, clients), *points), parameters, first.state_bytes, whole)


def _untimed(parameters: int) -> Moment:
    return Moment(math.nan, math.nan, parameters, 0.0, math.nan)


def _extrapolated(amount: float, first: tuple[float, float], second: tuple[float, float]) -> float:
    """The seconds for an ``amount``, from two points (amount, seconds): a fixed cost, and a cost per unit."""
    (less, quick), (more, slow) = first, second
    steepest = slow / more  # as if there were no fixed cost
    if more <= less:
        return steepest * amount
    slope = min(max((slow - quick) / (more - less), steepest / 5), steepest)
    return slow + slope * (amount - more)


def _one_round(run: RunConfig, data: Federation, evaluated: int) -> Timed:
    """Time the second round: the first warms up, and some methods choose their settings in it.

    Then time the second evaluation of the first ``evaluated`` clients.
    """
    budget_start = time.perf_counter()

    def tick() -> None:
        leave_if_outdated()
        if time.perf_counter() > budget_start + BUDGET_S:
            raise _Enough

    simulation = Simulation(run, data=data, tick=tick)
    state_bytes = float(len(simulation.checkpoint()))
    for round in (1, 2):
        task, _ = simulation.prepare(round)
        started = budget_start = time.perf_counter()  # the budget restarts
        simulation.state, diagnostics = simulation.train(task.cohort(round), task)
    diagnostics.train_loss.tolist()  # waits for a GPU
    seconds = time.perf_counter() - started
    task = replace(task, evaluated=torch.arange(evaluated, device=task.device))
    try:
        for _ in range(2):
            started = budget_start = time.perf_counter()
            score(simulation.algorithm, simulation.state, task, run.evaluation.on)
        evaluation_s = time.perf_counter() - started
    except _Enough:
        evaluation_s = math.nan
    return Timed(seconds, max(diagnostics.gradient_evaluations, 1), state_bytes, evaluation_s)


def _shortened(run: RunConfig, participation: float, steps: int) -> RunConfig:
    less = {"participation": participation, "local_steps": steps, "local_epochs": None}
    privacy = run.privacy if run.privacy is not None and run.privacy.unit == "sample" else None  # few would be refused
    system = run.system and run.system.model_copy(update={"availability": 1.0, "over_select": 1.0})
    return replace(run, training=run.training.model_copy(update=less), privacy=privacy, system=system)


def notes_of(run: RunConfig, tune: Tune | None = None) -> tuple[str, ...]:
    """Options that will be adjusted; none if the data would first have to be downloaded.

    Raises the errors that would prevent the start of the run, or of the study with these settings (``tune``).
    """
    selected = tune.model if tune else "personalized"
    what = _what(run, evaluated_on=run.evaluation.on)
    return _notes(what, selected, file_state(run), run) if is_present(run.dataset) else ()


@st.cache_data(max_entries=500, show_spinner=False)
def _notes(what: str, selected: ModelKind, files: tuple[Hashable, ...], _run: RunConfig) -> tuple[str, ...]:
    try:
        return method_notes(_run, federation_of(_run), selected)
    except TooLarge:
        return ()


def _num_evaluated(run: RunConfig, clients: int) -> int:
    return min(run.evaluation.clients or clients, clients)


def _itemsize(training: Training) -> int:
    return 8 if training.tensor_dtype == "float64" else 4


def num_evaluations(rounds: int, every: int) -> int:
    """How many rounds are evaluated: round 0, the multiples of ``every``, and the last one."""
    return 1 + math.ceil(rounds / every)


def local_steps(training: Training, train_sizes: Iterable[int]) -> float:
    """Local steps per client and round; with ``local_epochs`` the mean over the clients."""
    if training.local_epochs is None:
        return float(training.local_steps or 1)
    steps = [num_local_steps(size, training.batch_size, None, training.local_epochs) for size in train_sizes]
    return sum(steps) / max(len(steps), 1)
