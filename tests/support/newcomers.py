"""Clients that never train: the models they get, and training alone."""

import torch

from engine.core.params import broadcast, in_client_order
from engine.simulation.simulate import Simulation
from engine.task import Task
from engine.training.local import local_sgd


def unseen_models(run: Simulation) -> dict[str, torch.Tensor]:
    """The method's models for clients that never participated."""
    task = run.task.of_unseen()
    return dict(run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task).params)


def trained_alone(run: Simulation) -> dict[str, torch.Tensor]:
    """Each newcomer's model after local SGD from the initial model."""
    task: Task = run.task.of_unseen()
    cohort = task.everyone(stream="newcomers")
    received = broadcast(task.initial_model(), cohort.size)
    return in_client_order(local_sgd(task, received, cohort).params, cohort.clients)
