"""Perturbations of one client's parameters by the papers' definitions, without the engine."""

import math

from tests.support.one_client import Params


def layers_of(params: Params) -> list[tuple[str, str]]:
    return [(f"{n}.weight", f"{n}.bias") for n in (m.removesuffix(".weight") for m in params if m.endswith(".weight"))]


def scores_of(theta: Params, w: Params) -> list[float]:
    """Equation 6 for the tensors in ``theta``, normalized."""
    far = [
        math.sqrt(sum(float(((theta[n] - w[n]) ** 2).sum()) for n in names)) / sum(w[n].numel() for n in names)
        for names in layers_of(theta)
    ]
    return [f / sum(far) for f in far] if sum(far) else [1 / len(far)] * len(far)


def perturbation(g: Params, scores: list[float], rho: float, p: float) -> Params:
    """Equation 5, except for the exponent."""
    q = 1 / (1 - 1 / p)
    norm = sum((t.abs() ** q).sum() for t in g.values()) ** (1 / p)
    score_of = {n: s for names, s in zip(layers_of(g), scores, strict=True) for n in names}
    return {n: rho * score_of[n] * t.sign() * t.abs() ** (q - 1) / norm for n, t in g.items()}
