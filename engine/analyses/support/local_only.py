"""One client of a run, trained alone: the model that LocalTrain would have given it, without training the others."""

from dataclasses import replace

from engine.analyses.support.loaded_run import Subject
from engine.core.params import SharedParams, broadcast, row
from engine.training.local import local_sgd


def trained_alone(subject: Subject, client: int) -> SharedParams:
    """From the common start, in those of the subject's rounds that the client took part in, on the same batches."""
    theta = broadcast(subject.task.initial_model(), 1)
    for round in range(1, subject.round + 1):
        subject.progress(0.5 * round / subject.round)
        task = replace(subject.task, training=subject.config.training.in_round(round))
        if client in task.participants(round):
            theta = local_sgd(task, theta, task.cohort_of([client], round)).params
    return row(theta, 0)
