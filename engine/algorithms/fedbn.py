"""FedBN: everything is averaged except the normalization layers, which every client keeps.

Li, Jiang, Zhang, Kamp, Dou. FedBN: Federated Learning on Non-IID Features via Local Batch Normalization. ICLR 2021.
https://arxiv.org/abs/2102.07623, Algorithm 1.

    (w_i, s_i) <- (w, s_i)                                      s_i own scales and shifts
    E times, for a batch B:
        (w_i, s_i) <- (w_i, s_i) - lr grad f_i(w_i, s_i; B)
    w <- sum_i (m_i / m) w_i                                    over the cohort

Idea: If clients' inputs differ in contrast, color or sensor, their features differ in scale and shift. A normalization
takes just that out, so one of its own fits each client, and the layers between see the same features everywhere.

When: inputs differ in contrast, color or sensor, and labels do not. Needs: a model with normalizations (resnet18,
char_transformer).

Sent: w, both ways. Kept: s_i.

Cost: one local training a round; bytes as FedAvg without the normalizations.

Newcomers: normalizations trained for one participation from the common initial ones, together with a copy of w; they
are kept and used with the server's w.

Deviations: our networks have group or layer normalization, whose statistics are those of a sample, so that scale and
shift are all there is to keep; batch normalization also keeps running means and variances. A model without
normalizations (mlr, logistic, dnn, cnn, ...) runs as FedAvg, with a note.

Pitfalls: normalizations must be found by the type of the module. The authors' code, PFLlib and FL-bench look for "bn"
in the name, which misses those of a ResNet's shortcuts and averages them; fluke finds batch normalization alone, and
outside nested modules.
"""

from dataclasses import dataclass

from engine.core.params import ClientParams, SharedParams, broadcast, gather, in_client_order, scatter
from engine.core.registry import ALGORITHMS, NoOptions
from engine.core.style import Style
from engine.federation.batches import Cohort
from engine.task import Diagnostics, Predictor, Task
from engine.training.body_head import part
from engine.training.local import Trained, local_sgd
from engine.training.roles import SplitModels, joined


class Hparams(NoOptions):
    """None."""


@dataclass(frozen=True)
class State:
    shared_params: SharedParams  # w
    personal_params: ClientParams  # s_i; none if the model has no normalizations


@ALGORITHMS.register(
    "fedbn",
    title="FedBN",
    paper="Li et al., ICLR 2021",
    family="Split models",
    style=Style(hue="purple", dash="dashdot", symbol="square"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedBn(SplitModels):
    hparams: Hparams

    def init(self, task: Task) -> State:
        start, norms = task.initial_model(), task.model.norms
        if not norms:
            task.note("fedbn on a model without normalizations is fedavg: nothing is personalized; use model: resnet18")
        own = task.for_clients(part(start, norms)) if norms else {}
        return State({n: p for n, p in start.items() if n not in norms}, own)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        theta = self._train(state.shared_params, gather(state.personal_params, cohort.clients), cohort, task)
        uploads = part(theta.params, state.shared_params)
        new = State(
            task.channel.aggregate(uploads, state.shared_params, cohort, cohort.weights),
            scatter(state.personal_params, part(theta.params, task.model.norms), cohort.clients),
        )
        return new, Diagnostics(theta.loss, theta.gradient_evaluations)

    def personalized(self, state: State, task: Task) -> Predictor:
        return joined(state, state.personal_params, task) if task.model.norms else _shared(state)

    def global_model(self, state: State, task: Task) -> Predictor | None:
        return None if task.model.norms else _shared(state)

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        norms = task.model.norms
        if not norms:
            return _shared(state)
        start = broadcast(part(task.initial_model(), norms), newcomers.size)
        theta = self._train(state.shared_params, start, newcomers, task)
        return joined(state, in_client_order(part(theta.params, norms), newcomers.clients), task)

    def _train(self, shared: SharedParams, norms: ClientParams, cohort: Cohort, task: Task) -> Trained:
        """Everything together, each client from the received parameters and its own normalizations."""
        whole = broadcast(shared, cohort.size) | norms
        return local_sgd(task, part(whole, task.model.names), cohort)


def _shared(state: State) -> Predictor:
    """The server's model, if no part of it is personal."""
    return Predictor(state.shared_params, is_per_client=False)
