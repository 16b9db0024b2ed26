"""Clients held out of training (``partition.holdout_clients``): the models they get after the last round.

The server's state is frozen. ``AdaptsToNewcomers.adapted`` then does for each newcomer what one participation does for
a client, by the method's own rule and on the newcomer's training data. Methods without it use the global model. Under
``training.lr_schedule`` newcomers adapt at the initial rate: the rate of the last round may be close to zero, and they
would not adapt.
"""

from typing import Any

import numpy as np

from engine.algorithms import AdaptsToNewcomers, Algorithm
from engine.metrics import summarize_clients
from engine.task import Predictor, Task
from engine.training.evaluate import evaluate


def scores(algorithm: Algorithm, state: Any, task: Task) -> dict[str, np.ndarray]:
    """``accuracy`` and ``loss`` [U] of the held-out clients of ``task``; empty if there are none."""
    adapted = task.of_unseen()
    predictor = None if adapted is None else _predictor(algorithm, state, adapted)
    if adapted is None or predictor is None:
        return {}
    accuracy, loss = evaluate(adapted, predictor, adapted.data.test)
    return {"accuracy": accuracy, "loss": loss}


def summary(accuracy: np.ndarray, task: Task) -> dict[str, float]:
    """The client summaries, as for clients that train."""
    assert task.data.unseen is not None
    return summarize_clients(accuracy, task.data.unseen.test_sizes)


def _predictor(algorithm: Algorithm, state: Any, task: Task) -> Predictor | None:
    if isinstance(algorithm, AdaptsToNewcomers):
        return algorithm.adapted(state, task.everyone(stream="newcomers"), task)
    borrowed = algorithm.global_model(state, task)
    if borrowed is None or borrowed.is_per_client:
        task.note("this method has no model for clients that never took part: it does not implement `adapted`")
        return None
    return borrowed
