"""The story on learning alone: its shipped results match the engine, and its claims hold."""

import json

import numpy as np
import pytest

from app.stories import rotated_digits
from app.stories.alone import ANGLES, NAMES, SAMPLES, STORY, example
from app.stories.figures import rotated_clients
from app.wording import percent_pm
from engine.config.schema import parse_experiment
from tests.support.stories import run_of, simulations_of


def place(samples: str) -> dict[str, str]:
    return {"samples": samples}


@pytest.mark.slow
def test_the_shipped_numbers_match_the_engine() -> None:
    run = run_of(STORY.steps(place("10")))
    run.advance(rotated_digits.ROUNDS)
    seed, at = example().seeds.index(0), SAMPLES.index("10")
    for name, accuracy in zip(NAMES, run.now.accuracies, strict=True):
        assert accuracy.mean() == pytest.approx(example().lines[name][at, seed], abs=0.005)


@pytest.mark.parametrize("samples", SAMPLES)
def test_clients_have_as_many_samples_as_the_slider_says(samples: str) -> None:
    sizes = simulations_of(STORY.steps(place(samples)))[0].task.data.summary.train_sizes
    assert all(abs(size - int(samples)) <= 1 for size in sizes)


def test_one_model_is_better_with_few_samples_and_worse_with_many() -> None:
    together, own = (example().lines[name].mean(1) for name in NAMES)
    assert together[0] > own[0] and together[-1] < own[-1]
    assert (np.diff(np.sign(together - own)) != 0).sum() == 1


def test_both_are_equal_at_about_forty_samples() -> None:
    (together, _), (own, _) = (example().at(name, "40") for name in NAMES)
    assert abs(together - own) < 0.03


def test_at_forty_samples_one_model_is_better_for_clients_in_the_middle() -> None:
    together, own = (example().clients_at("40")[name] for name in NAMES)
    assert (together[3:7] > own[3:7]).all()
    assert together[0] < own[0] and together[-1] < own[-1]


def test_updates_can_be_sent_to_the_browser() -> None:
    accuracies = dict.fromkeys(NAMES, np.full(10, 0.5, np.float32))
    assert json.dumps(rotated_clients.moving(rotated_clients.data(accuracies, ANGLES), NAMES))


def test_set_up_opens_both_methods() -> None:
    runs = parse_experiment(STORY.config(place("60"))).runs()
    assert [run.algorithm.name for run in runs] == ["fedavg", "local_train"]


def test_every_scene_has_its_numbers() -> None:
    for scene in STORY.scenes:
        for name in NAMES:
            assert percent_pm(*example().at(name, scene.place["samples"]), samples=30) in scene.text


def test_a_line_connects_both_accuracies_of_a_client() -> None:
    df = rotated_clients.data({"Together": np.full(10, 0.5), "Alone": np.full(10, 0.75)}, ANGLES)
    pairs = rotated_clients.moving(df, NAMES)["pairs"]
    assert pairs["x"][:3] == [0, 0, None] and pairs["y"][:3] == [50.0, 75.0, None]
    assert len(pairs["y"]) == 30
