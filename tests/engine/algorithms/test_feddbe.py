"""FedDBE: equal to FedAvg without its two parts, and rounds computed with plain autograd."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    LR,
    SIZES,
    assert_close,
    assert_equal,
    federation,
    personalized,
    shared_model,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import Lossy
from tests.support.newcomers import unseen_models
from tests.support.settings import DNN
from tests.support.split_models import row_of

EXACT = 1e-11
ONE_STEP = {"model": DNN, "batch_size": "full", "local_steps": 1, "rounds": 1}


def running_mean(mean: torch.Tensor, params: plain.Params, x: torch.Tensor, share: float) -> torch.Tensor:
    return (1 - share) * mean + share * plain.hidden(params, x).mean(0)


def consensus_of(run, share: float) -> torch.Tensor:
    """The mean of the clients' running means in a training from the common start."""
    start, found = run.task.initial_model(), []
    everyone = run.task.cohort_of([0, 1, 2, 3], 0, "dbe init")
    for i, batches in samples_of(run.task, everyone.clients, everyone.plan).items():
        params, mean = start, torch.zeros(6, dtype=torch.float64)
        for batch in batches:
            mean = running_mean(mean, params, batch[0], share)
            params = plain.descend(params, [batch])
        found.append(mean * SIZES[i] / sum(SIZES))
    return torch.stack(found).sum(0)


def walked(params: plain.Params, batches, consensus: torch.Tensor, kappa: float, share: float):
    """A client's model and memory after its steps, and its mean cross-entropy."""
    mean, losses = torch.zeros(6, dtype=torch.float64), []
    for x, y in batches:
        earlier = mean

        def loss(p, x, y, earlier=earlier, losses=losses):
            moved = plain.hidden(p, x) + p["memory"]
            data = F.cross_entropy(moved @ p["head.weight"].T + p["head.bias"], y)
            losses.append(float(data.detach()))
            return data + kappa * (running_mean(earlier, p, x, share) - consensus).square().mean() / 2

        mean = running_mean(mean, params, x, share)
        params = plain.descend(params, [(x, y)], loss=loss)
    return params, sum(losses) / len(losses)


def test_without_pull_and_memory_feddbe_is_fedavg():
    run = trained({"name": "feddbe", "kappa": 0, "memory": False}, model=DNN, participation=0.75)
    assert_equal(shared_model(run), shared_model(trained("fedavg", model=DNN, participation=0.75)))
    assert_equal(personalized(run), {n: p.expand(4, *p.shape) for n, p in shared_model(run).items()})
    assert any("is fedavg" in note for note in run.task.notes)


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_rounds_follow_the_paper(backend, share):
    kappa = 4.0
    method = {"name": "feddbe", "kappa": kappa, "momentum": share}
    run = simulation(method, model=DNN, rounds=3, participation=0.75, backend=backend)
    consensus = consensus_of(run, share)
    w, memories = run.task.initial_model(), [torch.zeros(6, dtype=torch.float64)] * 4
    for result in list(run.rounds())[1:]:
        cohort = run.task.cohort(result.round)
        after = {}
        for i, batches in samples_of(run.task, cohort.clients, cohort.plan).items():
            after[i], loss = walked(w | {"memory": memories[i]}, batches, consensus, kappa, share)
            assert result.arrays["train_loss"][i] == pytest.approx(loss, rel=1e-10)
            memories[i] = after[i]["memory"]
        w = plain.average(after, SIZES, ("body.", "head."))
    torch.testing.assert_close(run.state.consensus, consensus, rtol=EXACT, atol=EXACT)
    assert_close(shared_model(run), w, EXACT)
    assert_close(dict(run.state.personal_params), {"memory": torch.stack(memories)}, EXACT)


def test_the_first_consensus_is_the_mean_feature_of_all_data():
    run = trained("feddbe", **ONE_STEP)
    x, _ = run.task.data.train.of_everyone()
    expected = plain.hidden(run.task.initial_model(), x).mean(0)
    torch.testing.assert_close(run.state.consensus, expected, rtol=EXACT, atol=EXACT)


def test_the_first_step_of_one_client_is_fedavgs_and_moves_its_memory_against_the_errors():
    data = federation((9,))
    run = trained("feddbe", data, **ONE_STEP)
    assert_close(shared_model(run), shared_model(trained("fedavg", data, **ONE_STEP)), EXACT)
    start, (x, y) = run.task.initial_model(), data.train.of_client(0)
    errors = (plain.logits(start, x).softmax(1) - F.one_hot(y, 3)) / len(y)
    expected = -LR * start["head.weight"].T @ errors.sum(0)
    torch.testing.assert_close(run.state.personal_params["memory"][0], expected, rtol=EXACT, atol=EXACT)


def test_a_memory_is_a_personal_bias_of_a_linear_head():
    run = trained("feddbe", model=DNN)
    predictor = run.algorithm.personalized(run.state, run.task)
    for i in range(4):
        x, _ = run.task.data.test.of_client(i)
        own, w = predictor.of_client(i), shared_model(run)
        bias = w["head.bias"] + w["head.weight"] @ run.state.personal_params["memory"][i]
        expected = plain.hidden(w, x) @ w["head.weight"].T + bias
        torch.testing.assert_close(predictor.forward(own, x), expected, rtol=EXACT, atol=EXACT)
        assert run.state.personal_params["memory"][i].abs().max() > 1e-3


@pytest.mark.parametrize("backend", ["loop", "batched", "fused"])
def test_the_pull_on_a_feature_is_kappa_momentum_over_batch_and_width(backend):
    """By the biases of the body, the gradient of a sample's feature is 1 where its unit is active."""
    kappa, share, data = 3.0, 0.4, federation((5,))
    run = simulation({"name": "feddbe", "kappa": kappa, "momentum": share}, data, backend=backend, **ONE_STEP)
    goal = torch.linspace(-1, 1, 6, dtype=torch.float64)
    state = type(run.state)(run.state.global_params, run.state.personal_params, goal, True)
    found, _ = run.algorithm.round(state, run.task.cohort(1), run.task)
    start, (x, y) = run.task.initial_model(), data.train.of_client(0)
    features = plain.hidden(start, x)
    pull = kappa * share * (share * features.mean(0) - goal) / (len(x) * 6)
    moved = plain.descend(start, [(x, y)])["body.1.bias"] - LR * ((features > 0) * pull).sum(0)
    torch.testing.assert_close(found.global_params["body.1.bias"], moved, rtol=EXACT, atol=EXACT)


def test_the_training_before_round_1_is_counted_in_round_1_for_all_clients():
    results = list(simulation("feddbe", model=DNN, participation=0.5).rounds())
    ordinary = list(simulation("fedavg", model=DNN, participation=0.5).rounds())
    whole = next(r for r in simulation("fedavg", model=DNN).rounds() if r.round == 1)
    costs, expected = ([r.scalars["gradient_evaluations"] for r in run] for run in (results, ordinary))
    assert costs == [0, expected[1] + whole.scalars["gradient_evaluations"], expected[2]]
    width, model = 6 * 8, 8 * (5 * 6 + 6 + 6 * 3 + 3)
    assert [r.scalars["bytes_up"] for r in results] == [0, 2 * model + 4 * width, 2 * model]
    assert [r.scalars["bytes_down"] for r in results] == [0, 2 * model + 4 * (model + width), 2 * model]


def test_a_lost_consensus_is_computed_in_the_next_round_and_pulls_nothing_before():
    run = simulation({"name": "feddbe", "kappa": 4.0}, model=DNN)
    lost = replace(run.task, channel=Lossy((0, 1, 2, 3)))
    state, diagnostics = run.algorithm.round(run.state, run.task.cohort(1), lost)
    assert not state.is_ready and not state.consensus.any()
    alone = trained({"name": "feddbe", "kappa": 0}, model=DNN, rounds=1)
    assert_close(state.personal_params, alone.state.personal_params, EXACT)
    assert diagnostics.bytes_down == 2 * 4 * 8 * (5 * 6 + 6 + 6 * 3 + 3)
    state, _ = run.algorithm.round(state, run.task.cohort(2), run.task)
    assert state.is_ready
    torch.testing.assert_close(state.consensus, consensus_of(run, 1.0), rtol=EXACT, atol=EXACT)


def test_memories_of_batches_of_one_sample_are_those_of_autograd():
    found = [
        trained({"name": "feddbe", "kappa": 0}, model=DNN, batch_size=1, backend=backend)
        for backend in ("loop", "fused")
    ]
    assert_close(*(run.state.personal_params for run in found), EXACT)


def test_without_pull_there_is_no_training_before_round_1():
    results = list(simulation({"name": "feddbe", "kappa": 0}, model=DNN).rounds())
    ordinary = list(simulation("fedavg", model=DNN).rounds())
    for n in ("gradient_evaluations", "bytes_up", "bytes_down"):
        assert [r.scalars[n] for r in results] == [r.scalars[n] for r in ordinary]


def test_a_newcomer_keeps_a_memory_on_the_servers_model():
    run = trained({"name": "feddbe", "kappa": 2.0}, with_newcomers(), model=DNN)
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    start = run.state.global_params | {"memory": torch.zeros(6, dtype=torch.float64)}
    batches = samples_of(task, newcomers.clients, newcomers.plan)
    found = unseen_models(run)
    for i in range(3):
        own, _ = walked(start, batches[i], run.state.consensus, 2.0, 1.0)
        assert_close(row_of(found, i), run.state.global_params | {"memory": own["memory"]}, EXACT)


def test_without_memory_newcomers_use_the_global_model():
    run = trained({"name": "feddbe", "memory": False}, with_newcomers(), model=DNN)
    assert_equal(unseen_models(run), shared_model(run))


def test_a_run_without_memory_resumes_from_its_checkpoint():
    method = {"name": "feddbe", "memory": False, "momentum": 0.5}
    first, second = (simulation(method, model=DNN, rounds=3) for _ in range(2))
    next(r for r in first.rounds() if r.round == 1)
    second.restore(first.checkpoint())
    assert second.state.is_ready and [r.round for r in second.rounds()] == [2, 3]
    assert_equal(shared_model(second), shared_model(trained(method, model=DNN, rounds=3)))


def test_a_model_without_a_body_is_refused():
    with pytest.raises(Unsupported, match="feddbe needs a body"):
        simulation("feddbe", model="mlr")
