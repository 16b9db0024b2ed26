"""FedOpt: its limits, and rounds of its four servers computed with numpy."""

import numpy as np
import pytest

from engine.core.errors import InvalidConfig
from tests.support import reference
from tests.support.builders import (
    LR,
    NEWCOMERS,
    SIZES,
    assert_close,
    config,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.reference import as_matrix, batches_of, newcomers_of, start_of
from tests.support.settings import VARIED_TRAINING

SERVERS = ("adam", "yogi", "adagrad", "sgd")


def fedopt(**options):
    return {"name": "fedopt", **options}


def after_a_round(**options):
    """(w, D) as arrays, after one round."""
    run = trained(fedopt(**options), rounds=1)
    start = start_of(run)
    copies = [reference.sgd(start, batches, LR) for batches in batches_of(run, 1)]
    return as_matrix(shared_model(run)), np.average(copies, axis=0, weights=SIZES) - start, start


@pytest.mark.parametrize("training", VARIED_TRAINING, ids=str)
def test_fedopt_with_plain_steps_of_length_one_is_fedavg(training):
    found = trained(fedopt(server="sgd", server_lr=1, beta1=0), rounds=3, **training)
    assert_close(shared_model(found), shared_model(trained("fedavg", rounds=3, **training)), 1e-13)
    assert any("the same as fedavg" in note for note in found.task.notes)


@pytest.mark.parametrize("server", ["adagrad", "yogi"])
def test_fedopt_with_a_large_tau_tends_to_fedavg(server):
    fedavg = shared_model(trained("fedavg", rounds=3))
    for tau, error in ((100, 1e-5), (1e4, 1e-9)):
        found = trained(fedopt(server=server, beta1=0, server_lr=2 * tau, tau=tau), rounds=3)
        assert_close(shared_model(found), fedavg, error)


def test_the_first_step_of_fedadam_has_no_bias_correction():
    w, change, start = after_a_round(server="adam", server_lr=0.3, beta1=0.8, beta2=0.7, tau=0.05)
    expected = start + 0.3 * 0.2 * change / (np.sqrt(0.7 * 0.05**2 + 0.3 * change**2) + 0.05)
    np.testing.assert_allclose(w, expected, atol=1e-13)


def test_fedadam_without_memory_moves_every_coordinate_by_the_learning_rate():
    w, change, start = after_a_round(server="adam", server_lr=0.3, beta1=0, beta2=0, tau=1e-12)
    np.testing.assert_allclose(w, start + 0.3 * np.sign(change), atol=1e-8)


def test_yogi_and_adam_agree_where_the_squares_are_at_rest():
    """v starts at tau^2; where D^2 equals it, neither changes it."""
    run = simulation(fedopt(server="yogi", tau=0.5))
    yogi, adam = run.algorithm, simulation(fedopt(server="adam", tau=0.5)).algorithm
    update = {n: p.new_full(p.shape, 0.5) for n, p in run.state.global_params.items()}
    for method in (yogi, adam):
        assert_close(method._step(run.state, update).mean_square, run.state.mean_square, 1e-15)
    assert_close(yogi._step(run.state, update).global_params, adam._step(run.state, update).global_params, 1e-15)


@pytest.mark.parametrize("server", SERVERS)
def test_rounds_of_every_server_follow_the_paper(server):
    h = {"server_lr": 0.4, "beta1": 0.6, "beta2": 0.8, "tau": 0.01}
    run = trained(fedopt(server=server, **h), rounds=3, participation=0.75)
    w = start_of(run)
    m, v = np.zeros_like(w), np.full_like(w, 0.01**2)
    for round in (1, 2, 3):
        copies = [(reference.sgd(w, b, LR), n) for b, n in zip(batches_of(run, round), SIZES, strict=True) if b]
        change = np.average([c for c, _ in copies], axis=0, weights=[n for _, n in copies]) - w
        for where in np.ndindex(w.shape):
            d = change[where]
            if server == "sgd":
                m[where] = 0.6 * m[where] + d
                w[where] += 0.4 * m[where]
                continue
            m[where] = 0.6 * m[where] + 0.4 * d
            if server == "adagrad":
                v[where] += d * d
            elif server == "adam":
                v[where] = 0.8 * v[where] + 0.2 * d * d
            elif v[where] > d * d:
                v[where] -= 0.2 * d * d
            else:
                v[where] += 0.2 * d * d
            w[where] += 0.4 * m[where] / (np.sqrt(v[where]) + 0.01)
    np.testing.assert_allclose(as_matrix(shared_model(run)), w, atol=1e-11)
    np.testing.assert_allclose(as_matrix(run.state.mean_square), v, atol=1e-12)


@pytest.mark.parametrize(
    ("server", "server_lr", "beta1"), [("adam", 0.01, 0.9), ("yogi", 0.01, 0.9), ("adagrad", 0.1, 0), ("sgd", 1, 0.9)]
)
def test_the_automatic_settings_depend_on_the_server(server, server_lr, beta1):
    written_out = trained(fedopt(server=server, server_lr=server_lr, beta1=beta1))
    assert_close(shared_model(trained(fedopt(server=server))), shared_model(written_out), 0)


@pytest.mark.parametrize("option", [{"server_lr": 0}, {"beta1": 1}, {"beta2": 1}, {"tau": 0}, {"server": "lamb"}])
def test_fedopt_refuses_impossible_options(option):
    with pytest.raises(InvalidConfig, match=next(iter(option))):
        config(fedopt(**option))


def test_fedopt_records_the_update_and_the_scale_of_its_steps():
    _, change, _ = after_a_round()
    run = simulation(fedopt(), rounds=1)
    last = list(run.rounds())[-1]
    assert last.scalars["diagnostics.server_update_norm"] == pytest.approx(np.linalg.norm(change))
    v = as_matrix(run.state.mean_square)
    assert last.scalars["diagnostics.mean_sqrt_v"] == pytest.approx(np.sqrt(v).mean())
    assert "diagnostics.mean_sqrt_v" not in list(simulation(fedopt(server="sgd"), rounds=1).rounds())[-1].scalars


def test_a_newcomer_of_fedopt_uses_the_global_model():
    run = trained("fedopt", with_newcomers())
    np.testing.assert_array_equal(newcomers_of(run)[0], [as_matrix(shared_model(run))] * len(NEWCOMERS))
