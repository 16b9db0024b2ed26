"""L2GD: every client keeps its own model; a shared coin decides between a local step and a step to the mean.

Hanzely, Richtarik. Federated Learning of a Mixture of Global and Local Models. 2020.
https://arxiv.org/abs/2002.05516, Algorithm 1, with mini-batches (L2SGD).

    E times, with one coin for all:
        x_i <- x_i - step / (N (1 - p)) grad f_i(x_i; B)        with probability 1 - p
        x_i <- x_i - step lam / (N p) (x_i - x-bar)             with probability p
    x-bar <- mean_i x_i                                         uniform, over the participants

Idea: The objective is the mean of f_i(x_i) plus lam/2 times the mean of ||x_i - x-bar||^2: models may differ, at a
cost. Gradient descent on a random one of the two terms at a time leaves out most communication, because only the second
needs the others. At lam = 0 each client trains alone; as lam grows, all models approach their mean.

When: communication is expensive, and clients may keep models of their own.

Sent: x_i up and x-bar down, only where the coin turns from local to aggregate, or a new cohort begins with an aggregate
step. Kept: x_i.

Cost: a share 1 - p of FedAvg's gradients; about E p (1 - p) exchanges a round, and up to p^2 more where cohorts change;
FedAvg has one.

Newcomers: start at x-bar and take one round's steps with their own coin and the server's x-bar.

Deviations: step=None gives local steps the training's learning rate, that is step = N (1 - p) lr. The batch of an
aggregate step goes unused. While the coin does not change nothing is sent, also from round to round, if the clients are
the same: repeated aggregate steps do not move x-bar. A participant without a local step reports the loss of
its model as the round ends, on its first batch, which counts as one gradient. Momentum restarts after each aggregate
step.

Pitfalls: step lam / (N p) > 1 moves models beyond the mean. FedRep's repository counts the first client twice in x-bar
and uses 1 - p for p. The global model x-bar moves with local steps that the server has not seen.

Diagnostics: local_steps and exchanges, how often the coin chose a local step and how often models were sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import torch
from pydantic import Field

from engine.channel import KEPT_BY_CLIENT
from engine.core.devices import sent
from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    concat,
    gather,
    lerp,
    scatter,
    take,
)
from engine.core.registry import ALGORITHMS, Options
from engine.core.streams import numpy_stream
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.local import SGD, Trained, local_sgd
from engine.training.roles import PersonalModels


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("step",)

    lam: float = Field(
        1.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Penalty for differing from the mean; larger = more global.",
        json_schema_extra={"tune": (0.01, 10, "log")},
    )
    p: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Chance of a step to the mean; communication is highest near 0.5, 0 = none.",
        json_schema_extra={"tune": (0.05, 0.5, "log")},
    )
    step: float | None = Field(
        None,
        gt=0,
        le=1e6,
        title="α",
        description="Step size of the method; by default local steps have the learning rate.",
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # x-bar of the last participants
    personal_params: ClientParams  # x_i
    level: tuple[int, ...]  # clients whose last step was an aggregate step; empty after a local step


@dataclass
class _Server:
    """The server during a round. Steps to the mean do not change the mean, so several in a row need one exchange."""

    task: Task
    cohort: Cohort
    last: SharedParams  # the aggregate of the last exchange
    is_known: tuple[bool, ...]  # for each step, whether the one before went to the same mean
    exchanges: int = 0

    def mean(self, x: ClientParams, step: int) -> SharedParams:
        """The mean that aggregate step ``step`` goes to."""
        channel, weights = self.task.channel, self.cohort.uniform
        if self.is_known[step]:
            return channel.peek(self.last, x, weights)
        self.exchanges += 1
        self.last = channel.aggregate(x, self.last, self.cohort, weights)
        return self.last


@ALGORITHMS.register(
    "l2gd",
    title="L2GD",
    paper="Hanzely, Richtárik, 2020",
    family="Regularized toward a shared model",
    style=Style(hue="teal", dash="dash", symbol="triangle-left"),
    privacy=("sample",),
    at_evaluation=(),
)
@dataclass(frozen=True)
class L2gd(PersonalModels):
    no_feedback: ClassVar[str] = KEPT_BY_CLIENT

    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if h.p == 0 or h.lam == 0:
            name = "p" if h.p == 0 else "lam"
            task.note(f"l2gd with {name}=0: models are never drawn together, each client trains alone")
        elif (pull := self._rates(task, task.num_clients)[1]) > 1:
            task.note(f"l2gd: an aggregate step of {pull:.3g} overshoots the mean; lower lam or step, or raise p")
        return State(task.initial_model(), task.initial_clients(), tuple(range(task.num_clients)))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        clients, coins = tuple(sorted(cohort.client_ids)), self._coins(task, cohort)
        start, rates = gather(state.personal_params, cohort.clients), self._rates(task, task.num_clients)
        server = _Server(task, cohort, state.global_params, (state.level == clients, *coins))
        x = self._walk(task, start, cohort, coins, rates, server.mean)
        new = State(
            task.channel.peek(server.last, x.params, cohort.uniform),
            scatter(state.personal_params, x.params, cohort.clients),
            clients if coins[-1] else (),
        )
        shared, times = self.shared(state), server.exchanges * cohort.size
        return new, Diagnostics(
            x.loss,
            x.gradient_evaluations,
            {"local_steps": coins.count(False), "exchanges": server.exchanges},
            bytes_up=times * shared.bytes_up,
            bytes_down=times * shared.bytes_down,
        )

    def _coins(self, task: Task, cohort: Cohort) -> tuple[bool, ...]:
        """For each step of the longest local training, whether it is an aggregate step."""
        drawn = numpy_stream(task.seed, "l2gd", cohort.stream, cohort.round).random(cohort.plan.num_steps)
        return tuple((drawn < self.hparams.p).tolist())

    def _rates(self, task: Task, num_clients: int) -> tuple[float, float]:
        """The size of a local step, and the share of the way to the mean that an aggregate step goes."""
        h = self.hparams
        local = task.training.lr if h.step is None else h.step / (num_clients * (1 - h.p))
        return local, local * (1 - h.p) * h.lam / h.p if h.p else 0.0

    def _walk(
        self,
        task: Task,
        x: ClientParams,
        cohort: Cohort,
        coins: tuple[bool, ...],
        rates: tuple[float, float],
        mean: Callable[[ClientParams, int], SharedParams],
        is_alone: bool = False,
    ) -> Trained:
        """The steps of a round, in stretches of equal coins; clients without batches left still average.

        ``mean(x, step)``: the mean that an aggregate step goes to. ``is_alone``: each client stops when its own batches
        are used up.
        """
        lr, pull = rates
        loss, cost, begin = torch.zeros(cohort.size, dtype=task.dtype, device=task.device), 0, 0
        for is_mean, stretch in groupby(coins):
            end = begin + len(list(stretch))
            if is_mean:
                for step in range(begin, end):
                    live = cohort.plan.live(step) if is_alone else cohort.size
                    pulled = lerp(take(x, slice(live)), broadcast(mean(x, step), live), pull)
                    x = concat([pulled, take(x, slice(live, None))]) if live < cohort.size else pulled
            else:
                plan = cohort.plan.between(begin, end)
                live = len(plan.steps)
                local = local_sgd(task, take(x, slice(live)), cohort, SGD.of(task, lr), plan=plan)
                x = concat([local.params, take(x, slice(live, None))])
                loss[:live] += local.loss * sent(plan.steps, task.device)
                cost += local.gradient_evaluations
            begin = end
        taken = [coins[:n].count(False) for n in cohort.plan.steps]
        loss /= sent(taken, task.device).clamp(min=1)
        if 0 in taken:  # the last ones, which have the fewest steps
            idle = slice(taken.index(0), cohort.size)
            seen = self._loss_at(task, take(x, idle), cohort, idle)
            loss[idle], cost = seen.loss, cost + seen.gradient_evaluations
        return Trained(x, loss, cost)

    def _loss_at(self, task: Task, x: ClientParams, cohort: Cohort, rows: slice) -> Trained:
        """The loss of participants that took no local step, on their first batch."""
        first = cohort.plan.part(rows.start, rows.stop).between(0, 1)
        return local_sgd(task, x, cohort, SGD.of(task, lr=0.0), plan=first)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        num_clients = len(next(iter(state.personal_params.values())))
        start, coins = broadcast(state.global_params, newcomers.size), self._coins(task, newcomers)
        rates = self._rates(task, num_clients)
        x = self._walk(task, start, newcomers, coins, rates, lambda *_: state.global_params, is_alone=True)
        return Predictor.of_everyone(x.params, newcomers)
