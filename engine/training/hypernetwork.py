"""The server network of pFedHN and PLGU-GHN: from a client's embedding to all parameters of the client's model.

    z_i <- relu(A_3 relu(A_2 relu(A_1 v_i + b_1) + b_2) + b_3)         hidden_layers of ``hidden`` units
    w_i <- A z_i + b                                                   one A and b for each tensor of the model

psi holds them by name: ``hidden.0.weight`` [hidden, in], ``output.<tensor>.weight`` [*shape, hidden] and
``output.<tensor>.bias`` [*shape], so that psi determines the architecture it generates.

psi has (hidden + 1) numbers for each parameter of the model, so passes over it take longer than the arithmetic. Its
gradient, in each layer a sum of S products error_i input_i^T, is therefore kept as these factors.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from engine.channel import Arrived
from engine.core.large_tensors import empty_like
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
        json_schema_extra={"tune": (0.001, 1, "log")},
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
    """J^T (w_i,0 - w_i,E): descent directions at the server.

    The direction of psi is the mean over the cohort: of error_i input_i^T for a weight, of error_i for a bias.
    """

    inputs: dict[str, Tensor]  # of each layer, [S, width]
    errors: dict[str, Tensor]  # at the outputs of each layer, [S, outputs]
    pairs: dict[str, Tensor]  # <e_i, e_j> of these errors, [S, S]
    back: Float[Tensor, "S hidden"]  # the error at z, where the output layers meet
    embeddings: Float[Tensor, "S d"]  # each client's own

    def norm(self) -> Tensor:
        """The length of psi's direction: ||sum_i e_i (z_i, 1)^T||^2 = sum_ij <e_i, e_j> (<z_i, z_j> + 1)."""
        sums = [(e.double() * (self.inputs[n] @ self.inputs[n].T + 1)).sum() for n, e in self.pairs.items()]
        length = torch.stack(sums).sum().clamp(min=0).sqrt() / len(self.embeddings)
        return length.to(self.embeddings.dtype)

    def move(self, psi: SharedParams, rate: float | Tensor, kind: str = "") -> SharedParams:
        """psi + rate times its direction, in the layers whose names begin with ``kind``."""
        moved = dict(psi)
        for layer in (n for n in self.errors if n.startswith(kind)):
            error = self.errors[layer]
            weight, bias = psi[f"{layer}.weight"], psi[f"{layer}.bias"]
            scaled = self.inputs[layer] * (rate / len(error))
            new = moved[f"{layer}.weight"] = empty_like(weight)
            torch.addmm(weight.flatten(0, -2), error.T, scaled, out=new.flatten(0, -2))
            moved[f"{layer}.bias"] = bias + rate * error.mean(0).view_as(bias)
        return moved


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
    z = _activations(psi, embeddings)[-1]
    shapes = {n: psi[f"{n}.bias"].shape for n in _layers(psi, "output.")}
    return {n.removeprefix("output."): _linear(psi, n, z).view(-1, *shape) for n, shape in shapes.items()}


def pull_back(psi: SharedParams, embeddings: Float[Tensor, "S d"], change: ClientParams) -> Pull:
    """The vector-Jacobian products of the emitted models with ``change`` = w_i,0 - w_i,E."""
    errors = {f"output.{n}": c.flatten(1) for n, c in change.items()}
    back = torch.stack([e @ psi[f"{n}.weight"].flatten(0, -2) for n, e in errors.items()]).sum(0)
    return _through_hidden(psi, embeddings, errors, {n: e @ e.T for n, e in errors.items()}, back)


def pull_back_moved(psi: SharedParams, embeddings: Float[Tensor, "S d"], ascent: Pull, rate: Tensor) -> Pull:
    """``pull_back`` of the same change at psi + rate times ``ascent``, itself a pull at psi.

    The output layers there are not built: with A + rate/S sum_j e_j z_j^T instead of A, the error at z grows by
    rate/S sum_j <e_i, e_j> z_j.
    """
    errors = {n: e for n, e in ascent.errors.items() if n.startswith("output.")}
    pairs = {n: ascent.pairs[n] for n in errors}
    growth = torch.stack([pairs[n] @ ascent.inputs[n] for n in errors]).sum(0)
    back = ascent.back + rate / len(embeddings) * growth
    return _through_hidden(ascent.move(psi, rate, "hidden."), embeddings, errors, pairs, back)


def _through_hidden(
    psi: SharedParams, embeddings: Tensor, errors: dict[str, Tensor], pairs: dict[str, Tensor], back: Tensor
) -> Pull:
    """The whole pull, from the errors at the output layers and at z."""
    *inputs, z = _activations(psi, embeddings)
    seen, errors, pairs, error = dict.fromkeys(errors, z), dict(errors), dict(pairs), back
    hidden = zip(_layers(psi, "hidden."), inputs, [*inputs[1:], z], strict=True)
    for layer, x, out in reversed(list(hidden)):
        seen[layer], errors[layer] = x, error * (out > 0)
        pairs[layer] = errors[layer] @ errors[layer].T
        error = errors[layer] @ psi[f"{layer}.weight"]
    return Pull(seen, errors, pairs, back, error)


def train_emitted(
    task: Task, psi: SharedParams, embeddings: Float[Tensor, "S d"], cohort: Cohort
) -> tuple[ClientParams, Trained]:
    """Local training from each client's emitted model: (w_i,0 - w_i,E, training)."""
    start = emit(psi, embeddings)
    trained = local_sgd(task, start, cohort)
    return map_params(torch.sub, start, trained.params), trained


def send_changes(task: Task, change: ClientParams, cohort: Cohort) -> Arrived:
    """The changes that the server receives, [A, ...]."""
    return task.channel.deliver(change, None, cohort, cohort.uniform)


def descend(
    psi: SharedParams,
    embeddings: Float[Tensor, "N d"],
    pull: Pull,
    clients: Int[Tensor, "A"],
    options: HypernetworkOptions,
) -> tuple[SharedParams, Float[Tensor, "N d"]]:
    """The server's step along ``pull`` of these clients, whose whole norm is clipped; other embeddings stay."""
    rate = options.hn_lr * _clipped(torch.hypot(pull.norm(), pull.embeddings.norm()), options.clip)
    moved = embeddings[clients] - rate * pull.embeddings
    return pull.move(psi, -rate), embeddings.index_copy(0, clients, moved)


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


def _activations(psi: SharedParams, embeddings: Float[Tensor, "S d"]) -> list[Tensor]:
    """The embeddings, and the output of each hidden layer: z_i is the last."""
    outputs = [embeddings]
    for layer in _layers(psi, "hidden."):
        outputs.append(_linear(psi, layer, outputs[-1]).relu())
    return outputs


def _linear(psi: SharedParams, layer: str, x: Float[Tensor, "S width"]) -> Float[Tensor, "S outputs"]:
    return F.linear(x, psi[f"{layer}.weight"].flatten(0, -2), psi[f"{layer}.bias"].flatten())


def _layers(psi: SharedParams, kind: str) -> list[str]:
    return [n.removesuffix(".weight") for n in psi if n.startswith(kind) and n.endswith(".weight")]
