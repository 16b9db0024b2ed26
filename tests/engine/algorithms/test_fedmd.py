"""FedMD: the average logits and the steps toward them, computed with plain autograd."""

from dataclasses import replace

import pytest
import torch

from engine.core.errors import Unsupported
from tests.support import plain
from tests.support.batches import samples_of
from tests.support.builders import (
    LR,
    PUBLIC,
    assert_close,
    assert_equal,
    federation,
    personalized,
    simulation,
    trained,
    with_newcomers,
)
from tests.support.lost_uploads import losing
from tests.support.public_samples import alignment_of, descend, mean_loss, public_batches
from tests.support.settings import DNN
from tests.support.split_models import EXACT, row_of

FEDMD = {"name": "fedmd", "public_samples": 6, "digest_steps": 5}


def distance(kind: str, goal: torch.Tensor):
    """The mean over samples and classes; ``goal`` is indexed by the places of the samples."""

    def loss(params: plain.Params, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        gap = plain.logits(params, x) - goal[places]
        return (gap**2 if kind == "mse" else gap.abs()).mean()

    return loss


def digested(params: plain.Params, x: torch.Tensor, goal: torch.Tensor, kind: str, momentum: float) -> plain.Params:
    batches = [(x[places], places) for places in public_batches(len(x), 5, 4)]
    return descend(params, batches, distance(kind, goal), LR, momentum)


@pytest.mark.parametrize("kind", ["mse", "mae"])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_rounds_equal_a_loop_over_clients_with_plain_autograd(kind, momentum):
    """From the second round on: in the first all scores agree, and the sign of a rounding error decides for mae."""
    run = simulation(FEDMD | {"loss": kind}, model=DNN, participation=0.75, momentum=momentum)
    first = trained("local_train", model=DNN, rounds=1)
    run.state = replace(run.state, personal_params=personalized(first))
    theta = [row_of(run.state.personal_params, i) for i in range(4)]
    state = run.state
    for round in (2, 3):
        cohort, x = run.task.cohort(round), alignment_of(run, round, 6)
        state, diagnostics = run.algorithm.round(state, cohort, run.task)
        scores = torch.stack([plain.logits(theta[i], x) for i in cohort.client_ids])
        goal = scores.mean(0)
        losses = []
        for i, batches in samples_of(run.task, cohort.clients, cohort.plan).items():
            start = digested(theta[i], x, goal, kind, momentum)
            losses.append(mean_loss(start, batches, LR, momentum))
            theta[i] = descend(start, batches, plain.cross_entropy, LR, momentum)
        assert_close(state.personal_params, plain.stack(theta), EXACT)
        torch.testing.assert_close(state.consensus, goal, rtol=EXACT, atol=EXACT)
        assert state.round == round
        assert diagnostics.train_loss.tolist() == pytest.approx(losses, rel=EXACT)
        assert float(diagnostics.values["disagreement"]) == pytest.approx(float((scores - goal).square().mean()))
        # Five batches of six samples by four: 4, 2, 4, 2, 4.
        assert diagnostics.gradient_evaluations == cohort.plan.gradient_evaluations + 16 * cohort.size


def test_without_steps_towards_the_average_this_is_local_training():
    run = trained(FEDMD | {"digest_steps": 0}, rounds=3)
    assert_equal(personalized(run), personalized(trained("local_train", rounds=3)))
    assert any("digest_steps=0" in note for note in run.task.notes)
    assert not simulation("fedmd").task.notes


def test_a_single_participant_trains_locally():
    """Its scores are the average. Not so for mae, where the signs of rounding errors would decide."""
    settings = {"rounds": 3, "participation": 0.25, "batch_size": "full"}
    run = trained("fedmd", backend="loop", **settings)
    assert_close(personalized(run), personalized(trained("local_train", backend="loop", **settings)), 1e-12)


def test_models_that_agree_do_not_move_towards_the_average():
    run = trained(FEDMD | {"digest_steps": 50}, model=DNN, rounds=1)
    assert_close(personalized(run), personalized(trained("local_train", model=DNN, rounds=1)), 1e-12)


def test_many_steps_make_the_predictions_on_public_samples_agree():
    spread = [
        simulation(FEDMD | {"digest_steps": steps, "public_samples": 3}, model=DNN, rounds=3).rounds()
        for steps in (0, 100)
    ]
    alone, together = ([r.scalars["diagnostics.disagreement"] for r in rounds if r.round] for rounds in spread)
    assert alone[0] == together[0] == pytest.approx(0, abs=1e-20)
    assert together[2] < alone[2]


def test_the_round_sends_logits_of_the_public_samples():
    results = list(simulation(FEDMD, participation=0.5).rounds())
    for result in results[1:]:
        assert result.scalars["bytes_up"] == result.scalars["bytes_down"] == 2 * 6 * 3 * 8
    assert results[1].scalars["diagnostics.public_bytes"] == PUBLIC * 5 * 8
    assert "diagnostics.public_bytes" not in results[2].scalars


def test_fewer_public_samples_than_asked_for_are_all_used():
    run = trained({"name": "fedmd", "public_samples": 1000})
    assert run.state.consensus.shape == (PUBLIC, 3)


def test_a_federation_without_public_samples_is_refused():
    with pytest.raises(Unsupported, match=r"fedmd needs public samples: set partition.public_fraction, for instance 0"):
        simulation("fedmd", replace(federation(), public=None))


def test_a_lost_upload_does_not_count_in_the_average():
    run = losing(simulation(FEDMD, model=DNN), 1)
    run.state = replace(run.state, personal_params=personalized(trained("local_train", model=DNN, rounds=1)))
    cohort, x = run.task.cohort(2), alignment_of(run, 2, 6)
    state, _ = run.algorithm.round(run.state, cohort, run.task)
    heard = [i for place, i in enumerate(cohort.client_ids) if place != 1]
    goal = torch.stack([plain.logits(row_of(run.state.personal_params, i), x) for i in heard]).mean(0)
    torch.testing.assert_close(state.consensus, goal, rtol=EXACT, atol=EXACT)


def test_without_any_upload_clients_train_alone_and_the_average_stays():
    run, alone = losing(simulation(FEDMD, model=DNN), 0, 1, 2, 3), trained("local_train", model=DNN, rounds=3)
    run.state = replace(run.state, personal_params=personalized(trained("local_train", model=DNN, rounds=2)))
    state, _ = run.algorithm.round(run.state, run.task.cohort(3), run.task)
    assert_close(state.personal_params, personalized(alone), 1e-14)
    assert torch.equal(state.consensus, run.state.consensus) and state.round == 0


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_newcomer_digests_the_last_average_and_trains(rounds):
    run = simulation(FEDMD, with_newcomers(), model=DNN, rounds=3)
    for result in run.rounds():
        if result.round == rounds:
            break
    task = run.task.of_unseen()
    newcomers = task.everyone(stream="newcomers")
    found = run.algorithm.adapted(run.state, newcomers, task).params
    start = run.task.initial_model()
    if rounds:
        start = digested(start, alignment_of(run, rounds, 6), run.state.consensus, "mse", 0.0)
    for i, batches in samples_of(task, newcomers.clients, newcomers.plan).items():
        assert_close(row_of(found, i), plain.descend(start, batches), EXACT)
