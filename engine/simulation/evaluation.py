"""Evaluates the models of a method on all sets of samples."""

from typing import Any

import numpy as np
import torch

from engine.algorithms import Algorithm
from engine.task import Predictor, Task
from engine.training import statistical_error
from engine.training.evaluate import evaluate, evaluate_common


def score(algorithm: Algorithm, state: Any, task: Task) -> dict[str, np.ndarray]:
    """Arrays of the personalized and the global model; evaluated once if both are the same."""
    personalized = algorithm.personalized(state, task)
    shared = algorithm.global_model(state, task)
    arrays = _scores("personalized", personalized, task)
    if shared is not None and _is_same(shared, personalized):
        arrays |= {n.replace("personalized", "global"): v for n, v in arrays.items()}
        if statistical_error.is_known(task):  # the same model, but compared with another true model
            arrays["global.total_error"] = _total_error("global", shared, task)
    elif shared is not None:
        arrays |= _scores("global", shared, task)
    return arrays


def stored_dtype(task: Task) -> type[np.floating[Any]]:
    """The dtype of recorded client values: float64 for float64 runs."""
    return np.float64 if task.dtype == torch.float64 else np.float32


def _scores(path: str, predictor: Predictor, task: Task) -> dict[str, np.ndarray]:
    accuracy, loss = evaluate(task, predictor, task.data.test)
    arrays = {f"{path}.accuracy": accuracy, f"{path}.loss": loss}
    if sum(task.data.summary.val_sizes):
        arrays[f"{path}.val_accuracy"], arrays[f"{path}.val_loss"] = evaluate(task, predictor, task.data.val)
    if task.data.common_test is not None:
        common = evaluate_common(task, predictor)
        arrays[f"{path}.common_accuracy"], arrays[f"{path}.common_loss"] = common
    if statistical_error.is_known(task):
        arrays[f"{path}.total_error"] = _total_error(path, predictor, task)
    return {n: v.astype(stored_dtype(task)) for n, v in arrays.items()}


def _total_error(path: str, predictor: Predictor, task: Task) -> np.ndarray:
    return statistical_error.total_error(task, predictor, is_global=path == "global").astype(stored_dtype(task))


def _is_same(a: Predictor, b: Predictor) -> bool:
    """Whether two predictors are the same model, so that one evaluation is enough."""
    return a.params is b.params and a.is_per_client == b.is_per_client and a.forward is b.forward
