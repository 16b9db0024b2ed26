"""Sharpness-aware steps: gradients taken at a point uphill, with one radius for the model or one for each layer.

SAM (Foret, Kleiner, Mobahi, Neyshabur, ICLR 2021) perturbs by eps = rho g/||g||. LWSAM (PLGU, Qu et al., CVPR 2023,
equations 4-6) scales that by a score of each layer, and allows other norms than p = 2:

    xi_l  <- ||theta_l - w_l|| / dim(w_l), normalized to sum_l xi_l = 1
    eps_l <- rho xi_l sign(g_l) |g_l|^(q-1) / (||g||_q^q)^(1/p)         1/p + 1/q = 1

The paper prints the exponent p-1 in place of 1/p. Only 1/p gives SAM's rho g/||g|| at p = q = 2, and the paper's own
equation 24 has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from engine.core.params import ClientParams, each, map_params
from engine.federation.batches import Batch, Cohort, Plan
from engine.task import Task
from engine.training.local import SGD, Live, Trained, for_each_client

Layers = Sequence[Sequence[str]]  # the names of each layer's parameters


@dataclass(frozen=True)
class Climb:
    """eps = length_n direction_n of each client, kept as these factors until it is added."""

    direction: ClientParams
    length: dict[str, Float[Tensor, "S"]]  # by name

    @property
    def eps(self) -> ClientParams:
        return {n: d * each(self.length[n], d) for n, d in self.direction.items()}

    def beyond(self, params: ClientParams) -> ClientParams:
        """params + eps, for the names of eps."""
        return {n: torch.addcmul(params[n], d, each(self.length[n], d)) for n, d in self.direction.items()}


def uphill(gradient: ClientParams, rho: float, p: float = 2.0) -> Climb:
    """eps of length rho (in the p-norm) along which each client's loss rises fastest; 0 where its gradient is 0."""
    q = p / (p - 1)
    unit = gradient if p == 2 else _in_unit_range(gradient)
    norm = _norm(unit, q)
    length = rho / norm.where(norm != 0, 1.0).pow(q - 1)  # (||g||_q^q)^(1/p) is ||g||_q^(q-1)
    steep = unit if p == 2 else map_params(lambda u: u.sign().mul_(u.abs().pow_(q - 1)), unit)
    return Climb(steep, dict.fromkeys(steep, length))


def uphill_by_layer(
    gradient: ClientParams, scores: Float[Tensor, "S L"], layers: Layers, rho: float, p: float = 2.0
) -> Climb:
    """LWSAM's eps: each layer's part of ``uphill`` times the layer's score."""
    whole = uphill(gradient, rho, p)
    names = [(n, i) for i, layer in enumerate(layers) for n in layer if n in gradient]
    return Climb(whole.direction, {n: whole.length[n] * scores[:, i] for n, i in names})


def layer_scores(theta: ClientParams, w: ClientParams, layers: Layers) -> Float[Tensor, "S L"]:
    """How far each layer is from the shared model's, per parameter, as shares of 1; equal where nothing differs."""
    columns = []
    for names in layers:
        squares = torch.stack([(theta[n] - w[n]).flatten(1).square().sum(1) for n in names]).sum(0)
        columns.append(squares.sqrt() / sum(w[n][0].numel() for n in names))
    scores = torch.stack(columns, dim=1)
    total = scores.sum(1, keepdim=True)
    return torch.where(total == 0, 1 / len(layers), scores / total.where(total != 0, 1.0))


def most_personal(scores: Float[Tensor, "S L"], count: int) -> Float[Tensor, "S L"]:
    """1 for the ``count`` layers of each client with the largest scores, the first of equals; else 0."""
    chosen = scores.sort(dim=1, descending=True, stable=True).indices[:, :count]
    return torch.zeros_like(scores).scatter(1, chosen, 1.0)


def select_layers(kept: Float[Tensor, "S L"], own: ClientParams, shared: ClientParams, layers: Layers) -> ClientParams:
    """Each client's own tensors in the layers it keeps, the shared ones elsewhere."""
    return {n: own[n].where(each(kept[:, i], own[n]) > 0, shared[n]) for i, names in enumerate(layers) for n in names}


def sam_sgd(task: Task, start: ClientParams, cohort: Cohort, rho: float) -> Trained:
    """w <- w - lr grad f(w + rho g/||g||; B), where g = grad f(w; B) is of the same batch. Two gradients a step."""
    sgd = SGD.of(task)

    def step(c: Live, batch: Batch) -> Tensor:
        loss, g = c.task.grad(c.w, batch)
        sgd.step(c, "w", batch, at=uphill(g, rho).beyond(c.w))
        return loss

    out = for_each_client(task, cohort.plan, {"w": start}, step, same=("sam", sgd.options, rho))
    return Trained(out.w, out.loss, 2 * cohort.plan.gradient_evaluations)


def lwsam_pair(
    task: Task,
    theta: ClientParams,
    w: ClientParams,
    cohort: Cohort,
    *,
    scores: Float[Tensor, "S L"],
    rho: float,
    p: float,
    after_step: bool,
) -> tuple[Trained, ClientParams]:
    """Algorithm 1 of PLGU (Qu et al., CVPR 2023): theta by SGD, w along theta's perturbed gradient of the same batch.

    For each batch: g = grad f(theta), eps by ``scores``, g~ = grad f(theta + eps); theta <- theta - lr g,
    w <- w - lr g~. ``after_step`` computes g~ at the updated theta. Returns theta (with its losses) and w.
    """
    sgd, layers = SGD.of(task), task.model.layers

    def step(c: Live, batch: Batch) -> Tensor:
        loss, g = c.task.grad(c.theta, batch)
        climb = uphill_by_layer(g, c.scores, layers, rho, p)
        if after_step:
            sgd.step_along(c, "theta", g)
        sgd.step(c, "w", batch, at=climb.beyond(c.theta))
        if not after_step:
            sgd.step_along(c, "theta", g)
        return loss

    same = "lwsam pair", sgd.options, rho, p, after_step
    out = for_each_client(task, cohort.plan, {"theta": theta, "w": w}, step, fixed={"scores": scores}, same=same)
    return Trained(out.theta, out.loss, 2 * cohort.plan.gradient_evaluations), out.w


def lwsam_two_steps(
    task: Task, start: ClientParams, plan: Plan, *, body: Sequence[str], layers: Layers, rho: float, p: float
) -> tuple[Trained, Float[Tensor, "S L"]]:
    """Equations 10-13 of PLGU (Qu et al.) on one batch: a plain step of the body phi, then one along g~.

    phi_i = phi - lr grad f(phi); scores of ||phi_i - phi||; eps from g = grad f(phi_i), of the body alone;
    phi~_i = phi_i - lr grad f(phi_i + eps). The other parameters stay. The loss is the mean over both steps.
    Returns the trained parameters and the scores.
    """
    sgd, no_scores = SGD.of(task), torch.zeros(len(plan.steps), len(layers), dtype=task.dtype, device=task.device)

    def step(c: Live, batch: Batch) -> Tensor:
        before = sgd.step(c, "w", batch, trained=body)
        c.scores.copy_(layer_scores(c.w, c.start, layers))
        after, g = c.task.grad(c.w, batch, body)
        climb = uphill_by_layer(g, c.scores, layers, rho, p)
        sgd.step(c, "w", batch, trained=body, at=c.w | climb.beyond(c.w))
        return (before + after) / 2

    same = "lwsam two steps", sgd.options, tuple(body), tuple(map(tuple, layers)), rho, p
    out = for_each_client(task, plan, {"w": start, "scores": no_scores}, step, fixed={"start": start}, same=same)
    return Trained(out.w, out.loss, 3 * plan.gradient_evaluations), out.scores


def _norm(params: ClientParams, order: float) -> Float[Tensor, "S"]:
    """The norm of each client's parameters, all of them together."""
    parts = [torch.linalg.vector_norm(p.flatten(1), order, dim=1) for p in params.values()]
    return torch.linalg.vector_norm(torch.stack(parts), order, dim=0)


def _in_unit_range(gradient: ClientParams) -> ClientParams:
    """Gradients over their largest entry, which cancels in ``uphill``: no power of them over- or underflows."""
    largest = torch.stack([g.abs().flatten(1).amax(1) for g in gradient.values()]).amax(0)
    scale = largest.where(largest != 0, 1.0)
    return map_params(lambda g: g / each(scale, g), gradient)
