"""Proximal steps on logits: when they are used, and when they overflow."""

from tests.support.builders import simulation
from tests.support.settings import PFEDME


def test_proximal_steps_on_logits_are_for_small_batches_and_may_overflow():
    backend = simulation("fedavg").task.backend
    assert backend.steps_on_logits(batch_size=30, steps=5)
    assert not backend.steps_on_logits(batch_size=31, steps=5)
    wild = PFEDME | {"lam": 220.0, "inner_steps": 400, "personal_lr": 0.05}
    assert list(simulation(wild).rounds())[-1].diverged
