"""A hypernetwork and its derivatives with plain autograd, one client at a time."""

import torch

from tests.support.one_client import Params

NETWORK = {"name": "dnn", "hidden": 4}
SMALL = {"hidden": 5, "hidden_layers": 2, "embed_dim": 3, "hn_lr": 0.3}


def pairing(a: Params, b: Params) -> float:
    return sum(float((a[n] * b[n]).sum()) for n in a)


def emitted(psi: Params, v: torch.Tensor) -> Params:
    """One client's model by the equations of the docstring."""
    z = v
    for layer in range(2):
        z = (psi[f"hidden.{layer}.weight"] @ z + psi[f"hidden.{layer}.bias"]).relu()
    outputs = [n.removesuffix(".bias") for n in psi if n.startswith("output.") and n.endswith(".bias")]
    return {n.removeprefix("output."): psi[f"{n}.weight"] @ z + psi[f"{n}.bias"] for n in outputs}


def product(psi: Params, v: torch.Tensor, change: Params) -> tuple[Params, torch.Tensor]:
    """(J^T change, K^T change) for one client."""
    variables, v = {n: p.clone().requires_grad_() for n, p in psi.items()}, v.clone().requires_grad_()
    along = sum((w * change[n]).sum() for n, w in emitted(variables, v).items())
    *of_psi, of_v = torch.autograd.grad(along, [*variables.values(), v])
    return dict(zip(psi, of_psi, strict=True)), of_v
