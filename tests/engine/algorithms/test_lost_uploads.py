"""Baselines and MOCHA where uploads are lost: the server uses those that arrive, and without any it stays as it is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support import reference
from tests.support.builders import LR, SIZES, assert_close, assert_equal, simulation
from tests.support.lost_uploads import Lossy
from tests.support.reference import as_matrix, batches_of, start_of
from tests.support.settings import DNN


def after_a_round(name: str | dict[str, Any], arriving: tuple[int, ...], **training: Any):
    run = simulation(name, **training)
    lost = tuple(client for client in range(run.task.num_clients) if client not in arriving)
    task = replace(run.task, channel=Lossy(lost))
    return run, run.algorithm.round(run.state, task.cohort(1), task)[0]


SERVERS = {  # what the server computes from the uploads
    "fednova": ("global_params",),
    "qffl": ("global_params",),
    "term": ("global_params",),
    "afl": ("last_params", "global_params"),
    "feddyn": ("global_params", "mean_drift"),
    "fedopt": ("global_params", "mean_update", "mean_square"),
    "mocha": ("duals",),
}


@pytest.mark.parametrize("name", SERVERS)
def test_without_uploads_the_server_stays_as_it_is(name):
    run, after = after_a_round(name, ())
    for field in SERVERS[name]:
        assert_equal(getattr(after, field), getattr(run.state, field))


@pytest.mark.parametrize("name", ["fednova", "qffl", "term", "fedopt"])
def test_lost_uploads_count_as_little_as_absent_clients(name):
    """The same as a round in which only those take part whose uploads arrive."""
    run, after = after_a_round(name, (1, 2), local_epochs=1)
    few = run.task.cohort_of([1, 2], 1)
    expected, _ = run.algorithm.round(run.state, few, run.task)
    assert_close(after.global_params, expected.global_params, 1e-12)


def test_only_weights_of_arrived_losses_rise_in_afl():
    run, after = after_a_round("afl", (0, 3))
    losses = [
        reference.loss(start_of(run), x.numpy(), y.numpy()) for x, y in map(run.task.data.train.of_client, (0, 3))
    ]
    raised = np.full(4, 0.25)
    raised[[0, 3]] += 0.1 * 4 / 2 * np.array(losses)
    np.testing.assert_allclose(after.client_weights, raised - (raised.sum() - 1) / 4, atol=1e-12)


def test_a_client_of_feddyn_remembers_a_drift_that_was_lost():
    run, after = after_a_round("feddyn", (2,))
    start, found = start_of(run), as_matrix(after.client_drifts)
    copies = [reference.sgd(start, batches, LR, 0.01, start) for batches in batches_of(run, 1)]
    np.testing.assert_allclose(found, copies - start, atol=1e-12)
    np.testing.assert_allclose(as_matrix(after.mean_drift), found[2] / len(SIZES), atol=1e-12)
    np.testing.assert_allclose(as_matrix(after.global_params), copies[2] + found[2] / len(SIZES), atol=1e-12)


def test_the_server_of_mocha_keeps_the_duals_of_lost_uploads():
    run, after = after_a_round("mocha", (2,))
    before, now = as_matrix(run.state.duals), as_matrix(after.duals)
    assert [bool((before[i] != now[i]).any()) for i in range(4)] == [False, False, True, False]
    assert after.is_known.tolist() == [False, False, True, False]


def test_cgpfl_heur_solves_for_k_in_the_first_round_with_uploads():
    run, after = after_a_round("cgpfl_heur", ())
    state, diagnostics = run.algorithm.round(after, run.task.cohort(2), run.task)
    assert after.K_hat == 0 and state.K_hat >= 1 and "mu" in diagnostics.values


def test_fl_hc_says_so_if_no_upload_arrives_in_the_round_of_its_clustering():
    run, _ = after_a_round({"name": "fl_hc", "at_round": 1}, ())
    assert "fl_hc: no upload arrived in round 1, so all clients stay in one cluster" in run.task.notes


@pytest.mark.parametrize("name", ["qffl", "term", "fedas"])
def test_recorded_weights_are_those_of_uploads_that_arrive(name):
    run = simulation(name, model=DNN if name == "fedas" else "mlr")
    task = replace(run.task, channel=Lossy((1, 2)))
    _, diagnostics = run.algorithm.round(run.state, task.cohort(1), task)
    weights = diagnostics.values["weight" if name == "fedas" else "weights"].numpy()
    assert np.isnan(weights).tolist() == [False, True, True, False] and np.nansum(weights) == pytest.approx(1)
