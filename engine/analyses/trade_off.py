"""The trade-off of personalization: each client's model on its own test data and on everyone else's.

    own_i    = accuracy of w_i on the test data of client i
    others_i = accuracy of w_i on the test data of all other clients together, pooled

The axes of the trade-off plane, for runs that were not evaluated on a common test set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from engine.analyses import AnalysisOptions
from engine.analyses.support.layouts import Layout
from engine.analyses.support.loaded_run import Subject
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.task import Predictor
from engine.training.evaluate import evaluate


@ANALYSES.register(
    "trade_off", title="Own data versus everyone's", paper="Accuracy of each personalized model beyond its client"
)
@dataclass(frozen=True)
class TradeOff:
    """Arrays ``own`` [N] and ``others`` [N]; NaN for clients whose own, or whose others', test data are empty."""

    options: AnalysisOptions

    @staticmethod
    def layout(params: Mapping[str, Any]) -> Layout:
        return Layout({"own": "N", "others": "N"})

    def compute(self, subject: Subject) -> Findings:
        task, personalized = subject.task, subject.personalized
        if task.num_clients < 2:
            raise Unsupported("the run has a single client; choose a run with two clients or more")
        own, others = np.full(task.num_clients, np.nan), np.full(task.num_clients, np.nan)
        sizes = task.data.test.sizes.cpu().numpy().astype(float)
        rest = _sums_of_others(sizes)
        for i in range(task.num_clients):
            subject.progress(i / task.num_clients)
            if i == 0 or personalized.is_per_client:  # otherwise it is the same model
                model = Predictor(personalized.of_client(i), is_per_client=False, forward=personalized.forward)
                accuracy, _ = evaluate(task, model, task.data.test)
                correct = _sums_of_others(np.where(sizes > 0, accuracy * sizes, 0.0))
            own[i], others[i] = accuracy[i], correct[i] / rest[i] if rest[i] else np.nan
        return Findings({"own": own, "others": others})


def _sums_of_others(values: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """For each client the sum over all others, without the total: it may be NaN because of this client alone."""
    before, after = (np.cumsum(np.append(0.0, ordered[:-1])) for ordered in (values, values[::-1]))
    return before + after[::-1]
