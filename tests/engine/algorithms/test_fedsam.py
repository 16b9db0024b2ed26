"""FedSAM: FedAvg without radius, and rounds computed one client at a time."""

import math

import pytest

from tests.support.builders import assert_close, assert_equal, shared_model, trained
from tests.support.one_client import batches_of, gradient, moved
from tests.support.settings import DNN, VARIED_TRAINING


@pytest.mark.parametrize("settings", VARIED_TRAINING)
def test_fedsam_with_zero_rho_is_fedavg(settings):
    changed = {"model": DNN} | settings
    fedsam = trained({"name": "fedsam", "rho": 0}, **changed)
    assert_close(shared_model(fedsam), shared_model(trained("fedavg", **changed)), 1e-12)
    assert any("fedavg" in note for note in fedsam.task.notes)


def test_fedsam_rounds_follow_the_paper():
    run = trained({"name": "fedsam", "rho": 0.3}, model=DNN)
    w = run.task.initial_model()
    for round in (1, 2):
        copies = []
        for batches in batches_of(run, round):
            own = w
            for x, y in batches:
                g = gradient(own, x, y)
                norm = math.sqrt(sum(float((t**2).sum()) for t in g.values()))
                own = moved(own, gradient({n: t + 0.3 * g[n] / norm for n, t in own.items()}, x, y), 0.1)
            copies.append(own)
        shares = run.task.weights
        w = {n: sum(share * c[n] for share, c in zip(shares, copies, strict=True)) for n in w}
    assert_close(shared_model(run), w, 1e-10)
    assert run.algorithm.personalized(run.state, run.task).params is run.state.global_params


def test_newcomers_of_fedsam_get_the_global_model():
    run = trained("fedsam")
    adapted = run.algorithm.adapted(run.state, run.task.everyone(stream="newcomers"), run.task)
    assert not adapted.is_per_client
    assert_equal(dict(adapted.params), shared_model(run))
