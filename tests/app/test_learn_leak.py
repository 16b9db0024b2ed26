"""The story on leaks: what a gradient reveals, exactly, and its claims."""

from itertools import islice

import numpy as np
import pytest

from app.components.moving_figure import hidden_results
from app.stories.figures import leaked_images, similarity_curve
from app.stories.leak import BATCHES, LINES, REFERENCE, ROUNDS, STORY, at, example, experiment, finding
from app.stories.leak_attack import recovered, similarity, with_noise
from app.stories.leak_run import LeakStep, steps
from tests.support.stories import simulations_of


def gradient(images: np.ndarray, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """([C, d], [C]) of softmax regression with three classes, at random weights."""
    rng = np.random.default_rng(1)
    logits = images @ rng.normal(size=(3, images.shape[1])).T + rng.normal(size=3)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    error = (p - np.eye(3)[digits]) / len(images)
    return error.T @ images, error.sum(0)


def after(rounds: int, batch: str, noise: float = 0.0) -> LeakStep:
    return next(islice(steps(experiment(int(batch)), noise), rounds, None))


def test_the_gradient_of_one_image_is_the_image() -> None:
    image = np.random.default_rng(2).random((1, 6))
    rows = recovered(*gradient(image, np.array([1])))
    np.testing.assert_allclose(rows[1], image[0], atol=1e-12)
    np.testing.assert_allclose(rows[[0, 2]], -np.repeat(image, 2, 0), atol=1e-12)  # the other classes' sign


def test_two_images_of_a_digit_are_mixed() -> None:
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    mixture = recovered(*gradient(images, np.array([0, 0])))[0]
    assert mixture.sum() == pytest.approx(1) and mixture.min() > 0


def test_one_image_is_recovered_from_what_the_engine_sends() -> None:
    untrained, *later = steps(experiment(1), 0.0)
    assert untrained.leak is None and len(later) == ROUNDS and later[-1].is_settled
    leaks = [step.leak for step in later if step.leak]
    assert leaks[-1].images.shape == (1, 64) and leaks[-1].largest_error < 1e-5
    assert min(leak.similarity.mean() for leak in leaks) == pytest.approx(1, abs=1e-6)


def test_the_batch_is_the_one_that_the_engine_trains_on() -> None:
    leak = after(1, "4").leak
    assert leak is not None
    x, _ = simulations_of(STORY.steps({"noise": "0", "batch": "4"}))[0].task.data.train.of_client(0)
    own = x.flatten(1).double().numpy()
    assert all((own == image).all(1).any() for image in leak.images)


def test_noise_has_the_requested_size() -> None:
    signal = np.full((200, 200), 2.0)
    added = with_noise(signal, 0.5, np.random.default_rng(0)) - signal
    assert added.std() == pytest.approx(1, rel=0.02) and abs(added.mean()) < 0.02
    assert (with_noise(signal, 0.0, np.random.default_rng(0)) == signal).all()


def test_similarity_is_the_correlation_of_pixels() -> None:
    one = np.random.default_rng(3).random((2, 9))
    np.testing.assert_allclose(similarity(one, 3 * one + 1), 1)
    np.testing.assert_allclose(similarity(one, -one), -1)
    expected = np.corrcoef(one)[0, 1]
    np.testing.assert_allclose(similarity(one[:1], one[1:]), expected)


def test_the_shipped_numbers_match_the_run() -> None:
    shipped = example().lines[LINES["1"]][BATCHES.index("4"), example().seeds.index(0)]
    assert after(ROUNDS, "4", 1.0).value == pytest.approx(shipped, abs=1e-3)


def test_larger_batches_and_more_noise_hide_more() -> None:
    table = np.array([[at(noise, batch) for batch in BATCHES] for noise in LINES])
    assert (np.diff(table, axis=0) < 0).all() and (np.diff(table, axis=1) < 0).all()


def test_the_claims_of_the_scenes_hold() -> None:
    mean = example().at(REFERENCE, "1")[0]
    assert at("0", "1") == pytest.approx(1, abs=1e-5) and at("0", "4") > mean > at("0", "16")
    assert at("1", "1") > mean > at("3", "1")
    findings = [scene.finding for scene in STORY.scenes]
    assert "exactly" in findings[0] and "closer to the originals" in findings[1] and "further from the" in findings[2]
    assert "not differential privacy" in STORY.scenes[3].text


def test_equal_correlations_are_called_equal() -> None:
    assert f"{at('0', '8'):.2f}" == f"{example().at(REFERENCE, '1')[0]:.2f}"
    assert "about as close to the originals as" in finding({"noise": "0", "batch": "8"})


def test_the_result_can_be_seen_without_a_run_and_not_before() -> None:
    place = STORY.scenes[0].place
    assert set(STORY.picture(place).moves) == {"images", "recovered"}
    assert STORY.picture(place).title.endswith("(seed 0)")
    with hidden_results(True):
        assert set(STORY.picture(place).moves) == {"images"}


def test_every_scene_and_finding_has_its_number() -> None:
    for scene in STORY.scenes:
        number = f"{at(scene.place['noise'], scene.place['batch']):.2f}"
        assert number in scene.finding == finding(scene.place)


def test_the_shipped_first_images_are_those_of_the_first_round() -> None:
    leak = after(1, "2").leak
    assert leak is not None
    shown = example().pictures["2"].reshape(2, -1)
    assert (shown == np.minimum(np.rint(leak.images * 16), 15)).all()


@pytest.mark.parametrize(("batch", "columns"), [(1, 1), (2, 2), (4, 2), (8, 3), (16, 4)])
def test_images_are_in_a_square(batch: int, columns: int) -> None:
    assert leaked_images.columns_of(batch) == columns
    z = leaked_images.moving(np.ones((batch, 64)), None)["images"]["z"]
    assert len(z[0]) == 9 * columns and sum(value == 16 for row in z for value in row) == 64 * batch


def test_pixels_outside_the_range_are_cut_off() -> None:
    z = leaked_images.moving(np.zeros((1, 64)), np.linspace(-1, 2, 64)[None])["recovered"]["z"]
    assert (z[0][0], z[7][7]) == (0, 16)


def test_everything_animated_has_a_trace() -> None:
    pair = leaked_images.figure(4, "0.9")
    curve = similarity_curve.figure(similarity_curve.data(example()), REFERENCE, [1, 16])
    images = np.ones((4, 64))
    assert set(leaked_images.moving(images, images)) <= {trace.name for trace in pair.data}
    assert set(similarity_curve.moving(4, 0.5, [(1, 1.0)])) <= {trace.name for trace in curve.data}
