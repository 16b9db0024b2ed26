"""The samples of the engine's plans by client, for reference rounds written without the engine."""

import torch

from engine.federation.batches import Plan
from engine.task import Task

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def samples_of(task: Task, clients: torch.Tensor, plan: Plan) -> dict[int, Batches]:
    """(x, y) of every step, for each client."""
    found: dict[int, Batches] = {}
    for s, client in enumerate(clients.tolist()):
        found[client] = []
        for t in range(plan.steps[s]):
            column = 0 if plan.is_full else t
            rows = plan.rows[s, column, : plan.counts[column][s]]
            found[client].append((task.data.train.features(rows), task.data.train.labels(rows)))
    return found
