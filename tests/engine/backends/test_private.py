"""Private gradients: clipping by sample, noise, and what is left as it was."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from engine.backends import OnFeatures, choose_backend, mean_cross_entropy
from engine.backends.private import Private
from engine.core.errors import Unsupported
from engine.core.params import clone, flatten
from engine.federation.batches import Batch, PoissonSampling
from engine.models import Model
from engine.privacy.samples import Releases
from tests.support.networks import batch_of, model_of, stacked

CPU = torch.device("cpu")
BACKENDS = ["fused", "batched", "loop"]
CASES = [("mlr", {}, 3), ("dnn", {"hidden": 4}, 3), ("logistic", {}, 2)]


def gradients_by_sample(model: Model, params: dict, batch: Batch, names: tuple[str, ...]) -> torch.Tensor:
    """[A, B, P] by plain autograd, one sample after the other."""
    rows = []
    for i in range(batch.size):
        own = {n: p[i].clone().requires_grad_() for n, p in params.items()}
        for x, y in zip(batch.x[i], batch.y[i], strict=True):
            loss = F.cross_entropy(model.logits(own, x[None]), y[None])
            rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, [own[n] for n in names])]))
    return torch.stack(rows).view(*batch.y.shape, -1)


def expected_sum(gradients: torch.Tensor, batch: Batch, clip: float) -> torch.Tensor:
    norms = gradients.norm(dim=2)
    weight = torch.full_like(norms, 1 / norms.shape[1]) if batch.weight is None else batch.weight
    return ((weight * (clip / norms).clamp(max=1))[..., None] * gradients).sum(1)


def sampled_batch(counts: tuple[int, ...], **options) -> Batch:
    """A batch with the sizes that were expected, as a round would draw it."""
    batch = batch_of(counts, **options)
    return dataclasses.replace(
        batch, rows=batch.y, sampling=PoissonSampling((4, 1, 7)[: len(counts)], counts, "batches", 1)
    )


def private(model: Model, clip: float = 1.0, noise: float = 0.0, backend: str = "auto", seed: int = 0) -> Private:
    releases = Releases(seed, 1, np.full(8, noise))
    return Private(choose_backend(backend, model, CPU), model, clip, releases)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "options", "classes"), CASES)
@pytest.mark.parametrize("counts", [(4, 4, 4), (5, 3, 1)])
def test_norms_and_clipped_sums_are_those_of_single_samples(backend, name, options, classes, counts):
    model = model_of(name, classes=classes, **options)
    params, batch = stacked(model, 3), batch_of(counts, classes=classes)
    gradients, names = gradients_by_sample(model, params, batch, model.names), model.names
    clip = float(gradients.norm(dim=2).median())  # half of the samples are clipped
    found = choose_backend(backend, model, CPU).clipped_sum(names, params, batch, clip)
    for i, count in enumerate(counts):
        torch.testing.assert_close(found.norms[i, :count], gradients.norm(dim=2)[i, :count], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(flatten(found.gradient), expected_sum(gradients, batch, clip), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", ["body", "head"])
def test_norms_are_those_of_the_trained_parameters(backend, part):
    model = model_of("dnn", hidden=4)
    params, batch, names = stacked(model, 2), batch_of((3, 3)), getattr(model, part)
    gradients = gradients_by_sample(model, params, batch, names)
    found = choose_backend(backend, model, CPU).clipped_sum(names, params, batch, 0.3)
    assert tuple(found.gradient) == names
    torch.testing.assert_close(found.norms, gradients.norm(dim=2), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(flatten(found.gradient), expected_sum(gradients, batch, 0.3), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["batched", "loop"])
def test_convolutions_are_clipped_by_sample_in_any_number_of_parts(backend, monkeypatch):
    model = model_of("cnn", shape=(1, 16, 16), hidden=8)
    params, batch = stacked(model, 2), batch_of((4, 4), shape=(1, 16, 16))
    gradients = gradients_by_sample(model, params, batch, model.names)
    for held in (1, 1 << 24):
        monkeypatch.setattr("engine.backends.batched._SAMPLE_BYTES", held)
        found = choose_backend(backend, model, CPU).clipped_sum(model.names, params, batch, 0.5)
        torch.testing.assert_close(found.norms, gradients.norm(dim=2), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(flatten(found.gradient), expected_sum(gradients, batch, 0.5), rtol=1e-11, atol=1e-12)


def scaled(model, params, features, y, weight, extras):
    return extras["scale"] * mean_cross_entropy(model.stacked_head_logits(params, features), y, weight)


def test_an_objective_is_clipped_by_sample_and_its_l2_term_comes_after():
    model = model_of("dnn", hidden=4)
    params, batch, clip = stacked(model, 2), sampled_batch((4, 2)), 0.4
    extras = {"scale": torch.tensor([2.0, 0.5], dtype=torch.float64)}
    gradients = extras["scale"][:, None, None] * gradients_by_sample(model, params, batch, model.names)
    expected = expected_sum(gradients, batch, clip)
    for backend in BACKENDS:
        out = {n: torch.empty_like(p) for n, p in params.items()}
        l2 = {"head.weight": 0.5}
        private(model, clip, backend=backend).accumulate(out, params, batch, 1.0, 0.0, OnFeatures(scaled, l2), extras)
        out["head.weight"] -= 0.5 * params["head.weight"]
        torch.testing.assert_close(flatten(out), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("options", [{}, {"l2": 0.3}])
def test_without_noise_and_with_a_large_norm_a_step_is_plain_sgd(backend, options):
    model = model_of("mlr", **options)
    params, batch = stacked(model, 3), sampled_batch((5, 3, 1))
    plain, stepped = clone(params), clone(params)
    loss = choose_backend(backend, model, CPU).accumulate(plain, plain, batch, -0.1, 0.9)
    found = private(model, 1e300, backend=backend).accumulate(stepped, stepped, batch, -0.1, 0.9)
    torch.testing.assert_close(found, loss, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(flatten(stepped), flatten(plain), rtol=1e-12, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.floats(1e-3, 10), st.floats(0, 50), st.integers(0, 4))
def test_taking_a_sample_out_moves_the_sum_by_at_most_C(clip, size, left_out):
    model = model_of("dnn", hidden=3)
    params, batch = stacked(model, 1), batch_of((5,))
    weight = torch.ones(1, 5, dtype=torch.float64)
    whole = dataclasses.replace(batch, x=batch.x * size, weight=weight)
    without = dataclasses.replace(whole, weight=weight.index_fill(1, torch.tensor([left_out]), 0.0))
    backend = choose_backend("fused", model, CPU)
    sums = [flatten(backend.clipped_sum(model.names, params, b, clip).gradient) for b in (whole, without)]
    assert torch.linalg.vector_norm(sums[0] - sums[1]) <= clip * (1 + 1e-9)


def noise_of(backend: Private, model: Model, batch: Batch) -> torch.Tensor:
    """What a call adds to the clipped sum, [A, P]."""
    params = stacked(model, batch.size)
    out = {n: torch.empty_like(p) for n, p in params.items()}
    backend.accumulate(out, params, batch, 1.0, 0.0)
    return flatten(out) - flatten(backend.clipped_sum(model.names, params, batch, backend.clip).gradient)


def test_noise_has_the_standard_deviation_z_C_over_the_expected_size():
    model = model_of("mlr", shape=(4000,))
    found = noise_of(private(model, clip=0.5, noise=3.0), model, sampled_batch((5, 2), shape=(4000,)))
    assert found.std(1).tolist() == pytest.approx([3 * 0.5 / 5, 3 * 0.5 / 2], rel=0.03)
    assert abs(float(torch.corrcoef(found)[0, 1])) < 0.05 and found.mean().abs() < 0.02


def test_an_empty_batch_is_noise_alone():
    model = model_of("mlr")
    batch = sampled_batch((3, 3))
    batch = dataclasses.replace(batch, weight=torch.zeros(2, 3, dtype=torch.float64), counts=(0, 0))
    made = private(model, noise=1.0)
    params, out = stacked(model, 2), {n: torch.empty_like(p) for n, p in stacked(model, 2).items()}
    loss = made.accumulate(out, params, batch, 1.0, 0.0)
    assert loss.tolist() == [0, 0] and flatten(out).std() == pytest.approx(1 / 3, rel=0.3)
    assert made.releases.values(1.0)["privacy.clipped"] == 0


def test_noise_is_that_of_the_client_its_release_and_the_seed_for_any_backend_and_chunk():
    model, batch = model_of("mlr"), sampled_batch((3, 3, 3))
    together = noise_of(private(model, noise=1.0, backend="fused"), model, batch)
    assert torch.allclose(noise_of(private(model, noise=1.0, backend="loop"), model, batch), together)
    x, y = batch.x[1:2], batch.y[1:2]
    alone = Batch(x, y, None, (3,), rows=y, sampling=batch.sampling.part(1, 2))
    made = private(model, noise=1.0)
    assert torch.allclose(noise_of(made, model, alone)[0], together[1])
    again = noise_of(made, model, alone)[0]
    other = noise_of(private(model, noise=1.0, seed=1), model, batch)[1]
    assert len({round(float(v[0]), 9) for v in (together[0], together[1], again, other)}) == 4


def test_public_samples_are_used_as_they_are():
    model, batch = model_of("mlr"), batch_of((3, 3))
    made, plain = private(model, clip=0.01, noise=5.0), choose_backend("auto", model, CPU)
    params, outs = stacked(model, 2), [{n: torch.empty_like(p) for n, p in stacked(model, 2).items()} for _ in "ab"]
    for backend, out in zip((made, plain), outs, strict=True):
        backend.accumulate(out, params, batch, 1.0, 0.0)
    assert torch.equal(flatten(outs[0]), flatten(outs[1])) and not made.releases.made


def test_batches_that_were_not_drawn_sample_by_sample_are_refused():
    model, batch = model_of("mlr"), batch_of((3, 3))
    params = stacked(model, 2)
    with pytest.raises(Unsupported, match=r"requires batches of the task; use Task.cohort_of"):
        private(model).accumulate(clone(params), params, dataclasses.replace(batch, rows=batch.y), 1.0, 0.0)
    with pytest.raises(Unsupported, match="no second derivatives"):
        private(model).hessian_vector(params, params, batch)


def test_inner_steps_are_releases_from_the_same_batch():
    model, batch = model_of("mlr"), sampled_batch((3, 2))
    made, params = private(model), stacked(model, 2)
    made.proximal_steps(clone(params), params, batch, 0.1, 1.0, 5)
    assert made.releases.made == {4: 5, 1: 5}
    assert made.releases.of_batch == {(4, "batches", 1, 0): 5, (1, "batches", 1, 0): 5}
