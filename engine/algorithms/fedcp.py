"""FedCP: a policy splits each feature between a personal head and the global one, for each sample.

Zhang, Hua, Wang, Song, Xue, Ma, Guan. FedCP: Separating Feature Information for Personalized Federated Learning via
Conditional Policy. KDD 2023. https://arxiv.org/abs/2307.01217, Algorithm 1.

    (phi_i, V_i) <- (phi, V)                                    V: the policy
    v_i <- sum_c A_ic / ||sum_c A_ic||                          A_i: weight of h_i, with a row for each class
    E times, for a batch B, with f = phi_i(x):
        (r, s) <- softmax over the pair of V_i(f v_i)           V: ReLU of LayerNorm of a linear layer, F to 2 F
        L <- CE(h_i(r f) + g(s f), y) + lam MMD^2(f, phi(x))    phi as received
        (phi_i, V_i, h_i) <- (phi_i, V_i, h_i) - lr grad L
    (phi, V, g) <- sum_i (m_i / m) (phi_i, V_i, (h_i + g)/2)    over the cohort

Idea: Some of a sample's features are useful to all clients, others to its own. A small network, the policy, gives each
unit of each feature a share r for the personal head, and the rest s = 1 - r for the global head, which stays fixed
during local training. It knows the client by v_i, the direction of its personal head.

When: labels differ, and the share of personal features should depend on the sample. Needs: a body under a linear head
(dnn, cnn).

Sent: phi, V and g, both ways. Kept: h_i.

Cost: one local training a round, and for each gradient one forward pass of the received body; bytes of FedAvg and of
the policy's layer from F to 2 F. That layer is most of a small network: with one hidden layer of 128 units a gradient
takes two to three times FedAvg's time, for twice the operations.

Newcomers: a head from the common initial one, trained for one participation together with copies of body and policy; it
is kept and used with the server's body, policy and head.

Deviations: r and s are a softmax; the published code draws Gumbel noise, in evaluation too, so its accuracy is random.
The server's g and V are used by all clients; the published code updates the round's participants only. In round 1 v_i
is that of h_i, in the code it is noise. MMD^2 is the biased estimate over all pairs of a batch, with the kernel sum_a
exp(-d / (2 a)) for a = 10, 15, 20 and 50, d being the squared distance. v_i is 0 where its norm is. The recorded loss
is the cross-entropy.

Pitfalls: the published program sets lam to 0 by default. While h_i equals g, r and s cancel: the policy has no gradient
in the first step, and both biases add up.
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from engine.backends import Extras, FeatureGradients, OnFeatures, add_silently, mean_cross_entropy
from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, Options
from engine.core.streams import torch_stream
from engine.core.style import Style
from engine.federation.batches import Batch, Cohort
from engine.models import Model
from engine.task import Diagnostics, Forward, Predictor, Task
from engine.training.body_head import part, require_body, require_linear_head
from engine.training.discrepancy import Gaussians, discrepancy_gradient, squared_discrepancy
from engine.training.fedcp_gradient import split_gradients
from engine.training.local import SGD, Live, Trained, for_each_client
from engine.training.roles import SplitModels

GLOBAL = "g."  # in front of the global head's names
KERNEL = Gaussians((100.0, 40.0, 20.0, 30.0))  # 2 a


class Hparams(Options):
    lam: float = Field(
        5.0,
        ge=0,
        le=1e6,
        title="λ",
        description="Pull of the features toward those of the received body; larger = nearer.",
        json_schema_extra={"tune": [0.05, 50.0, "log"]},
    )


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # phi, V and g
    personal_params: ClientParams  # h_i


@ALGORITHMS.register(
    "fedcp",
    title="FedCP",
    paper="Zhang et al., KDD 2023",
    family="Split models",
    style=Style(hue="vermilion", dash="dot", symbol="pentagon"),
    privacy=("client",),
)
@dataclass(frozen=True)
class FedCp(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        require_body(task, "fedcp")
        require_linear_head(task, "fedcp")
        start = task.initial_model()
        head = part(start, task.model.head)
        shared = part(start, task.model.body) | _initial_policy(task) | {GLOBAL + n: p for n, p in head.items()}
        return State(shared, task.for_clients(head))

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        heads = gather(state.personal_params, cohort.clients)
        trained = self._train(state.shared_params, heads, cohort, task)
        own = part(trained.params, task.model.head)
        halfway = {GLOBAL + n: (p + state.shared_params[GLOBAL + n]) / 2 for n, p in own.items()}
        uploads = part(trained.params, state.shared_params) | halfway
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, own, cohort.clients),
        )
        return new, Diagnostics(trained.loss, trained.gradient_evaluations)

    def _train(self, received: SharedParams, heads: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Body, policy and personal head together, with the global head fixed."""
        lam, sgd, start = self.hparams.lam, SGD.of(task), broadcast(received, cohort.size) | heads
        moving = [n for n in start if not n.startswith(GLOBAL)]
        objective = OnFeatures(partial(_loss, lam), gradients=partial(_gradients, lam))
        body = task.model.laid_out(part(received, task.model.body))

        def step(c: Live, batch: Batch) -> Tensor:
            extras = {"direction": c.direction}
            if lam:
                extras |= {"received": task.model.features(body, batch.x.flatten(0, 1)).unflatten(0, batch.y.shape)}
            return sgd.step(c, "w", batch, trained=moving, objective=objective, extras=extras)

        out = for_each_client(task, cohort.plan, {"w": start}, step, fixed={"direction": direction(heads)})
        return Trained(out.w, out.loss, cohort.plan.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return self._predictor(state, state.personal_params, task)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        heads = broadcast(part(task.initial_model(), task.model.head), newcomers.size)
        trained = self._train(state.shared_params, heads, newcomers, task)
        own = in_client_order(part(trained.params, task.model.head), newcomers.clients)
        return self._predictor(state, own, task)

    def forward(self, model: Model) -> Forward:
        """h_i(r f) + g(s f)."""

        def forward(params: SharedParams, x: Tensor) -> Tensor:
            personal, general = split(params, model.features(params, x), direction(params))
            return model.head_logits(params, personal) + model.head_logits(_global_head(params), general)

        return forward

    def _predictor(self, state: State, heads: ClientParams, task: Task) -> Predictor:
        params = broadcast(state.shared_params, task.num_clients) | heads
        ordered = [*task.model.names, *(n for n in params if n not in task.model.names)]
        return Predictor(part(params, ordered), is_per_client=True, forward=self.forward(task.model))


def _loss(
    lam: float, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> Tensor:
    """The cross-entropy, which is recorded, and the discrepancy from the features of the received body."""
    personal, general = split(params, features, extras["direction"])
    logits = model.stacked_head_logits(params, personal) + model.stacked_head_logits(_global_head(params), general)
    data = mean_cross_entropy(logits, y, weight)
    if not lam:
        return data
    return add_silently(data, lam * discrepancy(features, _received(features, extras), weight))


def _gradients(
    lam: float, model: Model, params: ClientParams, features: Tensor, y: Tensor, weight: Tensor, extras: Extras
) -> FeatureGradients:
    """The gradient of ``_loss``, derived by hand."""
    found = split_gradients(params, _global_head(params), features, y, weight, extras["direction"])
    if lam:
        found.features.add_(discrepancy_gradient(features, _received(features, extras), weight, KERNEL), alpha=lam)
    return found


def _received(features: Tensor, extras: Extras) -> Tensor:
    """The features of the received body, without padding where the batch has none."""
    return extras["received"][:, : features.shape[1]]


def split(
    params: dict[str, Tensor], features: Float[Tensor, "*A B F"], toward: Float[Tensor, "*A F"]
) -> tuple[Tensor, Tensor]:
    """(r f, s f): the policy's two parts of each feature."""
    linear = (features * toward.unsqueeze(-2)) @ params["cpn.weight"].mT + params["cpn.bias"].unsqueeze(-2)
    normal = F.layer_norm(linear, linear.shape[-1:])
    scores = F.relu(normal * params["cpn_norm.weight"].unsqueeze(-2) + params["cpn_norm.bias"].unsqueeze(-2))
    first, second = scores.chunk(2, dim=-1)
    share = torch.sigmoid(first - second)  # the softmax of a pair
    return share * features, (1 - share) * features


def direction(heads: dict[str, Tensor]) -> Float[Tensor, "*A F"]:
    """v_i: the rows of the head's weight, summed and scaled to length 1; zero where they cancel."""
    total = heads["head.weight"].sum(-2)
    length = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
    return total / length.masked_fill(length == 0, torch.inf)


def discrepancy(
    a: Float[Tensor, "*A B F"], b: Float[Tensor, "*A B F"], weight: Float[Tensor, "*A B"]
) -> Float[Tensor, "*A"]:
    """MMD^2 of two sets of features with the same ``weight``, which sums to 1."""
    return squared_discrepancy(a, b, weight, KERNEL)


def _global_head(params: dict[str, Tensor]) -> dict[str, Tensor]:
    """g under the names of a head."""
    return {n.removeprefix(GLOBAL): p for n, p in params.items() if n.startswith(GLOBAL)}


def _initial_policy(task: Task) -> SharedParams:
    """V as torch's own layers start, drawn on the CPU in single precision like the model."""
    width, stream = task.feature_width, torch_stream(task.seed, "fedcp policy")
    drawn = {"cpn_norm.weight": torch.ones(2 * width), "cpn_norm.bias": torch.zeros(2 * width)}
    for name, shape in (("weight", (2 * width, width)), ("bias", (2 * width,))):
        uniform = torch.rand(shape, generator=stream, dtype=torch.float32)
        drawn[f"cpn.{name}"] = (2 * uniform - 1) / width**0.5
    return {n: p.to(task.device, task.dtype) for n, p in drawn.items()}
