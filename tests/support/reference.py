"""The papers' equations for softmax regression with numpy, one client at a time and without the engine.

A model is W [C, F + 1], the last column the bias. ``batches[i][t]`` are (x, y) of client i's step t.
"""

import numpy as np
import torch

from tests.support.batches import samples_of

Model = np.ndarray


def as_matrix(params: dict[str, torch.Tensor]) -> Model:
    """The engine's weights as [..., C, F + 1]."""
    return torch.cat([params["head.weight"], params["head.bias"][..., None]], -1).numpy()


def start_of(run) -> Model:
    """The common initial model."""
    return as_matrix(run.task.initial_model())


def batches_of(run, round: int) -> list:
    """The batches of the engine's plan: [client][step] (x, y); None for absent clients."""
    return steps_of(run.task, run.task.cohort(round))


def steps_of(task, cohort) -> list:
    """The same for a cohort outside the rounds, or with batches of another stream."""
    found = {
        client: [(x.flatten(1).numpy(), y.numpy()) for x, y in steps]
        for client, steps in samples_of(task, cohort.clients, cohort.plan).items()
    }
    return [found.get(i) for i in range(task.num_clients)]


def newcomers_of(run) -> tuple[Model, list]:
    """The models of clients that never participated, and their training batches."""
    task = run.task.of_unseen()
    cohort = task.everyone(stream="newcomers")
    predictor = run.algorithm.adapted(run.state, cohort, task)
    found = as_matrix(dict(predictor.params))
    return found if predictor.is_per_client else np.stack([found] * task.num_clients), steps_of(task, cohort)


def loss(W: Model, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy."""
    z = np.c_[x, np.ones(len(x))] @ W.T
    return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]))


def gradient(W: Model, x: np.ndarray, y: np.ndarray) -> Model:
    """The gradient of the mean cross-entropy."""
    x = np.c_[x, np.ones(len(x))]
    z = x @ W.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(x)


def hessian_vector(W: Model, V: Model, x: np.ndarray, y: np.ndarray) -> Model:
    """The derivative of ``gradient`` along V."""
    x = np.c_[x, np.ones(len(x))]
    z, along = x @ W.T, x @ V.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p * (along - (p * along).sum(1, keepdims=True))).T @ x / len(x)


def sgd(W: Model, batches: list, lr: float, lam: float = 0.0, anchor: Model | float = 0.0) -> Model:
    for x, y in batches:
        W = W - lr * (gradient(W, x, y) + lam * (W - anchor))
    return W


def moreau(W: Model, batches: list, lr: float, lam: float, inner: int, personal_lr: float) -> tuple[Model, Model]:
    """(theta, w) of a client of pFedMe."""
    theta, w = W, W
    for x, y in batches:
        for _ in range(inner):
            theta = theta - personal_lr * (gradient(theta, x, y) + lam * (theta - w))
        w = w - lr * lam * (w - theta)
    return theta, w
