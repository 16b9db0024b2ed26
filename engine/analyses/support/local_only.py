"""Trains one client of a run alone: the model that LocalTrain would have given it."""

from dataclasses import replace

from engine.analyses.support.loaded_run import Subject
from engine.core.params import SharedParams, broadcast, row
from engine.training.local import local_sgd


def trained_alone(subject: Subject, client: int) -> SharedParams:
    """Trains from the initial model, in the subject's rounds in which the client took part, on the same batches."""
    theta = broadcast(subject.task.initial_model(), 1)
    for round in range(1, subject.round + 1):
        subject.progress(0.5 * round / subject.round)
        task = replace(subject.task, training=subject.config.training.in_round(round))
        if client in task.participants(round):
            theta = local_sgd(task, theta, task.cohort_of([client], round)).params
    return row(theta, 0)
