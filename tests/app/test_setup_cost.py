"""The estimated cost of runs."""

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app.data.lru import Lru
from app.setup import cost, measure
from app.setup.cost import Cost, Timed
from app.setup.measure import r_hat
from engine.channel.round_channel import RoundChannel
from engine.config.options import Training
from engine.config.schema import RunConfig, parse_experiment
from engine.federation.batches import Cohort
from engine.simulation import sample_privacy
from engine.simulation.simulate import Simulation
from storage import Store
from tests.app.pages import words
from tests.app.samples import DIGITS
from tests.app.test_setup import opened


def a_run(**changes: object) -> RunConfig:
    return parse_experiment(DIGITS | {"algorithms": ["fedavg"], "seeds": [0]} | changes).runs()[0]


def test_two_short_rounds_give_the_cost_per_round_and_per_gradient():
    assert cost._extrapolated(1000, (100, 0.03), (200, 0.04)) == pytest.approx(0.12)


def test_noise_never_gives_gradients_zero_cost():
    assert cost._extrapolated(1000, (100, 0.05), (200, 0.04)) > 0.04


def test_epochs_are_counted_in_steps():
    assert cost.local_steps(Training(local_epochs=2, batch_size=20), [20, 50]) == 2 * (1 + 3) / 2
    assert cost.local_steps(Training(local_epochs=2, batch_size="full"), [20, 50]) == 2
    assert cost.local_steps(Training(local_steps=7), [20]) == 7


@pytest.mark.parametrize(("rounds", "every", "expected"), [(4, 1, 5), (10, 5, 3), (5, 2, 4), (3, 10, 2)])
def test_round_zero_and_the_last_round_are_always_evaluated(rounds: int, every: int, expected: int) -> None:
    run = a_run(training={"rounds": rounds}, evaluation={"every": every})
    assert sum(result.evaluated for result in Simulation(run).rounds()) == expected
    assert cost.num_evaluations(rounds, every) == expected


def test_runs_are_spread_over_slots_without_splitting_one():
    short, long = Cost(2.0, 5.0, 10.0, 1.0), Cost(8.0, 7.0, 30.0, 1.0)
    assert cost.total_cost([short, long], 1) == Cost(10.0, 12.0, 30.0, 2.0)
    assert cost.total_cost([short, long], 2) == Cost(8.0, 12.0, 40.0, 2.0)
    assert cost.total_cost([short, Cost(None, None, 1.0, 1.0)], 1) == Cost(2.0, 5.0, 10.0, 2.0)
    assert cost.total_cost([Cost(None, None, 1.0, 1.0)], 1) == Cost(None, None, 1.0, 1.0)


def test_a_run_costs_time_memory_and_disk():
    estimate = cost.cost_of(a_run())
    assert estimate.seconds is not None and math.isfinite(estimate.seconds) and estimate.seconds > 0
    assert estimate.memory_bytes > 0 and estimate.disk_bytes > 0


def leave() -> None:
    raise KeyboardInterrupt  # like Streamlit's exceptions, not an Exception


def test_a_press_ends_the_timing_of_a_method_which_starts_over_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "_moments", Lru(10))
    with monkeypatch.context() as patch:
        patch.setattr(cost, "leave_if_outdated", leave)
        with pytest.raises(KeyboardInterrupt):
            cost.cost_of(a_run())
    assert cost.cost_of(a_run()).seconds is not None


def test_a_press_ends_the_measurement_of_r_hat(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "leave_if_outdated", leave)
    with pytest.raises(KeyboardInterrupt):
        r_hat(a_run(partition=DIGITS["partition"] | {"num_clients": 9}))


def test_notes_depend_on_what_is_evaluated():
    partition = DIGITS["partition"] | {"test_fraction": 0, "val_fraction": 0.2}
    both, val = (cost.notes_of(a_run(partition=partition, evaluation={"on": on})) for on in ("both", "val"))
    assert [note.partition(",")[0] for note in both if note not in val] == ["no client has test samples"]


def test_a_sampler_that_is_not_installed_is_named_and_nothing_can_be_queued(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    study = {"splits": [0], "partition": DIGITS["partition"] | {"val_fraction": 0.2}}
    page = opened(DIGITS | study | {"tune": {"sampler": "tpe"}})
    assert "tpe needs Optuna, which is not installed" in words(page)
    assert next(button for button in page.button if button.label == "Queue runs").disabled


def test_gradients_are_those_that_a_run_computes():
    run = a_run()
    computed = [result.scalars["gradient_evaluations"] for result in Simulation(run).rounds()]
    assert cost.cost_of(run).gradients == sum(computed) == 5 * 10 * 5 * 20, "rounds, clients, steps, samples"


@pytest.mark.parametrize(
    ("participation", "system", "expected"),
    [(1.0, {"availability": 0.2}, 0.2), (0.2, {"over_select": 2.0}, 0.4), (0.2, {"availability": 0.5}, 0.2)],
)
def test_gradients_follow_how_many_clients_are_sampled(participation: float, system: dict[str, float], expected: float):
    run = a_run(training=DIGITS["training"] | {"participation": participation}, system=system)
    clients = run.partition.options.num_clients
    assert cost.cost_of(run).gradients == 5 * round(expected * clients) * 5 * 20


def test_training_at_evaluation_takes_time():
    plain, tuned = (
        cost.measure(a_run(algorithms=[{"name": "fedavg", "finetune_steps": steps}])).evaluation_s for steps in (0, 100)
    )
    assert tuned > 3 * plain


def test_a_budget_of_gradients_is_shown_as_trials(empty_store: Store):
    partition = DIGITS["partition"] | {"val_fraction": 0.2}
    study = {"splits": [0, 1], "seeds": [0], "partition": partition, "algorithms": [{"name": "fedavg"}]}
    page = opened(DIGITS | study | {"tune": {"gradients": 25_000}})
    text = words(page).replace("\u2009", "")
    assert (
        "About 10 trials on validation data, 25000 gradients per method and split, then at most 4 final runs." in text
    )
    assert "<dt>Runs</dt><dd>14</dd>" in text and "<dt>Gradients</dt><dd>about 70000</dd>" in text


def test_trials_too_slow_to_time_are_at_least_two(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "MAX_STATE_BYTES", 10)
    partition = DIGITS["partition"] | {"val_fraction": 0.2}
    study = {"splits": [0], "seeds": [0], "partition": partition, "algorithms": [{"name": "fedavg"}]}
    page = opened(DIGITS | study | {"training": {"rounds": 5, "lr": 0.0771}, "tune": {"gradients": 25_000}})
    assert "At least 2 trials on validation data" in words(page)


def test_models_of_more_clients_need_more_disk():
    small, large = (cost.cost_of(a_run(model={"name": "dnn", "hidden": h})).disk_bytes for h in (8, 256))
    assert large > 2 * small


def test_models_too_large_for_memory_are_not_built(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "MAX_STATE_BYTES", 10)
    assert cost.cost_of(a_run(training={"lr": 0.123})).seconds is None


def test_timed_rounds_have_the_runs_privacy_and_compression(monkeypatch: pytest.MonkeyPatch):
    closed: list[int] = []
    close, protected = RoundChannel.close, sample_privacy.protected

    def noting(channel: RoundChannel, cohort: Cohort) -> object:
        closed.append(cohort.round)
        return close(channel, cohort)

    monkeypatch.setattr(RoundChannel, "close", noting)
    monkeypatch.setattr(sample_privacy, "protected", lambda *given: closed.append(0) or protected(*given))
    cost.measure(a_run(compression={"name": "top_k", "share": 0.17}))
    assert closed[:2] == [1, 2]
    closed.clear()
    cost.measure(a_run(privacy={"unit": "sample", "noise": 1.3, "clip": 0.7}))
    assert closed[:2] == [0, 1]


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], RunConfig]:
    """Writes a table with this many features, always to the same file; returns a run on it."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def write(features: int) -> RunConfig:
        rng = np.random.default_rng(features)
        np.savez(tmp_path / "own.npz", x=rng.normal(size=(200, features)), y=np.arange(200) % 2)
        clients = {"name": "iid", "num_clients": 4}
        return a_run(dataset={"name": "custom", "path": "own.npz"}, partition=clients, model="mlr")

    return write


def test_a_file_that_changes_is_measured_anew(own_data: Callable[[int], RunConfig]):
    first = cost.measure(own_data(3)).parameters
    assert (first, cost.measure(own_data(5)).parameters) == (2 * 4, 2 * 6)


def test_r_hat_of_a_file_that_changes_is_computed_anew(own_data: Callable[[int], RunConfig]):
    first = r_hat(own_data(3))
    assert math.isfinite(first) and r_hat(own_data(5)) != first


def test_a_method_is_timed_once_for_readers_who_need_it_at_once(monkeypatch: pytest.MonkeyPatch):
    timed: list[RunConfig] = []

    def one_round(run: RunConfig, data: object, evaluated: int) -> Timed:
        timed.append(run)
        return Timed(cost.SHORT_S, 1.0, 1.0, 0.01)

    monkeypatch.setattr(cost, "_one_round", one_round)
    monkeypatch.setattr(cost, "_moments", Lru(1))
    with ThreadPoolExecutor(8) as pool:
        moments = [*pool.map(cost.measure, [a_run()] * 8)]
    assert len(timed) == 1 and all(moment is moments[0] for moment in moments)
