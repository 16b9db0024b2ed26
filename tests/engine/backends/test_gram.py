"""Proximal steps that carry the outputs of the first layer: when they are used, their values, and overflow."""

import pytest
import torch

from engine.backends import choose_backend
from engine.backends.loop import Loop
from engine.core.params import clone
from tests.support.builders import simulation
from tests.support.networks import batch_of, model_of, stacked
from tests.support.settings import PFEDME


def test_the_first_layers_outputs_are_carried_where_that_takes_fewer_operations():
    backend = simulation("fedavg", model={"name": "mlr"}).task.backend  # 3 classes: B + 9 + 15 B / F against 30
    assert backend.carries_outputs(batch_size=18, num_features=100, steps=5)
    assert not backend.carries_outputs(batch_size=19, num_features=100, steps=5)
    assert not backend.carries_outputs(batch_size=2, num_features=100, steps=1)


@pytest.mark.parametrize("counts", [(4, 4), (5, 2)])
@pytest.mark.parametrize(("name", "options"), [("mlr", {}), ("dnn", {"hidden": 7})])
def test_carried_proximal_steps_equal_plain_ones(name, options, counts):
    model = model_of(name, shape=(20,), classes=4, **options)
    fused = choose_backend("fused", model, torch.device("cpu"))
    batch, anchor = batch_of(counts, shape=(20,), classes=4), stacked(model, 2)
    start = {n: p + 0.1 for n, p in anchor.items()}
    assert fused.carries_outputs(5, 20, steps=6)
    carried, plain = clone(start), clone(start)
    losses = fused.proximal_steps(carried, anchor, batch, 0.3, 0.5, 6)
    torch.testing.assert_close(losses, Loop(model).proximal_steps(plain, anchor, batch, 0.3, 0.5, 6))
    for n, p in plain.items():
        torch.testing.assert_close(carried[n], p)


def test_carried_proximal_steps_may_overflow():
    wild = PFEDME | {"lam": 220.0, "inner_steps": 400, "personal_lr": 0.05}
    assert list(simulation(wild).rounds())[-1].diverged
