"""FedPer is local training without a body and FedAvg without a head."""

import dataclasses

from torch import nn

from engine.backends.batched import Batched
from engine.core.registry import ALGORITHMS
from engine.models import Model, SplitModel
from tests.support.builders import assert_equal, personalized, simulation, trained


def test_fedper_with_an_empty_body_is_local_training_with_a_note():
    run = trained("fedper")
    assert_equal(personalized(run), personalized(trained("local_train")))
    assert run.algorithm.shared(run.state).bytes_up == 0
    assert any("local training" in note for note in run.task.notes)


def test_fedper_with_an_empty_head_is_fedavg_with_a_note():
    states = {}
    for name in ("fedper", "fedavg"):
        task = simulation(name).task
        make = lambda: SplitModel(nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), nn.Identity())  # noqa: E731
        model = Model(make(), make)
        task = dataclasses.replace(task, model=model, backend=Batched(model))
        entry = ALGORITHMS.get(name)
        method = entry.make(entry.options())
        states[name] = method.init(task)
        for round in (1, 2):
            states[name], _ = method.round(states[name], task.cohort(round), task)
        assert any("is fedavg" in note for note in task.notes) == (name == "fedper")
    assert_equal(states["fedper"].shared_params, states["fedavg"].global_params)
