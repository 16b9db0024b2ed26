"""pFedHN: client embeddings, the server's step, communication and notes."""

import math

import pytest
import torch

from engine.core.params import map_params
from tests.support.builders import SIZES, assert_close, federation, simulation, trained
from tests.support.hypernetworks import NETWORK, SMALL


@pytest.mark.parametrize(("sizes", "dim"), [(SIZES, 2), ((4,) * 7, 2), ((4,) * 9, 3)])
def test_the_embedding_size_grows_with_the_number_of_clients(sizes, dim):
    run = simulation("pfedhn", federation(sizes))
    assert run.state.embeddings.shape == (len(sizes), dim)


def test_a_long_server_step_is_clipped():
    run = simulation({"name": "pfedhn", **SMALL, "clip": 1e-3}, model=NETWORK)
    after, _ = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    steps = [*map_params(torch.sub, after.psi, run.state.psi).values(), after.embeddings - run.state.embeddings]
    assert math.sqrt(sum(float(s.square().sum()) for s in steps)) == pytest.approx(0.3 * 1e-3)


def test_models_are_sent_and_the_hypernetwork_is_not():
    run = simulation("pfedhn", model=NETWORK, participation=0.5)
    results = list(run.rounds())
    size = sum(p.nbytes for p in run.task.initial_model().values())
    assert results[1].scalars["bytes_up"] == results[1].scalars["bytes_down"] == 2 * size


def test_a_zero_initialization_is_noted_to_have_no_effect():
    notes = simulation("pfedhn", model={"name": "mlr", "init": "zeros"}).task.notes
    assert any("no effect" in note for note in notes)


def test_a_large_hypernetwork_is_noted(monkeypatch):
    monkeypatch.setattr("engine.training.hypernetwork.LARGE", 100)
    assert any("1.8e+03 numbers" in note for note in simulation("pfedhn").task.notes)  # 18 parameters, hidden 100


def test_newcomers_are_fitted_independently():
    run = trained({"name": "pfedhn", **SMALL, "clip": 0.01}, model=NETWORK)
    task = simulation("pfedhn", federation((5, 8, 6), seed=7), model=NETWORK, local_epochs=2).task
    together = run.algorithm.adapted(run.state, task.everyone(stream="newcomers"), task)
    pair = simulation("pfedhn", federation((5, 8), seed=7), model=NETWORK, local_epochs=2).task
    fewer = run.algorithm.adapted(run.state, pair.everyone(stream="newcomers"), pair)
    assert_close({n: p[:2] for n, p in together.params.items()}, dict(fewer.params), 1e-12)
