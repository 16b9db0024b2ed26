"""Local training of the clients of a cohort, all of them at once.

``for_each_client`` runs a method's own step on every batch; ``local_sgd`` and ``moreau_sgd`` are the loops that many
methods share. The cohort runs in chunks that fit the cache; inside a chunk, step t touches only the clients that still
train (views of the first rows).
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Affine, Extras, Objective
from engine.backends.step_graphs import StepGraphs
from engine.core.devices import sent
from engine.core.params import ClientParams, each, map_params
from engine.core.registry import Options
from engine.federation.batches import Batch, Cohort, Plan
from engine.task import Task
from engine.training import joint_seeds

Proximal = tuple[float | Tensor, ClientParams]
"""(lam, anchor): the term lam/2 ||p - anchor||^2. ``lam`` is a number, or [S], one for each client."""


class Live:
    """The clients that train in this step: ``c.w`` are their rows of the value named w.

    A step changes values of ``start`` in place, and none of ``fixed``.
    """

    def __init__(self, task: Task, begin: int, size: int, chunk: "_Chunk") -> None:
        self.task = task
        self._rows, self._chunk = slice(begin, begin + size), chunk
        changing = {n: _rows(v, slice(size)) for n, v in chunk.values.items()}
        self._values = changing | {n: _rows(v, self._rows) for n, v in chunk.fixed.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"no value named {name} was given to for_each_client") from None

    @property
    def size(self) -> int:
        return self._rows.stop - self._rows.start

    def velocity(self, name: str) -> ClientParams:
        """The momentum of ``name``: zero at the first step of a client's training."""
        if name not in self._chunk.velocity:
            self._chunk.velocity[name] = map_params(torch.zeros_like, self._values[name])
        velocity: ClientParams = _rows(self._chunk.velocity[name], slice(self.size))
        return velocity


@dataclass(frozen=True)
class Outcome:
    """The result of ``for_each_client``: ``out.w`` of the whole cohort, in its order."""

    values: dict[str, Any]
    loss: Float[Tensor, "S"]  # mean over the client's steps

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"no value named {name} was given to for_each_client") from None


def for_each_client(
    task: Task,
    plans: Plan | Sequence[Plan],
    start: Mapping[str, ClientParams | Tensor],
    step: Callable[..., Tensor],
    *,
    fixed: joint_seeds.Values | None = None,
    same: Hashable = None,
    is_repeatable: bool = False,
) -> Outcome:
    """Run ``step(c, batch)`` on every batch of every client, from copies of ``start``.

    ``start`` names what changes, [S, ...]: ``c.w`` are the rows of "w" of the clients that train in this step, and
    ``step`` writes them in place. ``fixed`` names what it only reads, in the same way. ``step`` returns their losses,
    which are averaged over each client's steps. With several plans of the same steps it gets a batch of each:
    ``step(c, first, second)``. The result is the same for any size of the chunks; one that does not fit the memory of a
    GPU is halved.

    With the key ``same``, runs that differ only in their seeds train at once (``seeds_together``). Two runs may have
    equal keys only if their steps compute the same, from no tensors but those of ``c`` and of the batches. Without it
    each run trains alone.

    ``is_repeatable`` promises that for batches of equal shapes ``step`` does the same operations on the same tensors,
    uses only ``x``, ``y`` and ``weight`` of a batch, and reads no value back to the host. A GPU may then replay a step
    without calling it.
    """
    plans, fixed = [plans] if isinstance(plans, Plan) else list(plans), fixed or {}
    assert not start.keys() & fixed.keys(), "start and fixed have different names"
    assert all(plan.steps == plans[0].steps for plan in plans), "the plans have the same steps"
    hash(same)  # or it fails only where seeds train together

    def train(task: Task, plans: Sequence[Plan], given: joint_seeds.Values) -> joint_seeds.Values:
        values, loss = _train_cohort(task, plans, given["start"], given["fixed"], step, is_repeatable)
        return {"values": values, "loss": loss}

    given = {"start": start, "fixed": fixed}
    out = train(task, plans, given) if same is None else joint_seeds.train(task, plans, given, train, same)
    return Outcome(out["values"], out["loss"])


def _train_cohort(
    task: Task,
    plans: Sequence[Plan],
    start: joint_seeds.Values,
    fixed: joint_seeds.Values,
    step: Callable[..., Tensor],
    is_repeatable: bool,
) -> tuple[dict[str, Any], Float[Tensor, "S"]]:
    """The values and losses of ``for_each_client``, of one task."""
    model_bytes = task.model.num_parameters * torch.finfo(task.dtype).bits // 8
    extra_bytes = max(0, _bytes_of_client(start) + _bytes_of_client(fixed) - model_bytes)
    count, begin = len(plans[0].steps), 0
    size = even(count, chunk_size(task, plans[0], extra_bytes))
    values = {n: _room_for(v) for n, v in start.items()}
    loss = torch.zeros(count, dtype=task.dtype, device=task.device)
    graphs = task.graphs if is_repeatable and task.backend.is_repeatable else None
    while begin < count:
        end = min(begin + size, count)
        rows = slice(begin, end)
        for n, value in values.items():
            _copy_rows(value, start[n], rows)
        chunk = _Chunk({n: _rows(value, rows) for n, value in values.items()}, fixed, {}, loss[rows])
        undo_counts = task.backend.undo_counts()
        try:
            _train_chunk(task, [plan.part(begin, end) for plan in plans], chunk, step, begin, graphs)
            begin = end
        except torch.OutOfMemoryError:  # of a GPU; a CPU has other errors
            if end - begin == 1:
                raise
            undo_counts()
            half = task.fitting[_batch_bytes(task, plans[0])] = (end - begin) // 2
            size = even(count - begin, half)
    return values, loss


def even(count: int, most: int) -> int:
    """The size of about equal chunks, as few as with ``most`` in each. A small chunk takes more time per client."""
    chunks = -(-count // most)
    return -(-count // max(1, chunks))


def chunk_size(task: Task, plan: Plan, extra_bytes: int = 0) -> int:
    """Clients to train together: the backend's estimate, or less where that did not fit.

    ``extra_bytes``: what the steps of a client use in addition to a model and its batch.
    """
    size = _batch_bytes(task, plan)
    estimate = task.backend.chunk_size(task.model, size, task.device, extra_bytes)
    return min(estimate, task.fitting.get(size, estimate))


def _batch_bytes(task: Task, plan: Plan) -> int:
    """The bytes of a client's batch."""
    return plan.rows.shape[-1] * math.prod(task.data.train.sample_shape) * torch.finfo(task.dtype).bits // 8


@dataclass(frozen=True)
class SGD:
    """p <- p - lr [grad f(p; B) + lam (p - anchor) + weight_decay p + drift].

    With momentum: v <- momentum v + [...], p <- p - lr v, from v = 0 in each local training.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    prox: Proximal | None = None  # anchor [S, ...]
    drift: ClientParams | None = None  # [S, ...]

    @classmethod
    def of(cls, task: Task, lr: float | None = None, **terms: Any) -> "SGD":
        """SGD with the momentum and weight decay of the training settings, and their learning rate unless given."""
        training = task.training
        return cls(training.lr if lr is None else lr, training.momentum, training.weight_decay, **terms)

    def step(
        self,
        c: Live,
        name: str,
        batch: Batch,
        *,
        at: ClientParams | None = None,
        trained: Sequence[str] | None = None,
        prox: tuple[float, ClientParams] | None = None,
        terms: joint_seeds.Values = MappingProxyType({}),
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> Float[Tensor, "A"]:
        """One step of ``c.<name>``, in place; returns the data losses.

        The gradient is taken ``at`` other parameters where these are given, and moves the ``trained`` names alone.
        ``prox`` is a proximal term of this step, for an SGD without one; an SGD with ``prox`` or ``drift`` needs its
        ``terms``. Both have the rows of the clients that still train.
        """
        assert terms or not (self.prox or self.drift), "pass terms=c.terms, with fixed={'terms': sgd.terms}"
        assert prox is None or self.prox is None, "two proximal terms"
        params: ClientParams = getattr(c, name)
        out = params if trained is None else {n: params[n] for n in trained}
        lam, anchor = prox or (self._strength or 0.0, terms.get("anchor"))
        strengths, drift = terms.get("lam"), terms.get("drift")
        where, accumulate = at or params, c.task.backend.accumulate
        if self.momentum:
            velocity = {n: v for n, v in c.velocity(name).items() if n in out}
            loss = accumulate(velocity, where, batch, 1.0, self.momentum, objective, extras)
            for n, p in out.items():
                v = velocity[n].add_(p, alpha=lam + self.weight_decay)
                if anchor is not None and lam:
                    v.add_(anchor[n], alpha=-lam)
                if strengths is not None:
                    v.addcmul_(p, each(strengths, p)).add_(terms["shift"][n], alpha=-1 / self.lr)
                if drift is not None:
                    v.add_(drift[n])
                p.add_(v, alpha=-self.lr)
            return loss
        shrink = 1 - self.lr * (lam + self.weight_decay)
        kept = shrink if strengths is None else Affine(shrink - self.lr * strengths, terms["shift"])
        loss = accumulate(out, where, batch, -self.lr, kept, objective, extras)
        for n, p in out.items():
            if anchor is not None and lam:
                p.add_(anchor[n], alpha=self.lr * lam)
            if drift is not None:
                p.add_(drift[n], alpha=-self.lr)
        return loss

    @property
    def options(self) -> tuple[Any, ...]:
        """Everything but its tensors."""
        return self.lr, self.momentum, self.weight_decay, self._strength

    @property
    def _strength(self) -> float | None:
        """The strength of its proximal term, if that is a number."""
        return self.prox[0] if self.prox and not isinstance(self.prox[0], Tensor) else None

    @property
    def terms(self) -> dict[str, Any]:
        """Tensors [S, ...] by name, which no step changes.

        With a strength for each client, "shift" is lr (lam_i anchor_i - drift_i).
        """
        drift = {"drift": self.drift} if self.drift else {}
        if self.prox is None:
            return drift
        lam, anchor = self.prox
        if not isinstance(lam, Tensor):
            return {"anchor": anchor, **drift}
        shift = {n: p * each(self.lr * lam, p) for n, p in anchor.items()}
        if self.drift:
            shift = {n: p.sub_(self.drift[n], alpha=self.lr) for n, p in shift.items()}
        return {"lam": lam, "shift": shift}

    def step_along(self, c: Live, name: str, gradient: ClientParams, shares: Float[Tensor, "A"] | None = None) -> None:
        """Like ``step``, with a given gradient of ``c.<name>``: p <- p - lr [share gradient + weight_decay p].

        Each client has its own share; 1 without ``shares``.
        """
        params: ClientParams = getattr(c, name)
        velocity = c.velocity(name) if self.momentum else {}
        for n, p in params.items():
            if self.momentum:
                v = _add_shares(velocity[n].mul_(self.momentum), gradient[n], shares, 1.0)
                p.add_(v.add_(p, alpha=self.weight_decay), alpha=-self.lr)
            else:
                if self.weight_decay:
                    p.mul_(1 - self.lr * self.weight_decay)
                _add_shares(p, gradient[n], shares, -self.lr)


def _add_shares(p: Tensor, gradient: Tensor, shares: Tensor | None, alpha: float) -> Tensor:
    """p <- p + alpha share gradient, in one pass."""
    if shares is None:
        return p.add_(gradient, alpha=alpha)
    return p.addcmul_(gradient, each(shares, p), value=alpha)


@dataclass(frozen=True)
class Trained:
    """The result of local training."""

    params: ClientParams  # [S, ...]
    loss: Float[Tensor, "S"]  # data term, mean over the client's steps
    gradient_evaluations: int


def local_sgd(
    task: Task,
    start: ClientParams,
    cohort: Cohort,
    sgd: SGD | None = None,
    *,
    plan: Plan | None = None,
    trained: Sequence[str] | None = None,
    objective: Objective | None = None,
    extras: Extras | None = None,
) -> Trained:
    """SGD on each client's loss over the batches of ``plan``, by default the cohort's.

    ``trained`` names the parameters that move (a body, a head); the others stay. ``extras`` are per-client tensors
    [S, ...] for ``objective``. Without ``sgd`` the training settings decide.
    """
    sgd, plan = sgd or SGD.of(task), plan or cohort.plan

    def step(c: Live, batch: Batch) -> Tensor:
        return sgd.step(c, "w", batch, terms=c.terms, trained=trained, objective=objective, extras=c.extras)

    fixed = {"terms": sgd.terms, "extras": dict(extras or {})}
    same = "sgd", sgd.options, None if trained is None else tuple(trained), joint_seeds.identity(objective)
    out = for_each_client(task, plan, {"w": start}, step, fixed=fixed, same=same, is_repeatable=True)
    return Trained(out.w, out.loss, plan.gradient_evaluations)


class MoreauOptions(Options):
    """Options of the methods that train by ``moreau_sgd``.

    Their learning rate acts only as lr lam, the outer share. If both were drawn independently, many draws would
    overshoot, so the search space of the rate is the space of the product.
    """

    lr_space: ClassVar[tuple[float, float, str] | None] = (0.01, 1, "log")

    def from_draw(self, draw: dict[str, Any]) -> dict[str, Any]:
        lam = draw.get("lam", getattr(self, "lam", 1.0))
        return draw | {"training.lr": draw["training.lr"] / lam} if lam and "training.lr" in draw else draw


def moreau_sgd(
    task: Task,
    start: ClientParams,
    cohort: Cohort,
    *,
    lam: float,
    inner_steps: int,
    personal_lr: float,
    outer_share: float,
) -> tuple[Trained, ClientParams]:
    """The nested loop of pFedMe (Algorithm 1) and CGPFL (Algorithm 1, lines 6-11), both models from ``start``.

    For each batch: ``inner_steps`` times theta <- theta - personal_lr [grad f(theta; B) + lam (theta - w)], warm across
    batches, then w <- w - outer_share (w - theta). Returns theta (with its losses) and w.
    """
    sgd = SGD.of(task, personal_lr)

    def step(c: Live, batch: Batch) -> Tensor:
        if sgd.momentum or sgd.weight_decay:
            losses = [sgd.step(c, "theta", batch, prox=(lam, c.w)) for _ in range(inner_steps)]
            loss = torch.stack(losses).mean(0)
        else:
            loss = c.task.backend.proximal_steps(c.theta, c.w, batch, personal_lr, lam, inner_steps)
        for name, w in c.w.items():
            w.lerp_(c.theta[name], outer_share)
        return loss

    same = "moreau", sgd.options, lam, inner_steps, outer_share
    out = for_each_client(task, cohort.plan, {"theta": start, "w": start}, step, same=same, is_repeatable=True)
    return Trained(out.theta, out.loss, cohort.plan.gradient_evaluations * inner_steps), out.w


@dataclass(frozen=True)
class _Chunk:
    """The values of clients that are computed at once, as views of the cohort's."""

    values: dict[str, Any]
    fixed: joint_seeds.Values  # of the whole cohort
    velocity: dict[str, ClientParams]
    loss: Float[Tensor, "S"]


def _train_chunk(
    task: Task,
    plans: Sequence[Plan],
    chunk: _Chunk,
    step: Callable[..., Tensor],
    begin: int,
    graphs: StepGraphs | None,
) -> None:
    """All steps of a chunk's clients, the first of which is the cohort's client ``begin``."""
    chunk.loss.zero_()
    c = Live(task, begin, len(chunk.loss), chunk)

    def train(*batches: Batch) -> None:
        chunk.loss[: c.size].add_(step(c, *batches))

    run = train if graphs is None else graphs.repeated(train, plans)
    for batches in task.steps(plans):
        task.tick()
        if batches[0].size != c.size:
            c = Live(task, begin, batches[0].size, chunk)
        run(*batches)
    chunk.loss.div_(sent(plans[0].steps, task.device))
    if graphs is not None and graphs.failure:
        task.note(f"cuda_graphs is off for the rest of the run: a step could not be recorded ({graphs.failure})")


def _rows(value: Any, rows: slice) -> Any:
    """These rows of a tensor, or of all tensors of a dict of them."""
    return value[rows] if isinstance(value, Tensor) else {n: _rows(v, rows) for n, v in value.items()}


def _bytes_of_client(value: Any) -> int:
    """The bytes of one row of a tensor, or of all tensors of a dict of them."""
    if isinstance(value, Tensor):
        return value.nbytes // max(1, len(value))
    return sum(map(_bytes_of_client, value.values()))


def _room_for(value: Any) -> Any:
    """Uninitialized memory of the shape of ``value``."""
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=value.device)
    return map_params(_room_for, value)


def _copy_rows(target: Any, source: Any, rows: slice) -> None:
    if isinstance(target, Tensor):
        target[rows].copy_(source[rows])
    else:
        for n, p in target.items():
            p[rows].copy_(source[n][rows])
