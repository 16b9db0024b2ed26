"""Clients that never train (``partition.holdout_clients``): what each method gives them after the last round.

The server's state is frozen; ``Algorithm.adapted`` then does for every newcomer what one participation does for a
client, by the method's own rule and on the newcomer's training data. A method without that rule lends its global model.
Under ``training.lr_schedule`` newcomers adapt at the rate as set: at that of the last round, next to nothing, they
would be left as they came.
"""

from typing import Any

import numpy as np

from engine.algorithms import Algorithm
from engine.metrics import summarize_clients
from engine.task import Predictor, Task
from engine.training.evaluate import evaluate


def scores(algorithm: Algorithm, state: Any, task: Task) -> dict[str, np.ndarray]:
    """``accuracy`` and ``loss`` [U] of the clients held out of ``task``; empty where there are none."""
    theirs = task.of_unseen()
    predictor = None if theirs is None else _predictor(algorithm, state, theirs)
    if theirs is None or predictor is None:
        return {}
    accuracy, loss = evaluate(theirs, predictor, theirs.data.test)
    return {"accuracy": accuracy, "loss": loss}


def summary(accuracy: np.ndarray, task: Task) -> dict[str, float]:
    """As that of the clients that train."""
    assert task.data.unseen is not None
    return summarize_clients(accuracy, np.array(task.data.unseen.summary.test_sizes))


def _predictor(algorithm: Algorithm, state: Any, task: Task) -> Predictor | None:
    if hasattr(algorithm, "adapted"):
        return algorithm.adapted(state, task.everyone(stream="newcomers"), task)
    lent = algorithm.global_model(state, task)
    if lent is None or lent.is_per_client:
        task.note("this method does not say how a client that never took part gets a model: it has no `adapted`")
        return None
    return lent
