"""The feed of the Live page: only new points, bounded, with the state of every run."""

import dataclasses
import math

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import endpoints
from app.charts import latest_clients, training_curve
from app.live import live_feed, log
from app.server import routes
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import RoundRecord, RunRecord, Store
from tests.app.samples import DIGITS, store_experiment


@pytest.fixture
def queued(empty_store: Store) -> RunRecord:
    """A queued run of 5 rounds."""
    empty_store.experiments.create("queued", DIGITS, [new_run(parse_experiment(DIGITS).runs()[0])])
    return empty_store.queue.runs()[0]


def trained(store: Store, rounds: int, last: int) -> RunRecord:
    """A running run of ``rounds`` rounds, stored up to ``last``: two clients, one megabyte and second per round."""
    raw = {**DIGITS, "training": {**DIGITS["training"], "rounds": rounds}}
    store.experiments.create("running", raw, [new_run(parse_experiment(raw).runs()[0])])
    run = store.queue.claim()
    assert run is not None
    records = [
        RoundRecord(
            r,
            np.array([0]),
            {"personalized.mean": 0.5, "bytes_up": 4e5, "bytes_down": 6e5, "seconds": 1.0},
            {"personalized.accuracy": np.array([0.75, 0.25]), "train_loss": np.array([np.nan, 2.0])},
        )
        for r in range(last + 1)
    ]
    store.metrics.append(run.id, run.epoch, records)
    return store.queue.get(run.id)


def test_the_first_request_gets_every_round(read_store: Store) -> None:
    feed = live_feed.feed(read_store, {1: -1})
    assert feed["points"][1]["round"] == [0, 1, 2, 3, 4, 5]
    assert feed["wait_ms"] == live_feed.IDLE_MS


def test_an_up_to_date_reader_gets_nothing(read_store: Store) -> None:
    feed = live_feed.feed(read_store, {1: 5, 2: 5})
    assert feed["points"] == {}
    assert feed["clients"] == {}
    assert [run["status"] for run in feed["runs"]] == ["done", "done"]


def test_a_cursor_gets_only_newer_points(read_store: Store) -> None:
    assert live_feed.feed(read_store, {1: 3})["points"][1]["round"] == [4, 5]


def test_accuracies_are_percent_and_losses_those_of_participants(empty_store: Store) -> None:
    points = live_feed.curve(empty_store, trained(empty_store, 5, 0)).points
    assert points["mean"] == [50.0]
    assert points["train_loss"] == [2.0]
    assert points["lowest5"] == [None]


def test_clients_are_sorted(empty_store: Store) -> None:
    assert live_feed.curve(empty_store, trained(empty_store, 5, 2)).clients == [25.0, 75.0]


def test_a_method_without_global_model_has_no_global_curve(read_store: Store) -> None:
    run = next(run for run in read_store.queue.runs() if run.algorithm == "local_train")
    curve = live_feed.curve(read_store, run, "global")
    assert set(curve.points["mean"]) == {None}
    assert curve.clients is None


def test_long_runs_are_thinned_without_losing_costs(empty_store: Store) -> None:
    run = trained(empty_store, 999, 350)
    points = live_feed.whole_curve(empty_store, run).points
    assert points["round"][:3] == [0, 4, 8]
    assert points["megabytes"][1] == 4.0
    assert sum(x or 0 for x in points["seconds"]) == 349  # rounds 0 to 348; 349 and 350 are sent with 352


def test_nothing_is_read_before_the_next_shown_round(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(empty_store, 999, 355)  # every fourth round is shown
    assert live_feed.feed(empty_store, {run.id: 348})["points"][run.id]["round"] == [352]
    monkeypatch.setattr(empty_store.metrics, "stored_rounds", None)
    assert live_feed.feed(empty_store, {run.id: 352})["points"] == {}


def test_a_run_without_metrics_has_points_without_values(empty_store: Store) -> None:
    run = trained(empty_store, 5, -1)
    empty_store.metrics.append(run.id, run.epoch, [RoundRecord(r, np.array([0])) for r in (0, 2)])
    curve = live_feed.curve(empty_store, empty_store.queue.get(run.id))
    assert curve.points["round"] == [0, 2] and curve.points["mean"] == [None, None] and curve.clients is None
    assert curve.points["megabytes"] == [0.0, 0.0]


def test_the_last_round_of_an_interrupted_run_is_shown(empty_store: Store) -> None:
    run = trained(empty_store, 999, 355)
    empty_store.queue.finish(run.id, run.epoch, "cancelled")
    assert live_feed.feed(empty_store, {run.id: 352})["points"][run.id]["round"] == [355]


def test_requests_read_a_bounded_number_of_rounds(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "ROUNDS_A_REQUEST", 3)  # of 6
    run = trained(empty_store, 5, 5)
    feed = live_feed.feed(empty_store, {run.id: -1})
    assert feed["points"][run.id]["round"] == [0, 1, 2]
    assert feed["wait_ms"] == 0
    assert live_feed.whole_curve(empty_store, run).points["round"] == [0, 1, 2, 3, 4, 5]


def test_progress_has_round_speed_and_remaining_time(queued: RunRecord) -> None:
    run = dataclasses.replace(queued, status="running", round=12, rounds=50, seconds_per_round=0.5)
    assert live_feed.progress(run) == "round 12 of 50 · 0.5 s per round · 19 s left"
    assert live_feed.progress(queued) == "waiting for a slot"


def test_a_running_run_without_heartbeats_is_lost(queued: RunRecord) -> None:
    run = dataclasses.replace(queued, status="running", round=3, rounds=5)
    assert [live_feed.status_of(run, silent_s) for silent_s in (5, 25, math.inf)] == ["running", "lost", "lost"]
    assert live_feed.progress(run, 25) == "round 3 of 5 · no heartbeat for 25 s"
    assert live_feed.progress(run, math.inf) == "round 3 of 5 · no worker"
    assert live_feed.status_of(dataclasses.replace(run, round=-1)) == "starting"
    assert live_feed.status_of(dataclasses.replace(run, status="paused"), math.inf) == "paused"


def test_the_log_is_sent_once_and_only_on_request(empty_store: Store) -> None:
    run = trained(empty_store, 5, 0)
    empty_store.events.add(run.id, "warning", "checkpoint", "the disk is full")
    assert live_feed.feed(empty_store, {run.id: 0})["log"] is None
    log = live_feed.feed(empty_store, {run.id: 0}, known_log="")["log"]
    assert [line.split(maxsplit=2)[2] for line in log["text"].splitlines()] == [
        "info    queued",
        "info    started",
        "warning the disk is full",
    ]
    assert live_feed.feed(empty_store, {run.id: 0}, known_log=log["digest"])["log"] is None
    empty_store.events.add(run.id, "info", "checkpoint", "there is room again")
    assert live_feed.feed(empty_store, {run.id: 0}, known_log=log["digest"])["log"]["text"].endswith("room again")


@pytest.mark.parametrize(
    ("status", "control", "offered"),
    [
        ("queued", "", ["pause", "cancel"]),
        ("running", "", ["pause", "cancel"]),
        ("running", "cancel", []),
        ("running", "pause", ["resume", "cancel"]),
        ("paused", "", ["resume", "cancel"]),
        ("done", "", []),
        ("failed", "", ["retry"]),
        ("diverged", "", ["retry"]),
        ("cancelled", "", ["retry"]),
    ],
)
def test_only_possible_actions_are_offered(queued: RunRecord, status: str, control: str, offered: list[str]) -> None:
    run = dataclasses.replace(queued, status=status, control=control)  # type: ignore[arg-type]
    assert live_feed.actions(run) == offered


def test_a_retried_run_names_its_successor_and_offers_nothing(empty_store: Store) -> None:
    run = trained(empty_store, 5, 0)
    empty_store.queue.finish(run.id, run.epoch, "cancelled")
    (offered,) = live_feed.feed(empty_store, {run.id: 0})["runs"]
    assert offered["actions"] == ["retry"]
    (again,) = empty_store.queue.rerun([run.id])
    (old, new) = live_feed.feed(empty_store, {run.id: 0, again.id: -1})["runs"]
    assert (old["actions"], old["progress"]) == ([], f"retried as run {again.id}")
    assert new["actions"] == ["pause", "cancel"]


def test_a_run_moved_to_the_trash_between_two_reads_is_reported(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_experiment(empty_store, DIGITS | {"attack": "sign_flip", "algorithms": ["fedavg"], "seeds": [0]})
    stored_rounds = empty_store.metrics.stored_rounds

    def read_before_it_is_moved(run_id: int, *arguments: int) -> list[int]:
        rounds = stored_rounds(run_id, *arguments)
        empty_store.trash.put([run_id])
        return rounds

    monkeypatch.setattr(empty_store.metrics, "stored_rounds", read_before_it_is_moved)
    with TestClient(Starlette(routes=routes.build(empty_store)), "http://127.0.0.1") as client:
        first, next_one = (client.get(endpoints.FEED, params={"runs": "1"}) for _ in range(2))
    assert (first.status_code, next_one.status_code) == (503, 200)
    assert "no run with id 1" in first.json()["problem"] and next_one.json()["runs"] == []


def test_equal_methods_of_several_experiments_have_different_labels(empty_store: Store) -> None:
    names = ("alpha 0.1", "alpha 1", "a long name of an experiment", "a long name of another one")
    runs = [new_run(parse_experiment(DIGITS).runs()[0])]
    for name in names:
        empty_store.experiments.create(name, DIGITS, runs)
    first, *_ = found = empty_store.queue.runs(newest_first=False)
    labels = [standing["label"] for standing in live_feed.feed(empty_store, {run.id: -1 for run in found})["runs"]]
    assert labels == ["FedAvg · alpha 0.1", "FedAvg · alpha 1", "FedAvg · experiment 3", "FedAvg · experiment 4"]
    fig = training_curve.figure(training_curve.data(found, {}), found)
    assert [trace.meta["label"] for trace in fig.data if trace.meta["y"] == "mean"] == labels
    assert fig.data[0].name == "FedAvg · alpha 0.1, seed 0: mean"
    assert fig.layout.margin.r >= 7 * max(map(len, labels))
    assert "FedAvg · alpha 1, seed 0: queued" in log.log_of(empty_store, found)
    assert live_feed.feed(empty_store, {first.id: -1})["runs"][0]["label"] == "FedAvg"


def test_axes_without_points_begin_at_zero_and_later_follow_the_points(queued: RunRecord) -> None:
    empty = training_curve.data([queued], {})
    figures = [training_curve.figure(empty, [queued], panel, "seconds") for panel in training_curve.PANELS]
    figures.append(latest_clients.figure(latest_clients.data([queued], {}), [queued]))
    axes = [axis for fig in figures for axis in (fig.layout.xaxis, fig.layout.yaxis)]
    assert {axis.range[0] for axis in axes} == {0}
    assert all(axis.autorange for axis in axes[:-1])  # the last one has shares of the clients


def test_axes_with_points_have_no_range_of_their_own(empty_store: Store) -> None:
    run = trained(empty_store, rounds=5, last=3)
    table = training_curve.data([run], {run.id: live_feed.whole_curve(empty_store, run, "personalized").points})
    figures = [training_curve.figure(table, [run], panel, "seconds") for panel in training_curve.PANELS]
    assert all(axis.range is None for fig in figures for axis in (fig.layout.xaxis, fig.layout.yaxis))
    clients = latest_clients.data([run], {run.id: [70.0, 90.0]})
    assert latest_clients.figure(clients, [run]).layout.xaxis.range is None


def test_an_address_has_runs_and_their_cursors() -> None:
    assert live_feed.parse_cursors("3,5", "10,-1") == {3: 10, 5: -1}
    assert live_feed.parse_cursors("3", "") == {3: -1}
    for runs, after in (("", ""), ("x", ""), ("3,5", "1"), (",".join(map(str, range(13))), "")):
        with pytest.raises(ValueError, match="runs"):
            live_feed.parse_cursors(runs, after)


def test_trials_show_accuracies_and_losses_on_validation_data(empty_store: Store) -> None:
    raw = DIGITS | {
        "partition": DIGITS["partition"] | {"val_fraction": 0.2},
        "evaluation": {"on": "val"},
        "algorithms": ["fedavg"],
        "seeds": [0],
    }
    store_experiment(empty_store, raw)
    (run,) = empty_store.queue.runs()
    curve = live_feed.whole_curve(empty_store, run)
    _, accuracy = empty_store.metrics.array(run.id, "personalized.val_accuracy")
    _, loss = empty_store.metrics.array(run.id, "personalized.val_loss")
    assert curve.points["mean"] == pytest.approx(100 * accuracy.mean(axis=1), rel=1e-5)
    assert curve.points["std"] == pytest.approx(100 * accuracy.std(axis=1), rel=1e-5)
    assert curve.points["loss"] == pytest.approx(loss.mean(axis=1), rel=1e-5)
    assert curve.clients == pytest.approx(sorted(100 * accuracy[-1]), abs=0.01)
    figure = training_curve.figure(training_curve.data([run], {run.id: curve.points}), [run], "loss")
    assert figure.layout.title.text == "Loss: validation, and training dotted"
    assert figure.data[0].name.endswith("validation loss")
