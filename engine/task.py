"""The input of a method: data, model, training settings and random streams. A method changes nothing but its notes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from engine.backends import Backend, Extras, Objective
from engine.backends.step_graphs import StepGraphs
from engine.channel import Channel
from engine.channel.plain_channel import PlainChannel
from engine.config.options import Training
from engine.core.client_rows import RowMemory, for_clients
from engine.core.devices import sent
from engine.core.lockstep import Lockstep
from engine.core.params import ClientParams, SharedParams, gather
from engine.core.streams import cohort_of_round, numpy_stream, poisson_cohort
from engine.federation.augmentation import CropFlip
from engine.federation.batches import (
    Batch,
    BatchRequest,
    Cohort,
    Plan,
    make_plan,
    make_plans,
    num_local_steps,
    poisson_plan,
)
from engine.federation.clients import Federation
from engine.federation.systems import Systems
from engine.models import Model

Forward = Callable[[SharedParams, Tensor], Tensor]
"""(parameters of one client, x [B, ...]) -> logits [B, C]."""


@dataclass(frozen=True)
class Predictor:
    """A model, or one for each client, and how it computes logits.

    ``forward`` replaces the task's model for methods with other predictions (conditions, prototypes). It depends on
    the parameters only, so that stored parameters give the same predictions.
    """

    params: ClientParams | SharedParams
    is_per_client: bool
    forward: Forward | None = None
    clients: Int[Tensor, "n"] | None = None  # ascending: the clients whose models the rows are, if not all

    @classmethod
    def of_everyone(cls, rows: ClientParams, everyone: Cohort) -> "Predictor":
        """A model for each client of ``Task.everyone``, from rows in the order of that cohort."""
        order = everyone.clients.argsort()
        ids = everyone.clients[order]
        is_all = len(ids) == 0 or int(ids[-1]) == len(ids) - 1
        return cls(gather(rows, order), is_per_client=True, clients=None if is_all else ids)

    def of_client(self, client: int) -> SharedParams:
        if not self.is_per_client:
            return self.params
        row = client if self.clients is None else int(torch.searchsorted(self.clients, client))
        return {n: p[row] for n, p in self.params.items()}

    def of_clients(self, clients: Int[Tensor, "A"]) -> ClientParams:
        """The models of some clients, one for each, as copies."""
        rows = clients if self.clients is None else torch.searchsorted(self.clients, clients)
        return {n: p[rows] for n, p in self.params.items()}


@dataclass(frozen=True)
class Diagnostics:
    """The results of a round in addition to the new state."""

    train_loss: Tensor  # [S] of the participants, in cohort order
    gradient_evaluations: int  # gradients of single samples, over the cohort
    values: dict[str, float | Tensor] = field(default_factory=dict)  # what else to record, by name
    clusters: Int[Tensor, "N"] | None = None
    cohort: Cohort | None = None  # the participants, if these are not the round's cohort
    bytes_up: int | None = None  # if the sent bytes depend on the round; else computed from ``shared``
    bytes_down: int | None = None
    extra_bytes_up: int = 0  # of models that are sent in addition, and not through the channel
    extra_bytes_down: int = 0


@dataclass(frozen=True)
class Shared:
    """The models sent between the server and one participant in a round; their sizes are counted."""

    down: tuple[SharedParams, ...] = ()
    up: tuple[SharedParams, ...] = ()

    @property
    def bytes_down(self) -> int:
        return sum(p.nbytes for params in self.down for p in params.values())

    @property
    def bytes_up(self) -> int:
        return sum(p.nbytes for params in self.up for p in params.values())


@dataclass(frozen=True)
class Task:
    """One run's federation, model and training settings."""

    data: Federation
    model: Model
    training: Training
    backend: Backend
    seed: int
    device: torch.device
    dtype: torch.dtype
    tick: Callable[[], None] = lambda: None  # called in every local step: cancellation and pause
    notes: list[str] = field(default_factory=list)
    fitting: dict[int, int] = field(default_factory=dict)  # batch bytes -> clients that a full GPU trains together
    evaluated: Int[Tensor, "n"] | None = None  # ascending: the clients whose models are evaluated, if not all
    memory: RowMemory = field(default_factory=RowMemory)  # of the state by client, where it is large
    channel: Channel = field(default_factory=PlainChannel)  # between uploads and the server
    systems: Systems | None = None  # the clients' devices, where they are simulated
    unprotected_backend: Backend | None = None  # ``backend`` without privacy, where that protects uploads only
    is_poisson: bool = False  # participants are drawn independently, so their number varies
    draws_samples: bool = False  # so are the samples of a batch
    graphs: StepGraphs | None = None  # repeat local steps, on a GPU and on request
    lockstep: Lockstep | None = None  # with the runs of other seeds that are trained together

    @property
    def num_clients(self) -> int:
        return self.data.num_clients

    @property
    def without_upload_privacy(self) -> "Task":
        """This task without the clipping and noise of private samples, for models that no upload depends on.

        With ``privacy.covers: all`` these models are protected, too: the task itself.
        """
        if self.unprotected_backend is None:
            return self
        return replace(self, backend=self.unprotected_backend, unprotected_backend=None)

    @cached_property
    def train_sizes(self) -> tuple[int, ...]:
        return tuple(self.data.train.sizes.tolist())

    @cached_property
    def weights(self) -> Tensor:
        """m_i / m of all clients."""
        sizes = self.data.train.sizes.to(self.dtype)
        return sizes / sizes.sum()

    @cached_property
    def feature_width(self) -> int:
        """F, the number of features that the body has for a sample."""
        sample = self.data.train.features(torch.zeros(1, dtype=torch.int64, device=self.device))
        return int(self.model.features(self.initial_model(), sample).shape[-1])

    def initial_model(self, which: int = 0) -> SharedParams:
        """The common initial model (0), or an independent draw."""
        drawn = self.model.initial(self.seed, which)
        return {n: p.to(self.device, self.dtype) for n, p in drawn.items()}

    def initial_clients(self) -> ClientParams:
        """The initial model for every client."""
        return self.for_clients(self.initial_model())

    def for_clients(self, start: SharedParams) -> ClientParams:
        """State by client [N, ...] that begins as ``start``; large state only has the rows that are touched."""
        return for_clients(start, self.num_clients, self.memory)

    def grad(
        self,
        params: ClientParams,
        batch: Batch,
        trained: Sequence[str] | None = None,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> tuple[Tensor, ClientParams]:
        """Each client's data loss on its batch, and the gradient by the ``trained`` parameters (all by default)."""
        gradient = {n: torch.empty_like(params[n]) for n in (params if trained is None else trained)}
        return self.backend.accumulate(gradient, params, batch, 1.0, 0.0, objective, extras), gradient

    def of_unseen(self) -> "Task | None":
        """The same task on the clients that never train; None if none are held out."""
        return None if self.data.unseen is None else replace(self, data=self.data.unseen, evaluated=None, systems=None)

    def note(self, message: str) -> None:
        """Add a note for readers of the results, shown once with the run."""
        if message not in self.notes:
            self.notes.append(message)

    def cohort(self, round: int) -> Cohort:
        """The participants of a round and their batches: the same for every method of the experiment."""
        return self.cohort_of(self.participants(round), round)

    def participants(self, round: int) -> list[int]:
        """The clients that participate in a round, without batches."""
        drawn = self._drawn(round)
        if not len(drawn):
            drawn = numpy_stream(self.seed, "sampled", round, "instead").integers(self.num_clients, size=1)
        chosen: list[int] = drawn.tolist()
        return chosen

    def is_empty_draw(self, round: int) -> bool:
        """Whether no client was drawn. One trains all the same, but its update counts as 0."""
        return not len(self._drawn(round))

    def _drawn(self, round: int) -> np.ndarray:
        share = self.training.participation
        if self.systems is not None:
            return self.systems.sampled(round, share, self.is_poisson)
        draw = poisson_cohort if self.is_poisson else cohort_of_round
        return draw(self.seed, round, self.num_clients, share)

    def everyone(self, round: int = 0, stream: str = "batches", steps: int | None = None) -> Cohort:
        """All clients whose models are evaluated, for adaptation outside the rounds."""
        clients = range(self.num_clients) if self.evaluated is None else self.evaluated.tolist()
        return self.cohort_of(list(clients), round, stream, steps)

    def cohort_of(self, clients: list[int], round: int, stream: str = "batches", steps: int | None = None) -> Cohort:
        """Given clients, ordered by their number of local steps, with ``steps`` or the training's own."""
        training = self.training
        local = {
            c: steps
            if steps is not None
            else num_local_steps(self.train_sizes[c], training.batch_size, training.local_steps, training.local_epochs)
            for c in clients
        }
        return self._cohort(local, round, stream)

    def _cohort(self, steps: dict[int, int], round: int, stream: str) -> Cohort:
        """The cohort of clients with given numbers of steps."""
        ordered = sorted(steps, key=lambda c: (-steps[c], c))
        ids = sent(ordered, self.device)
        sizes = self.data.train.sizes[ids].to(self.dtype)
        plan = self._plan(ids, ordered, [steps[c] for c in ordered], stream, round)
        return Cohort(round, ids, tuple(ordered), sizes / sizes.sum(), plan, stream)

    def passes(self, clients: Sequence[int], round: int, stream: str, share: float = 1.0) -> Cohort:
        """The same clients, each with the first ceil(share n_i) of the n_i batches of one pass over its data.

        Their order is that of their own numbers of steps, which may differ from that of a round's cohort. Batches are
        not augmented.
        """
        size = self.training.batch_size
        whole = {c: num_local_steps(self.train_sizes[c], size, None, 1) for c in clients}
        made = self._cohort({c: max(1, math.ceil(share * n - 1e-9)) for c, n in whole.items()}, round, stream)
        return replace(made, plan=replace(made.plan, augmentation=None))

    def plan(self, cohort: Cohort, stream: str, steps: int) -> Plan:
        """Extra batches for the same participants from a separate stream, ``steps`` for each."""
        return self._plan(cohort.clients, cohort.client_ids, [steps] * cohort.size, stream, cohort.round)

    def steps(self, plans: Sequence[Plan]) -> Iterator[tuple[Batch, ...]]:
        """Yields the batches of each local step, one of each plan."""
        return zip(*(plan.batches(self.data.train) for plan in plans), strict=True)

    def same_batches(self, cohort: Cohort, steps: int | str) -> Plan:
        """The first ``steps`` batches of the cohort's stream; ``"training"`` takes its existing plan."""
        if isinstance(steps, str) or steps == self.training.local_steps:
            return cohort.plan
        return self.plan(cohort, cohort.stream, steps)

    def _plan(self, ids: Tensor, clients: Sequence[int], steps: list[int], stream: str, round: int) -> Plan:
        sizes, starts, training = [self.train_sizes[c] for c in clients], self.data.train.offsets[ids], self.training
        if self.draws_samples:
            size = int(training.batch_size)
            plan = poisson_plan(sizes, starts, clients, steps, size, self.seed, stream, round)
        else:
            request = BatchRequest(sizes, starts, ids, steps, training.batch_size, self.seed, stream, round)
            if self.lockstep is None:
                plan = make_plan(request)
            else:
                plan = self.lockstep.meet(("plan", training.batch_size), request, make_plans)
        if training.augmentation == "none":
            return plan
        return replace(plan, augmentation=CropFlip(self.seed, stream, round, ids))

    @property
    def num_pooled_samples(self) -> int:
        """m, training samples over all clients."""
        return sum(self.train_sizes)
