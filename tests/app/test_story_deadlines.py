"""The story on slow clients: its shipped numbers, its claims and its figures."""

import numpy as np
import pytest

from app.stories import deadlines as story
from app.stories.compared import side
from app.stories.deadlines import (
    ALONE,
    CLIENTS,
    DIGIT,
    DITTO,
    FEDAVG,
    METHODS,
    NEVER,
    SECONDS,
    STORY,
    TUNED,
    USED,
    WAITS,
    example,
    used_by,
)
from app.stories.figures import used_clients
from app.stories.method_rows import LOWEST, MEAN, values
from engine.config.schema import parse_experiment
from tests.app.pages import open_page
from tests.support.stories import last_step, simulations_of


def of(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    return values(example(), method, stop, what)


@pytest.mark.slow
def test_the_shipped_numbers_match_the_engine() -> None:
    """Of the methods with one model and with two: the others send as much as one of them, or nothing."""
    shown, last = (TUNED, DITTO), last_step(story.experiment("digits"), TUNED, DITTO)
    assert last.is_settled
    for at, (method, (mean, lowest5)) in enumerate(zip(shown, last.scores, strict=True)):
        assert mean == pytest.approx(of(method, "digits")[0], abs=0.005)
        assert lowest5 == pytest.approx(of(method, "digits", LOWEST)[0], abs=0.03)
        assert last.used[at].tolist() == example().clients_at("digits")[used_by(method)].tolist()
        assert last.seconds[at] == pytest.approx(of(method, "digits", SECONDS)[0], abs=0.01)


def test_slow_by_digit_means_that_the_highest_digits_are_late() -> None:
    ended = example().clients_at("digits")
    never = ended[used_by(FEDAVG)] == 0
    assert ended[DIGIT][never].mean() > ended[DIGIT][~never].mean() + 1
    summary = simulations_of(STORY.steps({"deadline": "wait"}))[0].task.data.summary
    assert (np.array(summary.class_counts) > 0).sum(1).tolist() == [story.CLASSES] * CLIENTS
    assert f"{min(summary.train_sizes)} to {max(summary.train_sizes)} training images" in STORY.kicker


def test_one_client_in_six_is_as_slow_as_the_text_says() -> None:
    assert np.exp(story.DEVICES["compute_spread"]) == pytest.approx(1.8, abs=0.05)  # one sigma: 16 % are beyond


def test_waiting_takes_long_and_twice_as_long_with_two_models() -> None:
    assert of(FEDAVG, "wait", SECONDS).min() > 2 * story.ROUNDS
    assert of(DITTO, "wait", SECONDS) == pytest.approx(2 * of(FEDAVG, "wait", SECONDS), rel=0.02)
    assert of(FEDAVG, "chance", SECONDS) == pytest.approx([story.ROUNDS * story.DEADLINE_S] * 5)


def test_dropping_about_half_is_harmless_by_chance_and_harmful_by_digit() -> None:
    for stop in ("chance", "partly", "digits"):
        assert 0.4 < of(FEDAVG, stop, USED).mean() < 0.6
    assert of(FEDAVG, "wait").mean() - of(FEDAVG, "chance").mean() < 0.03
    lost = of(FEDAVG, "wait", LOWEST) - of(FEDAVG, "digits", LOWEST)
    assert lost.mean() > 0.2 and side(of(FEDAVG, "digits", LOWEST), of(FEDAVG, "chance", LOWEST)) < 0


def test_a_model_of_its_own_keeps_late_clients_served() -> None:
    assert abs(of(TUNED, "digits").mean() - of(TUNED, "wait").mean()) < 0.02
    assert side(of(TUNED, "digits", LOWEST), of(FEDAVG, "digits", LOWEST)) > 0
    assert side(of(TUNED, "digits"), of(ALONE, "digits")) == 0


def test_a_second_model_is_too_slow_for_the_same_deadline() -> None:
    assert of(DITTO, "digits", USED).mean() < of(FEDAVG, "digits", USED).mean() / 2
    assert side(of(DITTO, "digits"), of(ALONE, "digits")) <= 0 < side(of(DITTO, "longer"), of(DITTO, "digits"))
    assert of(FEDAVG, "digits", NEVER).mean() < of(DITTO, "digits", NEVER).mean()


def test_every_stop_has_its_scene() -> None:
    assert [scene.place for scene in STORY.scenes] == [{"deadline": stop} for stop in WAITS]
    assert story._pm(FEDAVG, "digits", LOWEST) in STORY.scenes[3].text
    assert story._pm(TUNED, "digits") in STORY.scenes[3].finding
    assert story._in_seconds(213.2) == "213 s" and story._in_seconds(213.2, 40.1) == "213 ± 40 s"


def test_set_up_opens_the_same_devices() -> None:
    runs = parse_experiment(STORY.config({"deadline": "digits"})).runs()
    assert [run.label for run in runs] == list(METHODS)
    assert all(run.system and run.system.deadline_s == story.DEADLINE_S and run.system.tie == "labels" for run in runs)


def test_equal_results_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert story._either(FEDAVG) == "91 ± 2 %; if the server waits, at 92 ± 1 %"
    monkeypatch.setattr(story, "_pm", lambda *_: "96 ± 1 %")
    assert story._either(FEDAVG) == "96 ± 1 % either way"


def test_the_clients_of_one_seed_name_it() -> None:
    learn = open_page("learn", story="deadlines")
    assert any(header.value.endswith("◆ FedAvg, fine-tuned (seed 0)") for header in learn.header)


def test_clients_that_are_never_used_are_crosses() -> None:
    df = used_clients.data(np.array([1.0, 8.0]), np.array([0.9, 0.2]), np.array([0.8, 0.7]), np.array([3, 0]))
    moves = used_clients.moving(df)
    assert moves["used"] == {"x": [1.0], "y": [90.0], "customdata": [0]}
    assert moves["never used"] == {"x": [8.0], "y": [20.0], "customdata": [1]}
    assert moves["pairs"]["y"][:3] == [90.0, 80.0, None]
    assert set(moves) <= {trace.name for trace in used_clients.figure("FedAvg", "Ditto", "#000000").data}
    found = used_clients.finding(df, "FedAvg", "Ditto")
    assert found == "FedAvg never uses an upload of 1 of 2 clients, who reach 20 % with it and 70 % with Ditto"
    assert used_clients.finding(df.head(1), "FedAvg", "Ditto") == "FedAvg uses uploads of all 1 clients"
