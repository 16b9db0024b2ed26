"""One-stage FedProx: local and global models fitted jointly, with one parameter between the two.

Yu, He, Sun, Xue, Li. The Effect of Personalization in FedProx: A Fine-grained Analysis on Statistical Accuracy and
Communication Efficiency. 2024. https://arxiv.org/abs/2410.08934, Algorithm 1.

    minimize over w_g and all w_i:
        mean_i [f_i(w_i) + lam/2 ||w_g - w_i||^2]
    inner_steps times, for a batch B:
        w_i <- w_i - local_lr [grad f_i(w_i; B) + lam (w_i - w_g)]   from the client's own last model
    w_g <- w_g - gamma mean_i lam (w_g - w_i)                   uniform, over the cohort's uploads

Idea: Every client has a model and all are tied to a common one; lam says how tightly. At lam = 0 each learns alone, as
lam grows all use one model, and unless clients are alike or very different, the smallest error lies between. The
adaptive lam follows from the distance between the clients' true models and the number of their samples.

When: the pull toward the shared model should follow from heterogeneity and sample sizes. Needs: a linear model with l2
> 0 for the settings "theory".

Sent: w_g down; w_i up, from which the server has lam (w_g - w_i). Kept: w_i.

Cost: as FedAvg; where the true models are not known, lam="adaptive" adds ``estimate_steps`` of every client before
round 1, and one model to and from each.

Newcomers: start at the common initial model and train for one round, pulled toward w_g with the lam of the run.

Deviations: gamma="auto" sets w_g to the mean of the participants' w_i: gamma = 1/lam, the paper's MNIST setting, and
its limit at lam = 0. gamma="theory" = (lam + L)/(2 lam L) (Corollary 1; the experiments use twice that). lam="adaptive"
is rho/(sqrt(n) R_h) where R_h <= n^(-1/2), else rho^2/(n R_h^2), capped at 1/local_lr; n mean training samples a
client, R_h the largest distance of a client's model to their mean: of the drawn truth on synthetic data, else estimated
before round 1 from clients that train alone for estimate_steps (counted in the gradients and bytes of round 1).

Pitfalls: clients start from their own last model, not from w_g; with the received model as start this is FedProx. Where
local_lr (L + lam) exceeds 2 the steps diverge, L being the smoothness of f_i.

Diagnostics: lam, R_h (spread of the clients, with lam="adaptive" only), and on synthetic data statistical_error_local
and _global (of the converged solution).
"""

from dataclasses import dataclass
from math import isfinite, nan, sqrt
from typing import ClassVar, Literal

from pydantic import Field

from engine.channel import KEPT_BY_CLIENT
from engine.core.errors import Unsupported
from engine.core.params import (
    ClientParams,
    SharedParams,
    broadcast,
    gather,
    lerp,
    scatter,
)
from engine.core.registry import ALGORITHMS, Count, NonNegative, Options, Positive
from engine.core.style import Style
from engine.federation.batches import Cohort, Plan
from engine.task import Diagnostics, Predictor, Task
from engine.training import heterogeneity, statistical_error
from engine.training.local import SGD, Trained, local_sgd
from engine.training.roles import PersonalModels
from engine.training.smoothness import note_if_unstable, smoothness

_MAX_INNER_STEPS = 100_000


class Hparams(Options):
    advanced: ClassVar[tuple[str, ...]] = ("rho", "gamma", "local_lr", "inner_steps", "estimate_steps")

    lam: NonNegative | Literal["adaptive"] = Field(
        "adaptive",
        title="λ",
        description="Pull between each client's model and the global one; larger = more global, 0 = learning alone.",
        json_schema_extra={"tune": (0.01, 10, "log")},
    )
    rho: float = Field(2.0, gt=0, le=1e6, title="ρ", description="Scale of the adaptive lambda; larger = more global.")
    gamma: Positive | Literal["auto", "theory"] = Field(
        "auto", title="γ", description="Server's step; auto takes the mean of the participants."
    )
    local_lr: Positive | Literal["training", "theory"] = Field(
        "training",
        title="η",
        description="Local learning rate; theory: 1/(L + lam).",
        json_schema_extra={"training": "lr"},
    )
    inner_steps: Count | Literal["training", "theory"] = Field(
        "training",
        description="Local steps per round; theory: the least number that Theorem 3 requires.",
        json_schema_extra={"training": "local_steps"},
    )
    estimate_steps: int = Field(
        200, ge=1, le=1_000_000, description="Steps of each client alone, to estimate how much they differ."
    )


@dataclass(frozen=True)
class State:
    global_params: SharedParams  # w_g
    personal_params: ClientParams  # w_i
    lam: float | None  # None before it is known
    facts: dict[str, float]  # diagnostics that do not change


@ALGORITHMS.register(
    "fedprox_onestage",
    title="One-stage FedProx",
    paper="Yu et al., The Effect of Personalization in FedProx, 2024",
    family="Regularized toward a shared model",
    style=Style(hue="violet", dash="solid", symbol="circle"),
    privacy=("client", "sample"),
    at_evaluation=(),
)
@dataclass(frozen=True)
class FedProxOneStage(PersonalModels):
    no_feedback: ClassVar[str] = KEPT_BY_CLIENT

    hparams: Hparams

    def init(self, task: Task) -> State:
        h = self.hparams
        if "theory" in (h.gamma, h.local_lr, h.inner_steps):
            _require_theory(task)
        facts = {}
        if h.lam != "adaptive":
            lam = float(h.lam)
        elif statistical_error.is_known(task):
            facts["R_h"] = statistical_error.true_heterogeneity(task)
            lam = self._adaptive(task, facts["R_h"])
        else:
            return State(task.initial_model(), task.initial_clients(), None, facts)
        if lam == 0 and "theory" in (h.gamma, h.inner_steps):
            raise Unsupported("gamma and inner_steps: 'theory' divide by lam, which is 0; use gamma: auto and a number")
        if h.inner_steps == "theory":
            self._theory_steps(task, lam)
        note_if_unstable(task, self._lr(task, lam), lam)
        return State(task.initial_model(), task.initial_clients(), lam, facts)

    def round(self, state: State, cohort: Cohort, task: Task) -> tuple[State, Diagnostics]:
        cost, sent = 0, 0
        if "lam" not in state.facts:
            models = task.num_clients if state.lam is None else 0
            sent = models * sum(p.nbytes for p in state.global_params.values())
            state, cost = self._settle(state, task)
        lam = state.lam
        if lam is None:  # the clients that trained alone diverged, so there is no lambda
            return state, Diagnostics(cohort.weights.new_full((cohort.size,), nan), cost)
        w = self._local(state, gather(state.personal_params, cohort.clients), lam, cohort, task)
        mean = task.channel.aggregate(w.params, state.global_params, cohort, cohort.uniform)
        step = 1.0 if self.hparams.gamma == "auto" else self._gamma(task, lam) * lam
        personal = scatter(state.personal_params, w.params, cohort.clients)
        new = State(lerp(state.global_params, mean, step), personal, lam, state.facts)
        evaluations = w.gradient_evaluations + cost
        return new, Diagnostics(w.loss, evaluations, {**state.facts}, extra_bytes_up=sent, extra_bytes_down=sent)

    def _local(self, state: State, start: ClientParams, lam: float, cohort: Cohort, task: Task) -> Trained:
        """w_i, from ``start`` [S, ...], pulled toward w_g."""
        sgd = SGD.of(task, self._lr(task, lam), prox=(lam, broadcast(state.global_params, cohort.size)))
        return local_sgd(task, start, cohort, sgd, plan=self._plan(task, cohort, lam))

    def _settle(self, state: State, task: Task) -> tuple[State, int]:
        """Chooses lambda, and records what is the same in all rounds. Returns its gradient evaluations, too."""
        lam, cost, facts = state.lam, 0, dict(state.facts)
        if lam is None:
            facts["R_h"], cost = self._estimate(task)
            if not isfinite(facts["R_h"]):
                return state, cost
            lam = self._adaptive(task, facts["R_h"])
            note_if_unstable(task, self._lr(task, lam), lam)
        errors = statistical_error.statistical_error(task, lam) if statistical_error.is_known(task) else None
        if errors:
            facts["statistical_error_local"], facts["statistical_error_global"] = errors
        return State(state.global_params, state.personal_params, lam, facts | {"lam": lam}), cost

    def _estimate(self, task: Task) -> tuple[float, int]:
        """R_h and its cost in gradient evaluations."""
        task.note("R_h is an estimate: from clients that trained alone before round 1")
        lr = task.training.lr if self.hparams.local_lr == "theory" else float(self.hparams.local_lr)
        return heterogeneity.estimate(task, self.hparams.estimate_steps, lr)

    def _adaptive(self, task: Task, R_h: float) -> float:
        n, rho = task.num_pooled_samples / task.num_clients, self.hparams.rho
        cap = float("inf") if self.hparams.local_lr == "theory" else 1 / float(self.hparams.local_lr)
        if R_h == 0:
            lam = cap
        else:
            lam = rho / (sqrt(n) * R_h) if R_h <= n**-0.5 else rho**2 / (n * R_h**2)
        if lam < cap:
            return lam
        if cap == float("inf"):
            raise Unsupported("local_lr: 'theory' needs a finite lam, but R_h is 0; give lam as a number")
        task.note(f"the adaptive lambda is capped at 1/local_lr = {cap:g}")
        return cap

    def _lr(self, task: Task, lam: float) -> float:
        return 1 / (smoothness(task) + lam) if self.hparams.local_lr == "theory" else float(self.hparams.local_lr)

    def _gamma(self, task: Task, lam: float) -> float:
        if self.hparams.gamma != "theory":
            return float(self.hparams.gamma)
        if lam == 0:
            raise Unsupported("gamma: 'theory' divides by lam, which is 0; use gamma: auto")
        L = smoothness(task)
        return (lam + L) / (2 * lam * L)

    def _plan(self, task: Task, cohort: Cohort, lam: float) -> Plan:
        steps = self.hparams.inner_steps
        return task.same_batches(cohort, self._theory_steps(task, lam) if steps == "theory" else steps)

    def _theory_steps(self, task: Task, lam: float) -> int:
        """Least n with (2 + 64 L_w^2 lam^2/mu_g^2)(1 - eta mu_l)^n <= (1 - gamma L_g)^4."""
        mu, L = task.model.l2, smoothness(task)
        mu_g, L_g, mu_l, L_w = lam * mu / (lam + mu), lam * L / (lam + L), mu + lam, lam / (lam + mu)
        gamma = 1 / lam if self.hparams.gamma == "auto" and lam else self._gamma(task, lam)
        if gamma * L_g >= 1:
            raise Unsupported(f"inner_steps: 'theory' needs gamma L_g < 1, but it is {gamma * L_g:.3g}; lower gamma")
        factor, shrink = 2 + 64 * L_w**2 * lam**2 / mu_g**2, abs(1 - self._lr(task, lam) * mu_l)
        if shrink >= 1:
            raise Unsupported(f"inner_steps: 'theory' needs local_lr below {2 / mu_l:.3g}, where local steps contract")
        for n in range(1, _MAX_INNER_STEPS):
            if factor * shrink**n <= (1 - gamma * L_g) ** 4:
                return n
        raise Unsupported(
            f"inner_steps: 'theory' requires more than {_MAX_INNER_STEPS} steps; raise l2, or give a number"
        )

    def adapted(self, state: State, newcomers: Cohort, task: Task) -> Predictor:
        start = broadcast(task.initial_model(), newcomers.size)
        w = self._local(state, start, state.lam or 0.0, newcomers, task)
        return Predictor.of_everyone(w.params, newcomers)


def _require_theory(task: Task) -> None:
    """The theory's constants exist for strongly convex linear models only."""
    smoothness(task)
    if not task.model.l2:
        raise Unsupported("'theory' settings need a strongly convex loss: set model.l2 above 0, for instance 0.001")
