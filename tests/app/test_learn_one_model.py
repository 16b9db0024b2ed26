"""The story on one model for all: its shipped results match the engine, and its figures show them."""

import numpy as np
import pytest

from app.stories import rotated_digits
from app.stories.accuracy_run import steps
from app.stories.dial_example import pack
from app.stories.figures import dial_curve, rotated_clients
from app.stories.one_model import STORY, TURNS, angles, config, example, finding, standing
from app.wording import percent_pm
from engine.config.schema import parse_experiment
from tests.support.stories import run_of

UPRIGHT, QUARTER = {"turn": "0"}, {"turn": "90"}


@pytest.mark.slow
def test_the_shipped_numbers_match_the_engine_after_the_last_round() -> None:
    run = run_of(steps(config("90", "fedavg")))
    run.advance(rotated_digits.ROUNDS - 1)
    assert not run.is_settled
    run.advance(5)
    assert run.is_settled and run.round == rotated_digits.ROUNDS
    at, seed = TURNS.index("90"), example().seeds.index(0)
    assert run.value == pytest.approx(example().lines["mean"][at, seed], abs=0.005)
    assert run.now.accuracies[0].min() == pytest.approx(example().lines["lowest client"][at, seed], abs=0.03)


def test_clients_in_the_middle_are_best_and_both_ends_worst() -> None:
    ends = example().clients_at("90")["One model"]
    assert ends[8:12].mean() > ends[:4].mean() + 0.1 and ends[8:12].mean() > ends[-4:].mean() + 0.1


def test_rotation_lowers_the_mean_and_increases_the_spread() -> None:
    means, lowest = (example().lines[line].mean(1) for line in ("mean", "lowest client"))
    assert (np.diff(means) < 0).all()
    to_quarter = TURNS.index("90") + 1
    assert (np.diff((means - lowest)[:to_quarter]) > 0).all()


def test_learning_alone_is_unaffected_by_rotation() -> None:
    alone = example().lines["each alone"].mean(1)
    assert np.ptp(alone) < 0.03
    means = example().lines["mean"].mean(1)
    assert means[0] > alone[0] and means[-1] < alone[-1]


def test_set_up_opens_the_shown_run_and_learning_alone() -> None:
    shown = parse_experiment(config("90", "fedavg")).runs()[0]
    opened = parse_experiment(STORY.config(QUARTER)).runs()
    assert shown.digest in {run.digest for run in opened}
    assert [run.algorithm.name for run in opened] == ["fedavg", "local_train"]


def test_every_scene_has_its_number() -> None:
    for scene in STORY.scenes:
        assert percent_pm(*example().at("mean", scene.place["turn"]), samples=36) in scene.text


def test_clients_are_rotated_as_labeled() -> None:
    experiment = parse_experiment(config("180", "fedavg")).runs()[0]
    options = experiment.partition.options
    assert angles("180")[10] == 90
    assert options.strength * 360 * 10 / options.num_groups == 90
    assert len(angles("180")) == options.num_clients


def test_no_rotation_and_quarter_turns_are_exact() -> None:
    (
        upright,
        *_,
    ) = example().pictures["0"]
    assert all((picture == upright).all() for picture in example().pictures["0"])
    whole = example().pictures["360"]
    assert (whole[5] == np.rot90(whole[0], 2)).all()


def test_an_image_keeps_its_grays() -> None:
    assert pack(np.array([[0, 15], [10, 1]])) == "0fa1"


def test_the_mean_is_a_line_and_clients_are_dots() -> None:
    df = rotated_clients.data({"One model": np.array([0.5, 1.0, 0.75])}, np.array([0.0, 30.0, 60.0]))
    moves = rotated_clients.moving(df, ["One model"], with_mean=True)
    assert moves["One model"] == {"x": [0, 1, 2], "y": [50.0, 100.0, 75.0]}
    assert moves["mean"]["y"] == [75.0, 75.0] and moves["mean label"]["text"] == ["mean 75"]


def test_everything_animated_has_a_trace() -> None:
    accuracies = {"a": np.ones(20), "b": np.zeros(20)}
    df = rotated_clients.data(accuracies, angles("90"))
    clients = rotated_clients.figure(accuracies, angles("90"), example().pictures["90"], height=400, seeds=5)
    assert set(rotated_clients.moving(df, ["a", "b"], with_mean=True)) <= {trace.name for trace in clients.data}
    lines = {name: dial_curve.Line("#000000", "solid") for name in example().lines}
    curve = dial_curve.figure(dial_curve.data(example()), lines, "turn", [0, 90], height=250, samples=36)
    now = dict.fromkeys(lines, 0.5)
    assert set(dial_curve.moving("90", now, [("0", 0.9)])) <= {trace.name for trace in curve.data}


def test_numbers_of_the_run_and_means_over_seeds_are_distinguished() -> None:
    run = run_of(STORY.steps({"turn": "90"}))
    assert standing(run).startswith("This run, round 0: mean ") and "worst of 20 clients" in standing(run)
    assert all(scene.text.endswith("Mean ± standard deviation over 5 seeds.") for scene in STORY.scenes)
    assert finding("90").endswith("(5 seeds).")


def test_clients_are_not_connected_by_a_line() -> None:
    ends = {"One model": example().clients_at("90")["One model"]}
    fig = rotated_clients.figure(ends, angles("90"), example().pictures["90"], height=400, seeds=5)
    scatter = [trace for trace in fig.data if trace.type == "scatter"]
    assert [trace.name for trace in scatter if trace.mode == "lines"] == ["pairs", "mean"]


def test_before_a_run_the_figure_shows_final_results() -> None:
    ends = example().clients_at("90")["One model"]
    fig = rotated_clients.figure({"One model": ends}, angles("90"), example().pictures["90"], height=400, seeds=5)
    assert fig.data[0].y == pytest.approx(100 * ends)
    assert ends.mean() == pytest.approx(example().at("mean", "90")[0], abs=1e-4)


def test_an_untrained_story_has_images_but_no_dots() -> None:
    moves = rotated_clients.moving(rotated_clients.data({}, angles("90")), ["One model"], with_mean=True)
    assert moves == {"One model": {"x": [], "y": []}}


def test_the_run_is_a_dot_and_earlier_ones_are_rings() -> None:
    moves = dial_curve.moving("90", {"mean": 0.5}, [("180", 0.25)])
    assert moves["your mean"] == {"x": [90.0], "y": [50.0]}
    assert moves["earlier runs"] == {"x": [180.0], "y": [25.0]}
