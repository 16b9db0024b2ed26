"""Evaluates the models of a method on all sets of samples."""

from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int

from engine.algorithms import Algorithm
from engine.core.streams import numpy_stream
from engine.core.vocabulary import add_prefix
from engine.task import Predictor, Task
from engine.training import statistical_error
from engine.training.evaluate import evaluate, evaluate_common


def evaluated_clients(count: int | None, split: int, num_clients: int) -> Int[np.ndarray, "n"]:
    """The clients that are evaluated: all, or ``count`` of them, drawn once from the seed of the data's split."""
    if count is None or count >= num_clients:
        return np.arange(num_clients)
    return np.sort(numpy_stream(split, "evaluated clients").choice(num_clients, count, replace=False))


def score(algorithm: Algorithm, state: Any, task: Task, on: Literal["both", "val"] = "both") -> dict[str, np.ndarray]:
    """Arrays of the personalized and the global model; evaluated once if both are the same.

    With ``on="val"`` nothing is computed on test data, nor from the true model.
    """
    personalized = algorithm.personalized(state, task)
    shared = algorithm.global_model(state, task)
    measure = _on_validation if on == "val" else _scores
    arrays = measure(personalized, task)
    scores = add_prefix("personalized", arrays)
    if shared is not None:
        scores |= add_prefix("global", arrays if _is_same(shared, personalized) else measure(shared, task))
    if on == "both" and statistical_error.is_known(task):
        if statistical_error.has_directions(personalized):
            scores["personalized.total_error"] = statistical_error.total_error(task, personalized, is_global=False)
        if shared is not None and statistical_error.has_directions(shared):
            scores["global.total_error"] = statistical_error.total_error(task, shared, is_global=True)
    return {n: v.astype(stored_dtype(task)) for n, v in scores.items()}


def stored_dtype(task: Task) -> type[np.floating[Any]]:
    """The dtype of recorded client values: float64 for float64 runs."""
    return np.float64 if task.dtype == torch.float64 else np.float32


def _scores(predictor: Predictor, task: Task) -> dict[str, np.ndarray]:
    arrays = {}
    arrays["accuracy"], arrays["loss"] = evaluate(task, predictor, task.data.test)
    if task.data.val.num_samples:
        arrays |= _on_validation(predictor, task)
    if task.data.common_test is not None:
        arrays["common_accuracy"], arrays["common_loss"] = evaluate_common(task, predictor)
    return arrays


def _on_validation(predictor: Predictor, task: Task) -> dict[str, np.ndarray]:
    accuracy, loss = evaluate(task, predictor, task.data.val)
    return {"val_accuracy": accuracy, "val_loss": loss}


def _is_same(a: Predictor, b: Predictor) -> bool:
    """Whether two predictors are the same model, so that one evaluation is enough."""
    return a.params is b.params and a.is_per_client == b.is_per_client and a.forward is b.forward
