"""Softmax regression with numpy, one client at a time: what the papers' lines say, written without the engine.

A model is W [C, F + 1], the last column the bias. ``batches[i][t]`` are (x, y) of client i's step t.
"""

import numpy as np

Model = np.ndarray


def gradient(W: Model, x: np.ndarray, y: np.ndarray) -> Model:
    """Of the mean cross-entropy."""
    x = np.c_[x, np.ones(len(x))]
    z = x @ W.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(x)


def sgd(W: Model, batches: list, lr: float, lam: float = 0.0, anchor: Model | float = 0.0) -> Model:
    for x, y in batches:
        W = W - lr * (gradient(W, x, y) + lam * (W - anchor))
    return W


def moreau(W: Model, batches: list, lr: float, lam: float, inner: int, personal_lr: float) -> tuple[Model, Model]:
    """(theta, w) of pFedMe's client."""
    theta, w = W, W
    for x, y in batches:
        for _ in range(inner):
            theta = theta - personal_lr * (gradient(theta, x, y) + lam * (theta - w))
        w = w - lr * lam * (w - theta)
    return theta, w
