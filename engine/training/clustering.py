"""FedAvg inside clusters, and how clients are assigned to them: shared by IFCA, CFL and FL+HC."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from engine.channel import Arrived
from engine.core.params import ClientParams, broadcast, clone, gather
from engine.federation.batches import Cohort
from engine.task import Task
from engine.training.evaluate import training_losses
from engine.training.kmeans import Contexts
from engine.training.local import Trained, local_sgd
from engine.training.similarity import cosines


def single_cluster(task: Task) -> Contexts:
    """All clients in one cluster, whose model is the common initial one."""
    return Contexts(clone(broadcast(task.initial_model(), 1)), task.data.train.sizes.new_zeros(task.num_clients))


def train_inside(task: Task, contexts: Contexts, cohort: Cohort) -> tuple[Trained, Arrived]:
    """Each participant trains a copy of its cluster's model and sends it."""
    start = gather(contexts.models, contexts.assigned[cohort.clients])
    trained = local_sgd(task, start, cohort)
    return trained, task.channel.deliver(trained.params, start, cohort, cohort.weights)


def updates_of(arrived: Arrived, contexts: Contexts, clients: Int[Tensor, "A"]) -> ClientParams:
    """w_i - omega_k of the copies that arrived from these clients."""
    start = gather(contexts.models, contexts.assigned[clients])
    return {n: p - start[n] for n, p in arrived.params.items()}


def least_loss(losses: Float[Tensor, "clients K"]) -> Int[Tensor, "clients"]:
    """The model with the least loss on each client; ties go to the lowest number, and losses must be finite."""
    return losses.nan_to_num(nan=torch.inf, posinf=torch.inf).argmin(1)


def best_fitting(task: Task, models: ClientParams) -> ClientParams:
    """The model of [K, ...] with the least loss on the training data of each client of ``task``."""
    return gather(models, least_loss(training_losses(task, models)))


def cosine_similarity(updates: ClientParams) -> Float[np.ndarray, "S S"]:
    """Between the flattened updates of all pairs; 0 where one of them is zero."""
    return cosines(updates, updates).cpu().numpy()
