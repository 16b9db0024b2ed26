"""PLGU-GRep: FedRep without radius, and rounds computed one client at a time."""

import pytest
import torch

from engine.core.errors import Unsupported
from tests.support.builders import assert_close, federation, personalized, simulation, trained
from tests.support.one_client import batches_of, gradient, moved
from tests.support.perturbations import perturbation, scores_of
from tests.support.settings import DNN

DEEP = {"name": "har_mlp", "hidden": 6}  # two layers in the body
EQUAL = (6, 6, 6, 6)


def test_plgu_grep_without_radius_is_fedrep_with_two_steps():
    changed = {"model": DNN, "data": federation(EQUAL), "batch_size": "full", "rounds": 3}
    for more in ({}, {"momentum": 0.5, "weight_decay": 0.1}, {"participation": 0.5}):
        grep = trained({"name": "plgu_grep", "rho": 0, "head_steps": 4}, **changed, **more)
        fedrep = trained({"name": "fedrep", "head_steps": 4}, local_steps=2, **changed, **more)
        assert_close(personalized(grep), personalized(fedrep), 1e-12)


def test_plgu_grep_rounds_follow_the_paper():
    rho, p = 0.5, 1.5
    run = trained({"name": "plgu_grep", "rho": rho, "p": p, "head_steps": 2}, model=DEEP)
    body = [n for n in run.task.model.names if n.startswith("body.")]
    start = run.task.initial_model()
    phi, heads = {n: start[n] for n in body}, [{n: start[n] for n in start if n not in body}] * 4
    for round in (1, 2):
        bodies = []
        for i, (head_batches, batches) in enumerate(
            zip(batches_of(run, round, "head", 2), batches_of(run, round), strict=True)
        ):
            own = phi | heads[i]
            for x, y in head_batches:
                own = moved(own, {n: g for n, g in gradient(own, x, y).items() if n not in body}, 0.1)
            x, y = batches[0]
            first = moved(own, {n: gradient(own, x, y)[n] for n in body}, 0.1)
            scores = scores_of({n: first[n] for n in body}, own)
            eps = perturbation({n: gradient(first, x, y)[n] for n in body}, scores, rho, p)
            beside = gradient(first | {n: first[n] + eps[n] for n in body}, x, y)
            bodies.append({n: first[n] - 0.1 * beside[n] for n in body})
            heads[i] = {n: own[n] for n in heads[i]}
        phi = {n: sum(b[n] for b in bodies) / 4 for n in body}
    expected = {n: phi[n].expand(4, *phi[n].shape) if n in body else torch.stack([h[n] for h in heads]) for n in start}
    assert_close(personalized(run), expected, 1e-10)


def test_plgu_grep_takes_three_gradients_of_one_batch():
    run = simulation({"name": "plgu_grep", "head_steps": 2}, model=DNN, local_steps=9)
    _, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    batch = [min(4, size) for size in (6, 9, 4, 7)]
    heads = sum(b + min(b, size - b if size > b else b) for b, size in zip(batch, (6, 9, 4, 7), strict=True))
    assert diagnostics.gradient_evaluations == heads + 3 * sum(batch)
    assert any("local_steps" in note for note in run.task.notes)


def test_plgu_grep_refuses_a_model_without_a_body():
    with pytest.raises(Unsupported, match="plgu_grep needs a body"):
        simulation("plgu_grep", model="mlr")
