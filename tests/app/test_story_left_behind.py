"""The story on clients left behind: its shipped numbers, its run and its figures."""

import numpy as np
import pytest

from app.stories import left_behind as story
from app.stories import sharpness_run
from app.stories.figures import cross_section, left_behind, radius
from app.stories.left_behind import STORY
from app.stories.sharpness_curve import NUM_CLIENTS, NUM_LEFT_BEHIND, RADII, STEPS, Example, Standing, example
from app.wording import percent
from engine.config.schema import parse_experiment
from engine.metrics import tail_size
from tests.support.stories import run_of, simulations_of

SMALL = Example(
    command="python -m benchmarks.story_left_behind",
    mean=np.stack([np.linspace(0.6, 0.8, len(RADII))] * 2, axis=1),
    lowest5=np.stack([np.full(len(RADII), 0.3), np.linspace(0.3, 0.5, len(RADII))], axis=1),
    accuracies=np.tile(np.linspace(0.9, 0.1, NUM_CLIENTS), (len(RADII), 1)),
    sections=np.tile(1 + STEPS**2, (len(RADII), 1)),
    train_sizes=np.arange(NUM_CLIENTS) + 1,
    digits=("01",) * NUM_CLIENTS,
    checks={},
)


@pytest.mark.slow
def test_the_shipped_results_match_the_engine() -> None:
    run = run_of(STORY.steps({"rho": "0.2"}))
    run.advance(story.ROUNDS)
    there, at, now = example(), RADII.index(0.2), run.now.standing()
    assert run.is_settled
    assert now.mean == pytest.approx(there.mean[[0, at], 0], abs=2e-3)
    assert now.lowest5 == pytest.approx(there.lowest5[[0, at], 0], abs=5e-3)
    assert now.sections[1] == pytest.approx(there.sections[at], rel=0.01)
    assert run.value == pytest.approx(now.lowest5[1])


def test_the_clients_are_the_named_ones() -> None:
    summary = simulations_of(STORY.steps({"rho": "0"}))[0].task.data.summary
    held = ["".join(str(c) for c, n in enumerate(counts) if n) for counts in summary.class_counts]
    assert summary.train_sizes == tuple(example().train_sizes) and tuple(held) == example().digits
    assert tail_size(NUM_CLIENTS) == NUM_LEFT_BEHIND
    assert f"{min(summary.train_sizes)} to {max(summary.train_sizes)} training images" in STORY.kicker
    assert (min(summary.test_sizes), max(summary.test_sizes)) == (min(summary.train_sizes), max(summary.train_sizes))


@pytest.mark.parametrize("rho", ["0", "0.1"])
def test_set_up_opens_the_shown_runs(rho: str) -> None:
    opened = parse_experiment(STORY.config({"rho": rho})).runs()
    shown = [simulation.config for simulation in simulations_of(STORY.steps({"rho": rho}))]
    assert [run.digest for run in opened] == [run.digest for run in shown]
    assert len(opened) == (1 if rho == "0" else 2)


def test_claims_about_the_gain_hold() -> None:
    there = example()
    for rho in (0.1, 0.2):
        gains = there.gains(rho)
        assert gains.mean() > 3 * gains.std(ddof=1) / len(gains) ** 0.5
    assert there.mean[RADII.index(0.5)].mean() < 0.3
    middle = len(STEPS) // 2
    rises = there.sections.max(1) - there.sections[:, middle]
    assert rises[RADII.index(0.2)] < rises[0]
    assert there.sections[RADII.index(0.1), middle] < there.sections[0, middle]


def test_claims_against_the_gain_hold() -> None:
    checks, here = example().checks, example().lowest5[RADII.index(0.3)]
    assert checks["fedavg, larger step"].lowest5.mean() > example().lowest5[0].mean()
    assert f"{100 * checks['fedavg, larger step'].lowest5.mean():.0f} ±" in STORY.scenes[5].finding
    assert f"{100 * here.mean():.0f} ±" in STORY.scenes[5].finding


def test_the_gain_is_counted_over_draws() -> None:
    assert SMALL.gains(0.5).tolist() == pytest.approx([0.0, 0.2])
    assert SMALL.best_rho == 0.5


def test_the_lowest_five_percent_are_the_two_worst_clients() -> None:
    accuracies = np.tile(np.linspace(0, 1, NUM_CLIENTS), (2, 1))
    standing = Standing(accuracies, np.zeros((2, 3)))
    assert standing.lowest5 == pytest.approx([1 / (2 * (NUM_CLIENTS - 1))] * 2)
    assert standing.mean == pytest.approx([0.5, 0.5])


def test_clients_are_sorted_by_fedavg_and_the_worst_are_marked() -> None:
    accuracies = np.array([[0.9, 0.1, 0.5, 0.2], [0.3, 0.8, 0.7, 0.2]])
    df = left_behind.data(accuracies, accuracies[0], np.array([9, 8, 7, 6]), ["01", "12", "23", "34"])
    assert df["client"].tolist() == [1, 3, 2, 0]
    assert df.loc[df["is_low_before"], "client"].tolist() == [1, 3]
    assert df.loc[df["is_low_now"], "client"].tolist() == [3, 0]
    moves = left_behind.moving(df, 0.2)
    assert moves["left behind"]["y"] == pytest.approx([20, 30])
    assert moves["who"]["text"] == ["20 %: 6 images of 3 and 4", "30 %: 9 images of 0 and 1"]
    assert "25 % at rho = 0.2, 15 % with FedAvg" in left_behind.finding(df, 0.2)


def test_without_a_radius_fedavg_is_drawn_once() -> None:
    accuracies = np.full((2, 3), 0.5)
    df = left_behind.data(accuracies, accuracies[0], np.array([4, 40, 20]), ["01"] * 3)
    moves = left_behind.moving(df, 0.0)
    assert moves[left_behind.NOW]["x"] == moves["change"]["x"] == [] and len(moves[left_behind.BEFORE]["x"]) == 3
    assert "rho" not in left_behind.finding(df, 0.0)
    assert not any("ρ = 0" in str(trace.text) for trace in left_behind.figure(0.0, height=400).data)


def test_draws_without_a_change_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "example", lambda: SMALL)
    assert story._gain_text(0.5).endswith("up in 1, down in 0, unchanged in 1.")


def test_a_client_with_more_samples_has_a_larger_mark() -> None:
    accuracies = np.full((2, 3), 0.5)
    df = left_behind.data(accuracies, accuracies[0], np.array([4, 40, 20]), ["01"] * 3)
    small, large, middle = left_behind.moving(df, 0.2)[left_behind.NOW]["marker"]["size"]
    assert left_behind.MIN_SIZE < small < middle < large == left_behind.MAX_SIZE


def test_the_curves_have_the_shipped_values_and_spread() -> None:
    df = radius.data(SMALL)
    last = df[(df["metric"] == "lowest5") & (df["rho"] == 0.5)].iloc[0]
    assert (last["shown"], last["mean"], last["std"]) == pytest.approx((0.3, 0.4, 0.02**0.5))
    assert last["is_best"] and df["is_best"].sum() == 2


def test_the_dots_of_the_run_are_its_mean_and_tail() -> None:
    moves = radius.moving(0.2, (0.8, 0.5), [(0.1, 0.4)])
    assert moves["your run"] == {"x": [0.2, 0.2], "y": pytest.approx([80, 50])}
    assert moves["earlier runs"] == {"x": [0.1], "y": pytest.approx([40])}
    assert radius.moving(0.2, None, [])["your run"] == {"x": [], "y": []}


def test_the_rise_of_the_loss_is_reported() -> None:
    df = cross_section.data(np.array([-1.0, 0.0, 1.0]), np.array([[3.0, 1.0, 4.0], [2.0, 0.5, 1.0]]))
    finding = cross_section.finding(df, 0.1)
    assert "0.50 at rho = 0.1 and 1.00 with FedAvg" in finding and "1.00 and 2.50 higher" in finding


@pytest.mark.slow
def test_everything_animated_has_a_trace() -> None:
    clients = left_behind.data(SMALL.accuracies[:2], SMALL.accuracies[0], SMALL.train_sizes, SMALL.digits)
    section = cross_section.data(STEPS, SMALL.sections[:2])
    pairs = (
        (left_behind.figure(0.1, height=400), left_behind.moving(clients, 0.1)),
        (radius.figure(radius.data(SMALL), {}, height=300), radius.moving(0.1, (0.5, 0.4), [])),
        (cross_section.figure(0.1), cross_section.moving(section)),
    )
    for figure, moves in pairs:
        assert set(moves) <= {trace.name for trace in figure.data}


def test_the_rise_of_the_loss_is_said_for_each_edge() -> None:
    scene, sections = STORY.scenes[2], example().sections
    middle = len(STEPS) // 2
    for edge, words in ((-1, scene.finding), (0, scene.text)):
        for rho in (RADII.index(0.15), 0):
            assert f"by {sections[rho, edge] - sections[rho, middle]:.2f}" in words
    assert "At the right edge" in scene.finding and "At the left edge" in scene.text


def test_figures_of_one_draw_say_so() -> None:
    clients, section = (STORY.picture(scene.place, None, []) for scene in STORY.scenes[1:3])
    assert clients.title.endswith("(first of 10 draws)") and section.title.endswith("(first of 10 draws)")


def test_numbers_of_the_shown_draw_match_its_clients() -> None:
    there = example()
    lowest = np.sort(there.accuracies, axis=1)[:, :NUM_LEFT_BEHIND]
    assert [percent(value) for value in there.lowest5[:, 0]] == [percent(value) for value in lowest.mean(1)]
    assert [percent(value) for value in there.mean[:, 0]] == [percent(value) for value in there.accuracies.mean(1)]


def test_without_a_radius_one_cross_section_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    run, measured = run_of(STORY.steps({"rho": "0"})), []
    monkeypatch.setattr(sharpness_run, "section", lambda task, w: measured.append(w) or np.zeros(3))
    standing = run.now.standing()
    assert len(measured) == 1
    assert standing.sections.shape == (2, 3) and (standing.accuracies[0] == standing.accuracies[1]).all()
