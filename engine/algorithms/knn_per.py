"""kNN-Per: FedAvg's model, mixed with a vote of the nearest neighbors among a client's own samples.

Marfoq, Neglia, Vidal, Kameni. Personalized Federated Learning through Local Memorization. ICML 2022.
https://arxiv.org/abs/2111.09360, Algorithm 1 and equations 6 to 8.

    w <- sum_i (m_i / m) w_i                                    FedAvg, over the cohort
    To predict x, after training:
        N_k(x) <- the k training samples of client i with the least d_j = ||phi(x) - phi(x_j)||
        q_c <- sum_{j in N_k: y_j = c} exp(-d_j^2 / (F scale))  divided by its sum over c
        p   <- lam q + (1 - lam) softmax(h(phi(x)))             w = (phi, h)

Idea: A global model has good features even where its predictions do not suit a client. Each client stores the features
of its training samples and lets the most similar ones vote, so it is personalized without any training of its own.

When: clients should be personalized without any training of their own. Needs: validation samples
(partition.val_fraction) for lam="auto".

Sent: w, both ways. Kept: nothing between rounds; to predict, the features and labels of the client's samples.

Cost: training and bytes as FedAvg. Each evaluation takes a forward pass over the training data, and compares every
sample with all that the client stores; stored models contain these features.

Newcomers: the server's w with a memory of their own samples.

Deviations: the paper weighs neighbors by exp(-d), its code by exp(-d^2 / (F scale)), which is used here, F being the
number of features. Squared distances within 1e-9 of phi(x)'s squared length are equal; of those the samples that come
first are taken. p is at least 1e-12. On a model without a body (mlr) the neighbors are those of the inputs.

Pitfalls: the published script chooses lam on the test set; lam: auto uses validation samples. Its flag to interpolate
logits is on whatever one sets, so that logits are mixed with probabilities; FL-bench copied this.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from engine.core.errors import Unsupported
from engine.core.params import SharedParams, broadcast
from engine.core.registry import ALGORITHMS, Count, Options
from engine.core.streams import key, permutation_prefix
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.federation.clients import ClientData
from engine.models import Model
from engine.task import Diagnostics, Predictor, Task
from engine.training.evaluate import evaluate
from engine.training.features import Features, shared_features
from engine.training.local import local_sgd
from engine.training.roles import OneGlobalModel

LARGE_BYTES = 2**30  # a note states the size of all memories if it is larger
LEAST = 1e-12  # the least probability
TIE = 1e-9
GRID = tuple(step / 10 for step in range(11))  # for lam: auto
UNDECIDED = 0.5  # lam of a client without validation samples
PAIRS = 2**20  # distances of a client at a time


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("capacity",)

    k: int = Field(
        10,
        ge=1,
        le=1_000_000,
        description="Neighbors that vote; larger = smoother.",
        json_schema_extra={"tune": [1, 100, "intlog"]},
    )
    lam: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = Field(
        0.5,
        title="λ",
        description="Share of the neighbors' vote; larger = more personal, 0 is the global model. auto: each client's "
        "best of 0, 0.1, ..., 1 on its validation samples, 0.5 without any.",
        json_schema_extra={"tune": [0.0, 1.0, "lin"]},
    )
    scale: float = Field(
        1.0,
        gt=0,
        le=1e6,
        description="Width of the kernel of the distances; larger = far neighbors count more.",
        json_schema_extra={"tune": [0.01, 100.0, "log"]},
    )
    capacity: Count | Literal["all"] = Field(
        "all", description="Samples that a client stores at most, chosen at random; all: its training data."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w


@ALGORITHMS.register(
    "knn_per",
    title="kNN-Per",
    paper="Marfoq et al., ICML 2022",
    family="Knowledge transfer",
    style=Style(hue="amber", dash="dashdot", symbol="star"),
    privacy=("client", "sample"),
    at_evaluation=("lam",),
)
@dataclass(frozen=True)
class KnnPer(OneGlobalModel):
    hparams: Hparams
    stores_outputs: ClassVar[bool] = True

    def init(self, task: Task) -> State:
        if self.hparams.lam == "auto" and not task.data.val.num_samples:
            raise Unsupported(
                "knn_per with lam: auto chooses each client's lam on its validation samples, and there are none; set "
                "partition.val_fraction, for instance 0.1, or give lam as a number"
            )
        if self.hparams.lam == 0:
            task.note("knn_per with lam=0: the neighbors have no vote, this is fedavg")
        if not task.model.body:
            task.note("knn_per on a model without a body (mlr, logistic): the neighbors are those of the inputs")
        most = int(self._stored(task.data.train.sizes).max())
        size = task.num_clients * most * task.feature_width * task.dtype.itemsize
        if size > LARGE_BYTES:
            task.note(
                f"knn_per: the memories of all clients take {size / 2**30:.1f} GiB when they are evaluated; lower "
                "capacity, or set evaluation.clients"
            )
        return State(task.initial_model())

    def _stored(self, sizes: Int[Tensor, "n"]) -> Int[Tensor, "n"]:
        """The number of samples in each client's memory."""
        return sizes if self.hparams.capacity == "all" else sizes.clamp(max=self.hparams.capacity)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        w = local_sgd(task, broadcast(state.global_params, cohort.size), cohort)
        new = task.channel.aggregate(w.params, state.global_params, cohort, cohort.weights)
        return State(new), Diagnostics(w.loss, w.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        everyone = torch.arange(task.num_clients, device=task.device) if task.evaluated is None else task.evaluated
        features = shared_features(task, state.global_params, *self._memorized(task, everyone))
        params = broadcast(state.global_params, len(everyone)) | _padded(features)
        clients = None if task.evaluated is None else everyone
        predictor = Predictor(params, is_per_client=True, forward=self.forward(task.model), clients=clients)
        if self.hparams.lam == "auto":
            return _with_lam(predictor, self._best_lam(predictor, everyone, task))
        return _with_lam(predictor, _constant(self.hparams.lam, everyone))

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        return self.personalized(state, task)

    def _memorized(self, task: Task, clients: Int[Tensor, "n"]) -> tuple[ClientData, Int[Tensor, "n"]]:
        """Data with the samples that the clients store, and the clients' numbers in it."""
        train = task.data.train
        if self.hparams.capacity == "all":
            return train, clients
        sizes = train.sizes[clients]
        stored = self._stored(sizes)
        most = int(stored.max())
        order = permutation_prefix(key(task.seed, "memory"), clients, sizes, int(sizes.max()), most)
        place = torch.arange(most, device=task.device)
        chosen = order.masked_fill(place >= stored[:, None], int(sizes.max())).sort(1).values  # in data order
        places = (train.offsets[clients][:, None] + chosen)[place < stored[:, None]]
        bounds = torch.cat([stored.new_zeros(1), stored.cumsum(0)])
        return train.selected(places, bounds), torch.arange(len(clients), device=task.device)

    def _best_lam(self, predictor: Predictor, clients: Int[Tensor, "n"], task: Task) -> Float[Tensor, "n"]:
        """The lam of the grid with the least loss on each client's validation samples; of equal ones the least."""
        tried = [_with_lam(predictor, _constant(lam, clients)) for lam in GRID]
        losses = np.stack([evaluate(task, one, task.data.val)[1] for one in tried])[:, clients.cpu().numpy()]
        is_least = losses <= losses.min(0) * (1 + TIE)
        chosen = np.where(np.isnan(losses).any(0), UNDECIDED, np.take(GRID, is_least.argmax(0)))
        return torch.from_numpy(chosen)

    def forward(self, model: Model) -> Callable[[SharedParams, Tensor], Tensor]:
        """The logarithm of p, from the memory stored with the parameters."""
        k, scale = self.hparams.k, self.hparams.scale

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            features = model.features(params, x)
            general = model.head_logits(params, features).softmax(-1)
            memory, labels, lam = params["memory"], params["memory_labels"], params["lam"]
            members = (labels[:, None] == torch.arange(general.shape[-1], device=x.device)).to(features.dtype)
            pieces = features.split(max(1, PAIRS // len(memory)))
            votes = torch.cat([votes_of(piece, memory, labels >= 0, k, scale) for piece in pieces]) @ members
            return (lam * votes + (1 - lam) * general).clamp(min=LEAST).log()

        return forward


def votes_of(
    features: Float[Tensor, "B F"], memory: Float[Tensor, "M F"], is_stored: Tensor, k: int, scale: float
) -> Float[Tensor, "B M"]:
    """The weight of each stored sample for each of ``features``: positive for the k nearest, with sum 1."""
    a, b = features.double(), memory.double()
    length = a.square().sum(-1, keepdim=True)
    squared = (length + b.square().sum(-1) - 2 * a @ b.T).clamp(min=0).masked_fill(~is_stored, torch.inf)
    nearest = squared.topk(min(k, len(memory)), largest=False).values
    last, tie = nearest[:, -1:], TIE * length
    is_nearer = squared < last - tie
    is_last = ~is_nearer & (squared <= last + tie) & is_stored
    room = nearest.shape[1] - is_nearer.sum(-1, keepdim=True)
    is_chosen = is_nearer | (is_last & (is_last.cumsum(-1) <= room))
    weights = torch.exp((nearest[:, :1] - squared) / (memory.shape[1] * scale)) * is_chosen
    return (weights / weights.sum(-1, keepdim=True)).to(features.dtype)


def _padded(features: Features) -> dict[str, Tensor]:
    """Each client's memory [n, M, F] and its labels [n, M], which are -1 at the end of a smaller memory."""
    sizes = features.sizes
    place = torch.arange(len(features.owner), device=sizes.device) - (sizes.cumsum(0) - sizes)[features.owner]
    shape = features.num_clients, int(sizes.max())
    memory = features.values.new_zeros(*shape, features.values.shape[1])
    labels = features.values.new_full(shape, -1.0)
    where = features.owner, place
    return {
        "memory": memory.index_put(where, features.values),
        "memory_labels": labels.index_put(where, features.labels.to(labels.dtype)),
    }


def _constant(lam: float, clients: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """The same lam for all clients."""
    return torch.full(clients.shape, lam, dtype=torch.float64)


def _with_lam(predictor: Predictor, lam: Tensor) -> Predictor:
    """The same predictor with the given share of the votes."""
    return replace(predictor, params=predictor.params | {"lam": lam.to(predictor.params["memory"])})
