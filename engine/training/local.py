"""Every local loop of the papers, for a whole cohort at once.

Each loop takes the cohort's stacked start ``[S, ...]`` and gives back new tensors. The cohort runs in chunks that fit
the cache; inside a chunk, step t touches only the clients that still train (views of the first rows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from engine.backends import Extras, Objective, gram
from engine.core.params import ClientParams, clone, concat, take
from engine.federation.batches import Batch, Cohort, Plan
from engine.task import Task


@dataclass(frozen=True)
class Trained:
    """Where local training ended."""

    params: ClientParams  # [S, ...]
    loss: Float[Tensor, "S"]  # data term, mean over the client's steps
    gradient_evaluations: int


def local_sgd(
    task: Task,
    start: ClientParams,
    cohort: Cohort,
    *,
    lr: float | None = None,
    plan: Plan | None = None,
    prox: tuple[float, ClientParams] | None = None,
    drift: ClientParams | None = None,
    trained: Sequence[str] | None = None,
    objective: Objective | None = None,
    extras: Extras | None = None,
) -> Trained:
    """SGD on each client's loss over its batches.

    p <- p - lr [grad f(p; B) + lam (p - anchor) + drift], with ``prox=(lam, anchor)`` and a constant ``drift``
    [S, ...]. ``trained`` names the parameters that move (a body, a head); the others stay. ``extras`` are per-client
    tensors [S, ...] for ``objective``. Momentum, which starts at rest, and weight decay come from
    the training settings.
    """
    rate = task.training.lr if lr is None else lr
    plan = plan or cohort.plan
    names = tuple(start) if trained is None else tuple(trained)

    def chunk(rows: slice, part: Plan) -> tuple[list[ClientParams], Tensor]:
        params = clone(take(start, rows))
        anchor = take(prox[1], rows) if prox else None
        step = Step(task, rate, prox[0] if prox else 0.0, {n: params[n] for n in names})
        own, fixed = take(dict(extras or {}), rows), take(drift, rows) if drift else None

        def on_batch(live: slice, batch: Batch) -> Tensor:
            out = {n: params[n][live] for n in names}
            return step(out, take(params, live), batch, live, anchor, fixed, objective, take(own, live))

        return [params], mean_loss(task, part, on_batch)

    (params,), loss = in_chunks(task, plan, chunk)
    return Trained(params, loss, plan.gradient_evaluations)


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
    on_logits = gram.applies(task.backend, task.training, cohort.plan.rows.shape[-1], inner_steps)

    def chunk(rows: slice, part: Plan) -> tuple[list[ClientParams], Tensor]:
        theta, w = clone(take(start, rows)), clone(take(start, rows))
        step = Step(task, personal_lr, lam, theta)

        def on_batch(live: slice, batch: Batch) -> Tensor:
            personal, local = take(theta, live), take(w, live)
            if on_logits:
                layer = next(iter(personal)).rpartition(".")[0]
                loss = gram.proximal_steps(layer, personal, local, batch, personal_lr, lam, inner_steps)
            else:
                loss = torch.stack([step(personal, personal, batch, live, w) for _ in range(inner_steps)]).mean(0)
            for name, p in local.items():
                p.lerp_(personal[name], outer_share)
            return loss

        return [theta, w], mean_loss(task, part, on_batch)

    (theta, w), loss = in_chunks(task, cohort.plan, chunk)
    return Trained(theta, loss, cohort.plan.gradient_evaluations * inner_steps), w


def in_chunks(
    task: Task, plan: Plan, train: Callable[[slice, Plan], tuple[list[ClientParams], Tensor]]
) -> tuple[list[ClientParams], Tensor]:
    """Run ``train`` on slices of the cohort and put the pieces together. The result is the same for any chunk size."""
    size = chunk_size(task, plan)
    pieces = []
    for begin in range(0, len(plan.steps), size):
        rows = slice(begin, min(begin + size, len(plan.steps)))
        pieces.append(train(rows, plan.part(rows.start, rows.stop)))
    models = [concat([models[i] for models, _ in pieces]) for i in range(len(pieces[0][0]))]
    return models, torch.cat([loss for _, loss in pieces])


def chunk_size(task: Task, plan: Plan) -> int:
    """Clients to train together."""
    sample = task.data.train.x[:1].numel() * torch.finfo(task.dtype).bits // 8
    return task.backend.chunk_size(task.model, plan.rows.shape[-1] * sample, task.device)


def mean_loss(task: Task, plan: Plan, on_batch: Callable[[slice, Batch], Tensor]) -> Tensor:
    """Walk the batches and average each client's losses over its own steps."""
    total = torch.zeros(len(plan.steps), dtype=task.dtype, device=task.device)
    for batch in plan.batches(task.data.train):
        task.tick()
        live = slice(0, batch.size)
        total[live] += on_batch(live, batch)
    return total / torch.tensor(plan.steps, device=task.device)


class Step:
    """One SGD step on stacked parameters, in place: p <- p - lr [grad + lam (p - anchor) + weight_decay p + drift].

    ``out`` moves; the gradient is taken at ``params``, which may be ``out`` itself or a point beside it.
    """

    def __init__(self, task: Task, lr: float, lam: float, trained: ClientParams) -> None:
        self.task, self.lr, self.lam = task, lr, lam
        self.decay = task.training.weight_decay
        self.momentum = task.training.momentum
        self.velocity = {n: torch.zeros_like(p) for n, p in trained.items()} if self.momentum else None

    def __call__(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        live: slice,
        anchor: ClientParams | None = None,
        drift: ClientParams | None = None,
        objective: Objective | None = None,
        extras: Extras | None = None,
    ) -> Tensor:
        if self.velocity is not None:
            return self._with_momentum(out, params, batch, live, anchor, drift, objective, extras)
        shrink = 1 - self.lr * (self.lam + self.decay)
        loss = self.task.backend.accumulate(out, params, batch, -self.lr, shrink, objective, extras)
        for name, p in out.items():
            if anchor is not None and self.lam:
                p.add_(anchor[name][live], alpha=self.lr * self.lam)
            if drift is not None:
                p.add_(drift[name][live], alpha=-self.lr)
        return loss

    def along(self, out: ClientParams, gradient: ClientParams) -> None:
        """The same step where the gradient is known already: p <- p - lr [gradient + weight_decay p]."""
        for name, p in out.items():
            slope = gradient[name]
            if self.velocity is not None:
                slope = self.velocity[name][: len(p)].mul_(self.momentum).add_(slope).add_(p, alpha=self.decay)
                p.add_(slope, alpha=-self.lr)
            else:
                p.mul_(1 - self.lr * self.decay).add_(slope, alpha=-self.lr)

    def _with_momentum(
        self,
        out: ClientParams,
        params: ClientParams,
        batch: Batch,
        live: slice,
        anchor: ClientParams | None,
        drift: ClientParams | None,
        objective: Objective | None,
        extras: Extras | None,
    ) -> Tensor:
        """v <- momentum v + (whole gradient); p <- p - lr v."""
        assert self.velocity is not None
        velocity = take(self.velocity, live)
        loss = self.task.backend.accumulate(velocity, params, batch, 1.0, self.momentum, objective, extras)
        for name, p in out.items():
            v = velocity[name]
            v.add_(p, alpha=self.lam + self.decay)
            if anchor is not None and self.lam:
                v.add_(anchor[name][live], alpha=-self.lam)
            if drift is not None:
                v.add_(drift[name][live])
            p.add_(v, alpha=-self.lr)
        return loss
