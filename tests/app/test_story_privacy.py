"""The story on private clients: its shipped numbers, its claims and its figures."""

import math

import numpy as np
import pytest

from app.stories import privacy as story
from app.stories.compared import side
from app.stories.method_rows import LOWEST, MEAN, values
from app.stories.privacy import (
    ALONE,
    CLIENTS,
    DITTO,
    FEDAVG,
    MANY,
    METHODS,
    NOISES,
    OPEN,
    PULLED,
    STORY,
    WEAK,
    WEAKEST,
    example,
    larger,
)
from engine.config.schema import parse_experiment
from engine.privacy import accounting
from engine.privacy.client_level import client_level
from tests.app.pages import open_page
from tests.support.stories import last_step, run_of, simulations_of


def of(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    return values(example(), method, stop, what)


@pytest.mark.slow
def test_the_shipped_numbers_and_epsilon_match_the_engine() -> None:
    """Of the mean and of a personal model: the others differ in λ or are without noise."""
    shown, last = (FEDAVG, WEAKEST), last_step(story.experiment("8"), FEDAVG, WEAKEST)
    assert last.is_settled and last.epsilons == [NOISES["8"].epsilon] * 2
    for method, (mean, lowest5), accuracies in zip(shown, last.scores, last.accuracies, strict=True):
        assert mean == pytest.approx(of(method, "8")[0], abs=0.005)
        assert lowest5 == pytest.approx(of(method, "8", LOWEST)[0], abs=0.03)
        assert accuracies.shape == example().clients_at("8")[method].shape == (CLIENTS,)


def test_epsilon_is_that_of_the_methods_that_send_noisy_updates() -> None:
    run = run_of(STORY.steps({"privacy": "8"}))
    run.advance(1)
    epsilons = dict(zip(METHODS, run.now.epsilons, strict=True))
    assert epsilons[OPEN] == math.inf and epsilons[ALONE] == 0 < epsilons[FEDAVG] < NOISES["8"].epsilon
    assert all(epsilons[method] == epsilons[FEDAVG] for method in PULLED)
    assert f"{story._said(epsilons[FEDAVG])} so far" in story.STORY.standing("8", run)


def test_epsilon_on_the_dial_falls_with_noise_and_is_that_of_everyone_in_every_round() -> None:
    found = [noise.epsilon for noise in NOISES.values()]
    assert found[0] == math.inf and found == sorted(found, reverse=True)
    for stop in ("1", "8"):
        config = parse_experiment(STORY.config({"privacy": stop})).runs()[1]
        assert config.privacy
        private = client_level(config.privacy, 0, CLIENTS, 1.0, story.ROUNDS, is_sampling_known=True)
        assert private.epsilon(story.ROUNDS) == NOISES[stop].epsilon
    titles = [noise.title for noise in NOISES.values()]
    assert titles[0] == "no privacy" and titles[-1] == f"z = 8, ε = {found[-1]:.1f}"


def test_the_images_of_a_client_are_as_many_as_the_kicker_says() -> None:
    summary = simulations_of(STORY.steps({"privacy": "off"}))[0].task.data.summary
    assert (np.array(summary.class_counts) > 0).sum(1).tolist() == [story.CLASSES] * CLIENTS
    assert f"{min(summary.train_sizes)} to {max(summary.train_sizes)} training images" in STORY.kicker


def test_learning_alone_and_the_row_without_noise_are_the_same_at_every_stop() -> None:
    for stop in NOISES:
        assert all((of(ALONE, stop, what) == of(ALONE, "off", what)).all() for what in (MEAN, LOWEST))
        assert all((of(OPEN, stop, what) == of(FEDAVG, "off", what)).all() for what in (MEAN, LOWEST))


def test_without_noise_a_clipped_run_hardly_differs() -> None:
    config = dict(story.experiment("1", {FEDAVG: METHODS[FEDAVG]}))
    entry = dict(config["algorithms"][0])
    clipped = {**config, "algorithms": [{**entry, "privacy": {**entry["privacy"], "noise": 0}}]}
    assert last_step(clipped, FEDAVG).value == pytest.approx(of(FEDAVG, "off")[0], abs=0.02)


def test_the_names_of_personal_models_have_their_strength() -> None:
    assert [f"Ditto, λ = {METHODS[method]['lam']:g}" for method in PULLED] == list(PULLED)


def test_one_model_pays_more_than_a_model_of_ones_own() -> None:
    for stop in ("2", "4", "8"):
        lost = {method: (of(method, "off") - of(method, stop)).mean() for method in (FEDAVG, *PULLED)}
        assert lost[FEDAVG] > lost[DITTO] > lost[WEAK] > lost[WEAKEST] > 0
    assert side(of(WEAK, "2"), of(FEDAVG, "2")) > 0


def test_little_noise_is_almost_free() -> None:
    assert 0 <= (of(OPEN, "1") - of(FEDAVG, "1")).mean() < 0.02 and NOISES["1"].epsilon > 30


def test_the_best_pull_falls_with_noise_until_training_alone_wins() -> None:
    pulls = {DITTO: 1.0, WEAK: 0.3, WEAKEST: 0.1, ALONE: 0.0}
    best = [max(pulls, key=lambda method: float(of(method, stop).mean())) for stop in NOISES]
    falling = [pulls[method] for method in best]
    assert falling == sorted(falling, reverse=True) and best[0] != ALONE and best[-1] == ALONE
    assert best[-2] == WEAKEST
    assert side(of(WEAKEST, "4"), of(ALONE, "4")) > 0 > side(of(WEAKEST, "8"), of(ALONE, "8"))


def test_the_lowest_five_percent_pay_most() -> None:
    lost = {what: of(OPEN, "4", what) - of(FEDAVG, "4", what) for what in (MEAN, LOWEST)}
    assert side(lost[LOWEST], lost[MEAN]) > 0


def test_the_same_noise_costs_little_where_many_take_part() -> None:
    many = values(larger(), FEDAVG, str(MANY), MEAN)
    assert (of(FEDAVG, "off") - many).mean() < 0.03 and side(many, of(FEDAVG, "8")) > 0
    assert accounting.epsilon(1.0, 8.0, story.ROUNDS, story.DELTA) == NOISES["8"].epsilon


def test_every_finding_has_its_numbers() -> None:
    for scene, (stop, noise) in zip(STORY.scenes, NOISES.items(), strict=True):
        assert scene.place == {"privacy": stop}
        assert all(method in METHODS for method in noise.compared)
        assert stop == "off" or story._said(noise.epsilon) in scene.finding
    assert story._pm(FEDAVG, "4", LOWEST) in STORY.scenes[3].finding
    assert story._pm(ALONE, "8") in STORY.scenes[4].finding


def test_powers_are_raised() -> None:
    assert story._raised(15.2) == "¹⁵"
    assert "eᵋ times" in STORY.scenes[1].text and "about 10¹⁵" in STORY.scenes[1].text


def test_the_changes_of_single_clients_name_their_seed() -> None:
    learn = open_page("learn", story="privacy", privacy="1")
    assert "FedAvg instead of FedAvg without noise: change for each client (seed 0)" in {h.value for h in learn.header}


def test_set_up_opens_all_methods_with_their_noise() -> None:
    runs = parse_experiment(STORY.config({"privacy": "4"})).runs()
    assert [run.label for run in runs] == list(METHODS)
    assert [run.privacy.noise if run.privacy else None for run in runs] == [None, 4, 4, 4, 4, 4]
    assert not any(run.privacy for run in parse_experiment(STORY.config({"privacy": "off"})).runs())
