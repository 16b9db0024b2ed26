"""The story on how clients differ: its splits, its shipped results, and its claims."""

import numpy as np
import pytest

from app.stories.accuracy_run import steps
from app.stories.figures import client_images, row_ends
from app.stories.skews import (
    ALONE,
    EVERY,
    HOW,
    ROUNDS,
    SHOWN,
    SKEWS,
    STORY,
    STRENGTHS,
    TOGETHER,
    end,
    example,
    experiment,
    finding,
    line,
)
from app.wording import percent_pm
from tests.support.stories import run_of, simulations_of


def summary(skew: str, strength: str) -> np.ndarray:
    """[N, C] samples of each client by digit."""
    simulation, *_ = simulations_of(steps(experiment(skew, strength)))
    return np.array(simulation.task.data.summary.class_counts)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_clients_have_as_many_digits_as_the_words_say(strength: str) -> None:
    numbers = {"all": 10, "six": 6, "four": 4, "two": 2, "one": 1}
    first, *_ = SKEWS["labels"].in_words(strength).split()
    assert ((summary("labels", strength) > 0).sum(1) == numbers[first]).all()


def test_clients_are_rotated_as_the_words_say() -> None:
    angles = {"upright": 0, "45°": 45, "90°": 90, "180°": 180, "360°": 360}
    for strength, value in zip(STRENGTHS, SKEWS["features"].values, strict=True):
        assert 360 * value == angles[SKEWS["features"].in_words(strength).split()[-1]]


def test_only_quantity_changes_the_sizes() -> None:
    for skew in SKEWS:
        sizes = summary(skew, "extreme").sum(1)
        assert (np.ptp(sizes) <= 2) == (skew != "quantity")


@pytest.mark.slow
def test_the_shipped_numbers_match_the_engine() -> None:
    """Of one skew: below, the clients of the others are the shipped ones."""
    run = run_of(steps(experiment("labels", "strong")))
    run.advance(ROUNDS)
    at, seed = STRENGTHS.index("strong"), example().seeds.index(0)
    for how, accuracy in zip((TOGETHER, ALONE), run.now.accuracies, strict=True):
        assert accuracy.mean() == pytest.approx(example().lines[line("labels", how)][at, seed], abs=0.01)


@pytest.mark.parametrize("skew", SKEWS)
def test_the_shown_clients_are_every_second(skew: str) -> None:
    sizes = simulations_of(steps(experiment(skew, "strong")))[0].task.data.summary.train_sizes[::EVERY]
    assert example().clients[skew][STRENGTHS.index("strong")].tolist() == list(sizes) and len(sizes) == SHOWN


def test_the_shipped_images_are_the_clients_own() -> None:
    data = simulations_of(steps(experiment("features", "strong")))[0].task.data.train
    second = data.pool.x[data.rows[data.offsets[EVERY]], 0].numpy()
    assert (example().pictures["features strong 1"][0] == np.minimum(second, 15)).all()


def test_where_clients_are_alike_sharing_wins() -> None:
    assert all(end(skew, TOGETHER, "none") > end(skew, ALONE, "none") for skew in SKEWS)
    assert "one shared model beats training alone" in STORY.scenes[0].finding


def test_labels_make_the_own_task_easy_and_features_cost_the_shared_model_most() -> None:
    cost = {skew: end(skew, TOGETHER, "none")[0] - end(skew, TOGETHER, "strong")[0] for skew in SKEWS}
    assert max(cost, key=cost.__getitem__) == "features" and cost["quantity"] < 0.02
    assert end("labels", ALONE, "strong") > end("labels", TOGETHER, "strong")
    assert np.ptp(example().lines[line("features", ALONE)].mean(1)) < 0.02


def test_unequal_amounts_make_sharing_worth_most() -> None:
    worth = {skew: end(skew, TOGETHER, "strong")[0] - end(skew, ALONE, "strong")[0] for skew in SKEWS}
    assert max(worth, key=worth.__getitem__) == "quantity"
    grows = example().lines[line("quantity", TOGETHER)] - example().lines[line("quantity", ALONE)]
    assert (np.diff(grows.mean(1)) > 0).all()


def test_scenes_say_what_changes_compared_with_clients_that_are_alike() -> None:
    _, labels, features, quantity = (scene.text for scene in STORY.scenes)
    assert "the shared model loses 2 points (from 95 % to 93 %). Clients alone gain 17 points" in labels
    assert (
        "the shared model loses 29 points (from 95 % to 66 %)" in features and "Clients alone hardly change" in features
    )
    assert "the shared model hardly changes" in quantity and "alone lose 14 points (from 83 % to 69 %)" in quantity


def test_every_scene_has_the_number_of_its_skew() -> None:
    for scene in STORY.scenes:
        for how in (TOGETHER, ALONE):
            number = percent_pm(*end(scene.place["skew"], how, scene.place["strength"]), samples=100)
            assert number in scene.finding == finding(scene.place)


def test_a_client_with_more_data_has_a_longer_row() -> None:
    assert client_images.lengths([54, 54]) == [10, 10]
    assert client_images.lengths([263, 52, 6]) == [10, 2, 1]
    fig = client_images.figure([[np.ones((8, 8))] * 10, [np.ones((8, 8))] * 10], [100, 20])
    z = np.array([[np.nan if value is None else value for value in row] for row in fig.data[0].z])
    assert (np.nansum(z[:8]), np.nansum(z[9:17])) == (640, 128)
    assert list(fig.data[1].text) == ["100", "20"]


def test_a_slide_shows_images_of_the_skew_beside_the_accuracies() -> None:
    motif = STORY.motif({"skew": "features", "strength": "strong"})
    assert motif.title == "Features: rotated across 180°" and motif.figure["data"][0]["type"] == "heatmap"


def test_the_exercises_on_extreme_differences_have_their_figure() -> None:
    assert "one digit each" in STORY.curve.alt and "rotated across 360°" in STORY.curve.alt


def test_the_kicker_says_how_many_images_a_client_has() -> None:
    sizes = [example().clients[skew][0].mean() for skew in SKEWS]
    assert all(45 < size < 55 for size in sizes) and "about 50 training images per client" in STORY.kicker


def test_the_run_is_on_its_row() -> None:
    fig = row_ends.figure(["a", "b", "c"], dict.fromkeys(HOW, [(0.9, 0.01)] * 3), "accuracy, %", seeds=5)
    moves = row_ends.moving(HOW, {1: (0.5, 0.7)})
    assert moves["together"]["x"] == [50] and moves["alone"]["x"] == [70]
    assert all(round(move["y"][0]) == -1 for move in moves.values())
    assert set(moves) <= {trace.name for trace in fig.data}
    assert row_ends.moving(HOW, {}) == {}
