"""FedAvg and SCAFFOLD on clients with quadratic losses of a model of two numbers: local paths that can be drawn.

    f_i(w) = 1/2 (w - o_i)^T H_i (w - o_i)        client i's loss, with its optimum at o_i
    f(w)   = 1/N sum_i f_i(w)                     with its minimum at (sum_i H_i)^-1 sum_i H_i o_i

E local steps with full gradients take client i from w to o_i + (I - lr H_i)^E (w - o_i), so that FedAvg stops where
sum_i [I - (I - lr H_i)^E] (w - o_i) = 0: at the minimum of f for E = 1, at the mean of the optima for large E.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh. SCAFFOLD: Stochastic Controlled Averaging for Federated Learning.
ICML 2020. https://arxiv.org/abs/1910.06378, Algorithm 1, option II, with all clients and server_lr = 1.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Clients:
    """The clients' quadratic losses."""

    curvatures: np.ndarray  # [N, 2, 2] H_i, symmetric and positive
    optima: np.ndarray  # [N, 2] o_i

    @property
    def minimum(self) -> np.ndarray:
        """[2]: the minimum of the mean loss."""
        return np.asarray(np.linalg.solve(self.curvatures.sum(0), self._pull(self.curvatures)))

    def fedavg_end(self, E: int, lr: float) -> np.ndarray:
        """[2] where FedAvg with ``E`` local steps stops."""
        identity = np.eye(2)
        moved = np.stack([identity - np.linalg.matrix_power(identity - lr * H, E) for H in self.curvatures])
        return np.asarray(np.linalg.solve(moved.sum(0), self._pull(moved)))

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """[N, 2] of each client at its own model ``w`` [N, 2]."""
        return np.einsum("nij,nj->ni", self.curvatures, w - self.optima)

    def loss(self, w: np.ndarray) -> np.ndarray:
        """[...] the mean loss at ``w`` [..., 2]."""
        away = w[..., None, :] - self.optima
        return np.asarray(np.einsum("...ni,nij,...nj->...n", away, self.curvatures, away).mean(-1) / 2)

    def _pull(self, matrices: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("nij,nj->i", matrices, self.optima))


@dataclass(frozen=True, eq=False)
class Method:
    """FedAvg, or SCAFFOLD where it ``is_corrected``, after some rounds."""

    clients: Clients
    E: int
    lr: float
    is_corrected: bool
    server: np.ndarray  # [rounds + 1, 2] its model, from the start on
    own: np.ndarray  # [N, 2] c_i
    paths: np.ndarray | None = None  # [E + 1, N, 2] local steps of the last round

    @classmethod
    def untrained(cls, clients: Clients, E: int, lr: float, start: np.ndarray, *, is_corrected: bool) -> "Method":
        """The method before its first round, at the model ``start`` [2]."""
        return cls(clients, E, lr, is_corrected, start[None], np.zeros_like(clients.optima))

    def round(self) -> "Method":
        """Every client takes ``E`` steps from the server's model, and the server takes the mean."""
        received, common = self.server[-1], self.own.mean(0)
        path = [np.repeat(received[None], len(self.clients.optima), 0)]
        correction = common - self.own if self.is_corrected else 0.0
        for _ in range(self.E):
            path.append(path[-1] - self.lr * (self.clients.gradients(path[-1]) + correction))
        own = self.own - common + (received - path[-1]) / (self.E * self.lr)
        return replace(self, server=np.vstack([self.server, path[-1].mean(0)]), own=own, paths=np.stack(path))

    @property
    def distances(self) -> np.ndarray:
        """[rounds + 1]: the distance of the server's model from the minimum, after every round."""
        return np.asarray(np.linalg.norm(self.server - self.clients.minimum, axis=1))
