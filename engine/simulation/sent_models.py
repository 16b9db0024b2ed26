"""The models that clients send in a round: locally trained copies of the shared model, before they are averaged."""

from engine.core.params import ClientParams, broadcast, in_client_order
from engine.simulation.simulate import Simulation
from engine.training.local import local_sgd


def sent_models(simulation: Simulation) -> ClientParams:
    """[N, ...] The models that FedAvg's clients send in the next round, if all take part. Changes nothing."""
    received = simulation.models().global_model
    assert received is not None  # FedAvg has one
    task = simulation.task
    cohort = task.cohort(simulation.round + 1)
    assert cohort.size == task.num_clients
    trained = local_sgd(task, broadcast(received, cohort.size), cohort)
    return in_client_order(trained.params, cohort.clients)
