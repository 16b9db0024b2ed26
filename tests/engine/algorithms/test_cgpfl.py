"""CGPFL: pFedMe with one context or one per client, and contexts that follow their clients."""

from dataclasses import replace

import numpy as np
import torch

from tests.support import reference
from tests.support.builders import SIZES, assert_close, assert_equal, federation, personalized, shared_model, trained
from tests.support.newcomers import trained_alone, unseen_models
from tests.support.reference import as_matrix, batches_of
from tests.support.settings import CGPFL, PFEDME


def test_cgpfl_with_one_context_is_pfedme():
    one, pfedme = trained(CGPFL | {"K": 1, "alpha": 0.7}, rounds=3), trained(PFEDME | {"beta": 0.7}, rounds=3)
    assert_equal(personalized(one), personalized(pfedme))
    for n, p in shared_model(one).items():
        assert torch.equal(p[0], shared_model(pfedme)[n])


def test_cgpfl_with_a_context_per_client_is_pfedme_on_single_clients():
    data = federation()
    run = trained(CGPFL | {"K": len(SIZES), "alpha": 1.0}, data, rounds=3)
    contexts = shared_model(run)["head.weight"]
    for i in range(len(SIZES)):
        start, theta = as_matrix(run.task.initial_model()), None
        for round in (1, 2, 3):
            theta, start = reference.moreau(start, batches_of(run, round)[i], 0.1, 5.0, 3, 0.1)
        np.testing.assert_allclose(as_matrix(personalized(run))[i], theta, atol=1e-10)
        np.testing.assert_allclose(contexts[i].numpy(), start[:, :5], atol=1e-10)


def test_cgpfl_beta_is_the_step_of_the_paper():
    beta = 0.5
    number = trained(CGPFL | {"K": 2, "beta": beta})
    auto = trained(CGPFL | {"K": 2}, lr=beta * 2 / len(SIZES) / 5.0)
    assert_close(personalized(number), personalized(auto), 1e-12)


def test_renumbering_clients_permutes_cgpfl():
    data, order = federation(sizes=(6, 6, 6, 6)), [2, 0, 3, 1]
    x, y = data.train.of_everyone()
    x, y = x.view(4, 6, 5), y.view(4, 6)
    x[:2] += 5  # two well separated contexts
    x[2:] -= 5
    changed = {}
    for name, rows in (("as is", [0, 1, 2, 3]), ("renumbered", order)):
        one = federation(sizes=(6, 6, 6, 6))
        one.train.pool.x[one.train.rows] = x[rows].flatten(0, 1)
        one.train.pool.y[one.train.rows] = y[rows].flatten()
        changed[name] = trained(CGPFL | {"K": 2}, one, batch_size="full", rounds=3)
    assert_close({n: p[order] for n, p in personalized(changed["as is"]).items()}, personalized(changed["renumbered"]))
    a, b = changed["as is"].state.assigned[order].tolist(), changed["renumbered"].state.assigned.tolist()
    assert len(set(zip(a, b, strict=True))) == len(set(a)) == 2


def test_cgpfl_keeps_models_of_contexts_without_participants():
    run = trained(CGPFL | {"K": 4}, rounds=1, participation=0.5)
    start = run.task.initial_model()["head.weight"]
    participants = run.task.cohort(1).clients
    used = set(run.state.assigned[participants].tolist())
    assert len(used) == 2 and all(
        torch.equal(run.state.contexts["head.weight"][k], start) for k in set(range(4)) - used
    )
    assert len(trained(CGPFL | {"K": 7}).state.contexts["head.weight"]) == len(SIZES)


def test_a_newcomer_of_cgpfl_joins_the_context_of_least_training_loss():
    """Two contexts, each fitted to one newcomer; theta hardly moves, because the inner steps are tiny."""
    data = replace(federation(), unseen=federation((6, 9), seed=7))
    run = trained({"name": "cgpfl", "K": 2, "personal_lr": 1e-12}, data)
    fitted = trained_alone(run)
    run.state = replace(run.state, contexts={n: p.flip(0) for n, p in fitted.items()})
    assert_close(unseen_models(run), fitted, 1e-9)
