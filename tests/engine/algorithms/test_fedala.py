"""FedALA: the weights of the mixture and their passes, computed with plain autograd."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    SIZES,
    assert_close,
    assert_equal,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.settings import DNN
from tests.support.split_models import EXACT, row_of

HELD = {"name": "fedala", "weight_lr": 0}


def mixed(T: plain.Params, w: plain.Params, W: plain.Params) -> plain.Params:
    return w | {n: T[n] + (w[n] - T[n]) * share for n, share in W.items()}


def one_pass(T: plain.Params, w: plain.Params, W: plain.Params, batches: list, lr: float) -> tuple[plain.Params, float]:
    """The weights after a pass, by the chain rule of autograd through the mixture, and the mean loss."""
    losses = []
    for x, y in batches:
        leaves = {n: share.clone().requires_grad_() for n, share in W.items()}
        loss = plain.cross_entropy(mixed(T, w, leaves), x, y)
        slopes = torch.autograd.grad(loss, list(leaves.values()))
        W = {n: (W[n] - lr * slope).clip(0, 1) for n, slope in zip(W, slopes, strict=True)}
        losses.append(float(loss.detach()))
    return W, float(np.mean(losses))


def all_passes(
    T: plain.Params, w: plain.Params, W: plain.Params, batches: list, h: dict, is_second: bool
) -> tuple[plain.Params, int]:
    """The weights of a participation, and how often the batches were passed over."""
    losses: list[float] = []
    while True:
        W, loss = one_pass(T, w, W, batches, h["weight_lr"])
        losses.append(loss)
        is_flat = len(losses) >= 11 and np.std(losses[-10:]) < h["threshold"]
        if not is_second or is_flat or len(losses) == h["max_passes"]:
            return W, len(losses)


@pytest.mark.parametrize("use", ["trained", "initialized"])
def test_rounds_equal_a_loop_over_clients_with_plain_autograd(use):
    """Clients 0 to 3 take part with unequal batches; in the second participation the passes differ."""
    h = {"weight_lr": 3.0, "threshold": 0.012, "max_passes": 12}
    run = simulation({"name": "fedala", "share": 0.5, "use": use} | h, model=DNN, rounds=3, participation=0.75)
    results = list(run.rounds())
    w = run.task.initial_model()
    T, times = [w] * 4, [0] * 4
    W = [{n: torch.ones_like(w[n]) for n in ("head.weight", "head.bias")}] * 4
    counted = set()

    def batches_of(i: int, round: int, stream: str) -> list:
        passes = run.task.passes([i], round, stream, 0.5)
        return samples_of(run.task, passes.clients, passes.plan)[i]

    for round in (1, 2, 3):
        cohort = run.task.cohort(round)
        own, cost, passed = samples_of(run.task, cohort.clients, cohort.plan), cohort.plan.gradient_evaluations, []
        for i in cohort.clients.tolist():
            batches = batches_of(i, round, "ala")
            passes = 0
            if times[i]:
                W[i], passes = all_passes(T[i], w, W[i], batches, h, times[i] == 1)
            cost += passes * sum(len(y) for _, y in batches)
            passed.append(passes)
            T[i] = plain.descend(mixed(T[i], w, W[i]) if times[i] else w, own[i])
            times[i] += 1
        w = plain.average({i: T[i] for i in cohort.clients.tolist()}, SIZES, ("body", "head"))
        assert results[round].scalars["gradient_evaluations"] == cost
        assert results[round].scalars["diagnostics.passes"] == pytest.approx(np.mean(passed))
        share = results[round].arrays["diagnostics.share_of_global"]
        for i in range(4):
            expected = torch.cat([p.flatten() for p in W[i].values()]).mean() if i in cohort.client_ids else np.nan
            assert share[i] == pytest.approx(float(expected), nan_ok=True)
        counted |= set(passed)
    assert {0, 1, 11, 12} <= counted  # none, one, settled, and the limit
    assert_close(shared_model(run), w, EXACT)
    assert_close(run.state.weights, plain.stack(W), EXACT)
    assert any(0 < float(share.min()) < float(share.max()) == 1 for share in run.state.weights.values())
    assert run.state.participations.tolist() == times
    if use == "initialized":
        for i in range(4):
            tuned = W[i]
            if times[i]:
                tuned, _ = all_passes(T[i], w, W[i], batches_of(i, 0, "ala evaluation"), h, times[i] == 1)
            T[i] = mixed(T[i], w, tuned) if times[i] else w
    assert_close(personalized(run), plain.stack(T), EXACT)


def test_with_weights_of_one_the_global_model_is_that_of_fedavg():
    run, fedavg = (trained(m, model=DNN, rounds=3, participation=0.75) for m in (HELD, "fedavg"))
    assert_equal(shared_model(run), shared_model(fedavg))
    assert all(bool((share == 1).all()) for share in run.state.weights.values())
    cohort, last = run.task.cohort(3), trained("fedavg", model=DNN, rounds=2, participation=0.75)
    for i, batches in samples_of(run.task, cohort.clients, cohort.plan).items():
        assert_close(row_of(personalized(run), i), plain.descend(shared_model(last), batches), EXACT)


def test_without_layers_to_mix_this_is_fedavg():
    run, fedavg = (trained(m, rounds=3) for m in ({"name": "fedala", "layers": 0}, "fedavg"))
    assert_equal(shared_model(run), shared_model(fedavg))
    assert run.state.weights == {}


def test_all_layers_with_weights_of_zero_train_locally():
    run = simulation(HELD | {"layers": 2}, model=DNN, rounds=3)
    run.state = replace(run.state, weights={n: torch.zeros_like(p) for n, p in run.state.weights.items()})
    for _ in run.rounds():
        pass
    assert_close(personalized(run), personalized(trained("local_train", model=DNN, rounds=3)), 1e-12)


@pytest.mark.parametrize(("layers", "names"), [(1, ("head",)), (2, ("body", "head")), (9, ("body", "head"))])
def test_the_last_layers_are_mixed(layers, names):
    run = simulation({"name": "fedala", "layers": layers}, model=DNN)
    assert tuple(run.state.weights) == tuple(n for n in run.task.model.names if n.startswith(names))


def test_the_slope_of_a_weight_is_the_gradient_times_the_gap():
    """One pass over a full batch moves a weight of 1 by the finite difference of the loss along it."""
    run = simulation({"name": "fedala", "weight_lr": 0.01, "layers": 2}, model=DNN, batch_size="full", participation=1)
    first, _ = run.algorithm.round(run.state, run.task.cohort(1), run.task)
    first = replace(first, participations=first.participations + 1)  # one pass, as from the third participation on
    second, _ = run.algorithm.round(first, run.task.cohort(2), run.task)
    x, y = run.task.data.train.of_client(2)
    T, w = row_of(first.personal_params, 2), first.global_params
    step = 1e-6
    for name in w:
        for place in [(0,) * w[name].dim(), (-1,) * w[name].dim()]:
            losses = []
            for change in (step, -step):
                W = {n: torch.ones_like(p) for n, p in w.items()}
                W[name][place] += change
                losses.append(float(plain.cross_entropy(mixed(T, w, W), x, y)))
            expected = min(1.0, 1 - 0.01 * (losses[0] - losses[1]) / (2 * step))
            assert float(second.weights[name][2][place]) == pytest.approx(expected, abs=1e-10)


def test_absent_clients_keep_their_weights():
    run = trained("fedala", rounds=4)
    before = run.state
    half = simulation("fedala", participation=0.5).task.cohort(5)
    after, _ = run.algorithm.round(before, half, run.task)
    present, absent = half.clients, [i for i in range(4) if i not in half.client_ids]
    for n, share in after.weights.items():
        assert torch.equal(share[absent], before.weights[n][absent])
        assert not torch.equal(share[present], before.weights[n][present])


def test_a_newcomer_trains_from_the_global_model():
    run = trained("fedala", with_newcomers(), model=DNN, rounds=3)
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, task).params
    for i, batches in samples_of(task, newcomers.clients, newcomers.plan).items():
        assert_close(row_of(found, i), plain.descend(shared_model(run), batches), EXACT)


def test_fedala_sends_what_fedavg_sends():
    sent = [
        [[r.scalars[n] for n in ("bytes_up", "bytes_down")] for r in simulation(m).rounds()]
        for m in ("fedavg", "fedala")
    ]
    assert sent[0] == sent[1]


def test_settings_that_make_fedala_fedavg_are_noted():
    assert any("layers=0" in note for note in simulation({"name": "fedala", "layers": 0}).task.notes)
    assert any("weight_lr=0" in note for note in simulation(HELD).task.notes)
    assert not simulation("fedala").task.notes
