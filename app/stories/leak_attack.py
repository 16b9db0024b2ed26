"""What the gradient of a linear model reveals of the images it was computed on.

For softmax regression with logits W x + b, the mean gradient over a batch is

    dW_c = mean_i (p_ic - [y_i = c]) x_i        db_c = mean_i (p_ic - [y_i = c])

so that one image is dW_c / db_c exactly, from the row of any class c, and several images are mixed. With the sign of
-dW_c / |db_c| the images of class c count positively.

Zhu, Liu, Han. Deep Leakage from Gradients. NeurIPS 2019. https://arxiv.org/abs/1906.08935. Geiping et al. Inverting
Gradients: How Easy Is It to Break Privacy in Federated Learning? NeurIPS 2020. https://arxiv.org/abs/2003.14053.
"""

import numpy as np


def recovered(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """[C, d] what each class's row of the gradients [C, d] and [C] shows of the images of that class."""
    return np.asarray(-weight / np.abs(bias)[:, None])


def with_noise(gradient: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """``gradient`` plus Gaussian noise, of a deviation of ``share`` times the root mean square of the gradient."""
    deviation = share * np.sqrt(np.mean(gradient**2))
    return np.asarray(gradient + deviation * rng.standard_normal(gradient.shape))


def similarity(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """[n] correlation of the pixels of pictures [n, d], pair by pair: 1 for equal ones, 0 for unrelated ones."""
    centered = [pictures - pictures.mean(1, keepdims=True) for pictures in (one, other)]
    norms = [np.linalg.norm(pictures, axis=1) for pictures in centered]
    return np.asarray((centered[0] * centered[1]).sum(1) / (norms[0] * norms[1]))
