"""The channel of a round: with nothing set it changes nothing and counts what each method says that it sends."""

from dataclasses import replace

import pytest
import torch

from engine.aggregators import Aggregator
from engine.aggregators.mean import Mean
from engine.aggregators.median import Median
from engine.channel.dials import Dials
from engine.simulation.simulate import Simulation
from tests.support.builders import assert_close, assert_equal, personalized, simulation

SPLIT = {"name": "dnn", "hidden": 6}


def with_round_channel(aggregator: Aggregator | None = None, **changed) -> tuple[Simulation, list]:
    """A run whose uploads pass a ``RoundChannel`` with nothing set but the aggregator, if any."""
    run = simulation(**changed)
    run.dials = Dials(run.config.seed, run.task.num_clients, aggregator=aggregator or Mean())
    return run, [*run.rounds()]


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "pfedhn", "cgpfl", "fedproto", "fedmd", "fedfomo"])
def test_a_round_channel_with_nothing_set_counts_the_bytes_of_the_method_and_changes_nothing(name):
    """A method for each kind of upload; tests/engine/simulation/test_systems.py has all methods."""
    settings = {"algorithm": name, "model": SPLIT, "participation": 0.75}
    plain = simulation(**settings)
    expected = [*plain.rounds()]
    run, found = with_round_channel(**settings)
    assert [r.scalars["bytes_up"] for r in found] == [r.scalars["bytes_up"] for r in expected]
    if name != "fedproto":  # which counts for itself
        assert found[-1].scalars["bytes_up"] == 3 * plain.algorithm.shared(plain.state).bytes_up
    assert_equal(personalized(run), personalized(plain))


def test_with_a_dial_on_the_global_model_of_l2gd_is_that_of_the_last_exchange():
    run, _ = with_round_channel(Median(), algorithm={"name": "l2gd", "p": 0.0})
    assert_equal(run.state.global_params, run.task.initial_model())


def test_it_counts_only_the_classes_that_a_client_has():
    run, rounds = with_round_channel(algorithm="fedproto", model=SPLIT, rounds=1)
    known = int((run.task.data.class_counts > 0).sum())
    assert rounds[-1].scalars["bytes_up"] == known * run.state.prototypes[0].nbytes


def test_controls_of_scaffold_move_by_the_share_of_clients_that_took_part():
    run, _ = with_round_channel(algorithm="scaffold", rounds=1, participation=0.5)
    mean = {n: p.sum(0) / 4 for n, p in run.state.client_controls.items()}
    assert_close(run.state.control, mean)


class Zero:
    """A backend whose gradients are zero."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def accumulate(self, out, params, batch, alpha, beta, objective=None, extras=None):
        for p in out.values():
            p.mul_(beta)
        return torch.zeros(batch.size, dtype=torch.float64)


@pytest.mark.parametrize("name", ["ditto", "apfl"])
def test_models_that_stay_with_their_client_are_trained_by_the_unprotected_backend(name):
    run = simulation(name, rounds=1)
    assert run.task.without_upload_privacy is run.task
    task = replace(run.task, backend=Zero(run.task.backend), unprotected_backend=run.task.backend)
    state, _ = run.algorithm.round(run.state, task.cohort(1), task)
    assert_close(state.global_params, run.state.global_params)
    assert not torch.equal(state.personal_params["head.weight"], run.state.personal_params["head.weight"])
