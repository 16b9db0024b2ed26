"""The server network of pFedHN and PLGU-GHN: from a client's embedding to all parameters of the client's model.

    z_i <- relu(A_3 relu(A_2 relu(A_1 v_i + b_1) + b_2) + b_3)         hidden_layers of ``hidden`` units
    w_i <- A z_i + b                                                   one A and b for each tensor of the model

psi holds them by name: ``hidden.0.weight`` [hidden, in], ``output.<tensor>.weight`` [*shape, hidden] and
``output.<tensor>.bias`` [*shape], so that psi determines the architecture it generates.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from engine.core.params import ClientParams, SharedParams, map_params, row
from engine.core.registry import Count, Options
from engine.core.streams import torch_stream
from engine.federation.batches import Cohort
from engine.task import Predictor, Shared, Task
from engine.training.local import Trained, local_sgd

NEWCOMER_STEPS = 5  # server steps on a newcomer's embedding
LARGE = 10**8  # a note is given for larger psi


class HypernetworkOptions(Options):
    """Options of the methods with a hypernetwork."""

    advanced: ClassVar[tuple[str, ...]] = ("embed_dim", "hidden", "hidden_layers", "clip")

    embed_dim: Count | Literal["1+N/4"] = Field(
        "1+N/4", title="d", description="Length of a client's embedding; 1+N/4 grows with the number of clients N."
    )
    hidden: int = Field(100, ge=1, le=16384, description="Units of each hidden layer of the hypernetwork.")
    hidden_layers: int = Field(3, ge=1, le=100, description="Hidden layers of the hypernetwork.")
    hn_lr: float = Field(
        0.01,
        gt=0,
        le=1e6,
        title="α",
        description="Server's learning rate, of network and embeddings; short runs need more.",
    )
    clip: float = Field(
        50.0, gt=0, le=1e6, description="Largest norm of the server's gradient; a longer one is scaled down."
    )


class EmittedModels:
    """The server generates each client's model from ``state.psi`` and ``state.embeddings``; there is no global one."""

    hparams: Any  # HypernetworkOptions

    def personalized(self, state: Any, task: Task) -> Predictor:
        return Predictor(emit(state.psi, state.embeddings), is_per_client=True)

    def global_model(self, state: Any, task: Task) -> Predictor | None:
        return None

    def shared(self, state: Any) -> Shared:
        model = row(emit(state.psi, state.embeddings[:1]), 0)
        return Shared(down=(model,), up=(model,))

    def adapted(self, state: Any, newcomers: Cohort, task: Task) -> Predictor:
        return fit_newcomers(task, state.psi, state.embeddings, newcomers, self.hparams)


@dataclass(frozen=True)
class Pull:
    """J^T (w_i,0 - w_i,E): descent directions at the server."""

    psi: SharedParams  # mean over the cohort
    embeddings: Float[Tensor, "S d"]  # each client's own


def initial_server(task: Task, options: HypernetworkOptions) -> tuple[SharedParams, Float[Tensor, "N d"]]:
    """psi as linear layers start by default, uniform in +-1/sqrt(inputs), and embeddings from N(0, 1)."""
    if task.model.init == "zeros":
        task.note("model.init: zeros has no effect here: the clients' models come from the hypernetwork")
    dim = int(1 + task.num_clients / 4) if options.embed_dim == "1+N/4" else int(options.embed_dim)
    layers: dict[str, tuple[tuple[int, ...], int]] = {
        f"hidden.{i}": ((options.hidden,), options.hidden if i else dim) for i in range(options.hidden_layers)
    }
    layers |= {f"output.{n}": (tuple(p.shape), options.hidden) for n, p in task.initial_model().items()}
    if (size := task.model.num_parameters * (options.hidden + 1)) > LARGE:
        task.note(f"the hypernetwork has {size:.1e} numbers, each held several times; lower hidden if memory runs out")
    stream = torch_stream(task.seed, "hypernetwork")
    psi = {
        f"{name}.{kind}": (torch.rand(size, generator=stream) * 2 - 1) / inputs**0.5
        for name, (shape, inputs) in layers.items()
        for kind, size in (("weight", (*shape, inputs)), ("bias", shape))
    }
    embeddings = torch.randn(task.num_clients, dim, generator=torch_stream(task.seed, "embeddings"))
    return map_params(lambda p: p.to(task.device, task.dtype), psi), embeddings.to(task.device, task.dtype)


def emit(psi: SharedParams, embeddings: Float[Tensor, "S d"]) -> ClientParams:
    """h(v_i; psi): a model for each embedding."""
    z, emitted = embeddings, {}
    for name in (n.removesuffix(".weight") for n in psi if n.endswith(".weight")):
        weight, bias = psi[f"{name}.weight"], psi[f"{name}.bias"]
        out = F.linear(z, weight.reshape(-1, z.shape[1]), bias.flatten()).view(-1, *bias.shape)
        if name.startswith("hidden."):
            z = out.relu()
        else:
            emitted[name.removeprefix("output.")] = out
    return emitted


def pull_back(psi: SharedParams, embeddings: Float[Tensor, "S d"], change: ClientParams) -> Pull:
    """The vector-Jacobian products of the emitted models with ``change`` = w_i,0 - w_i,E, in one backward pass."""
    variables = map_params(lambda p: p.detach().requires_grad_(), psi)
    rows = embeddings.detach().requires_grad_()
    emitted = emit(variables, rows)
    scaled = [change[n] / len(rows) for n in emitted]  # psi's products then add up to their mean
    *of_psi, of_rows = torch.autograd.grad([*emitted.values()], [*variables.values(), rows], scaled)
    return Pull(dict(zip(psi, of_psi, strict=True)), of_rows * len(rows))


def train_emitted(
    task: Task, psi: SharedParams, embeddings: Float[Tensor, "S d"], cohort: Cohort
) -> tuple[ClientParams, Trained]:
    """Local training from each client's emitted model: (w_i,0 - w_i,E, training)."""
    start = emit(psi, embeddings)
    trained = local_sgd(task, start, cohort)
    return map_params(torch.sub, start, trained.params), trained


def descend(
    psi: SharedParams, embeddings: Float[Tensor, "N d"], pull: Pull, cohort: Cohort, options: HypernetworkOptions
) -> tuple[SharedParams, Float[Tensor, "N d"]]:
    """The server's step along ``pull``, whose whole norm is clipped; embeddings of the others stay."""
    norm = torch.stack([g.norm() for g in (*pull.psi.values(), pull.embeddings)]).norm()
    rate = options.hn_lr * _clipped(norm, options.clip)
    moved = embeddings[cohort.clients] - rate * pull.embeddings
    return map_params(lambda p, g: p - rate * g, psi, pull.psi), embeddings.index_copy(0, cohort.clients, moved)


def fit_newcomers(
    task: Task, psi: SharedParams, embeddings: Float[Tensor, "N d"], newcomers: Cohort, options: HypernetworkOptions
) -> Predictor:
    """Models of newcomers: embeddings start at the clients' mean and take ``NEWCOMER_STEPS`` steps; psi takes none."""
    rows = embeddings.mean(0).expand(newcomers.size, -1)
    for _ in range(NEWCOMER_STEPS):
        change, _ = train_emitted(task, psi, rows, newcomers)
        pull = pull_back(psi, rows, change).embeddings
        rows = rows - options.hn_lr * _clipped(pull.norm(dim=1, keepdim=True), options.clip) * pull
    return Predictor.of_everyone(emit(psi, rows), newcomers)


def _clipped(norm: Tensor, clip: float) -> Tensor:
    """The factor that reduces ``norm`` to ``clip``, or 1."""
    return (clip / norm).clamp(max=1.0)
