"""Finding runs by text, settings and days; sorting and grouping them."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from app.data import run_table
from app.library import chosen, saved
from app.library.finding import Filter, window
from storage import RunRecord, Store

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


@pytest.fixture
def runs(filled_store: Store) -> list[RunRecord]:
    """1 to 8: fedavg, local_train, ditto, CGPFL, each with seeds 0 and 1."""
    return filled_store.queue.runs(newest_first=False)


def found(runs: list[RunRecord], text: str) -> list[int]:
    return [run.id for run in runs if Filter(text).passes(run)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("digits cgpfl", [7, 8]),
        ("LocalTrain", [3, 4]),  # as shown on the page, not as in a configuration
        ("K=3 seed=1", [8]),
        ("lam=12.0", [7, 8]),
        ("lam=1", [5, 6]),  # that of ditto, and not 12
        ("lr=0.05 fedavg", [1, 2]),
        ("training.local_steps=5 seed=0", [1, 3, 5, 7]),
        ("num_clients=11", []),
        ("lam=", [5, 6, 7, 8]),
        ("Status=done ditto", [5, 6]),
    ],
)
def test_words_match_names_and_settings_match_exactly(text: str, ids: list[int], runs: list[RunRecord]) -> None:
    assert found(runs, text) == ids


def test_days_are_local_and_inclusive(runs: list[RunRecord]) -> None:
    zone = ZoneInfo("Europe/Berlin")  # daylight saving time begins on this day
    since, until = window("days", date(2026, 3, 29), date(2026, 3, 29), NOON.astimezone(zone))
    day = Filter(since=since, until=until)
    at = {
        hour: replace(runs[0], created_at=datetime(2026, 3, 29, 0, tzinfo=UTC) + timedelta(hours=hour))
        for hour in (-2, 0, 21, 23)
    }
    assert [hour for hour, run in at.items() if day.passes(run)] == [0, 21]


def test_a_relative_window_follows_the_clock(runs: list[RunRecord]) -> None:
    week = Filter(since=window("week", None, None, NOON)[0])
    ages = (6.9, 7.1)
    assert [a for a in ages if week.passes(replace(runs[0], created_at=NOON - timedelta(days=a)))] == [6.9]
    assert window("any", None, None, NOON) == window("days", None, None, NOON) == (None, None)


def test_every_sort_order_lists_runs_without_a_value_last(runs: list[RunRecord]) -> None:
    table = run_table.data([*runs, replace(runs[0], id=9, summary=None, status="queued")])
    for sort in run_table.SORTS:
        assert sorted(run_table.ordered(table, sort)["run"]) == list(range(1, 10))
    assert run_table.ordered(table, "best")["run"].tolist()[-1] == 9
    assert run_table.ordered(table, "method")["method"].iloc[0] == "CGPFL K=3"
    assert run_table.ordered(table, "seed")["run"].tolist()[:2] == [9, 7]


def test_the_best_round_is_shown_with_the_accuracy_that_selected_it(runs: list[RunRecord]) -> None:
    last = {"mean": 0.90, "weighted_mean": 0.80}
    best = {"round": 3, "mean": 0.70, "weighted_mean": 0.85}
    summary = {"personalized": last, "best": {"personalized": best}}
    row = run_table.data([replace(runs[0], summary=summary)]).iloc[0]
    assert row[["mean", "weighted mean", "best"]].tolist() == pytest.approx([90, 80, 85])


def test_a_group_has_the_mean_and_the_spread_of_its_runs(runs: list[RunRecord]) -> None:
    by_hand = [
        replace(run, summary={"personalized": {"mean": m}})
        for run, m in zip(runs[:4], (0.5, 0.7, 0.8, 0.8), strict=True)
    ]
    table = run_table.grouped(run_table.ordered(run_table.data(by_hand), "newest"), "method", "mean")
    assert table["method"].tolist() == ["LocalTrain", "FedAvg"]
    assert table["mean"].tolist() == pytest.approx([80, 60])
    assert table["std"].tolist() == pytest.approx([0, 14.142136])
    assert table["runs"].tolist() == [[4, 3], [2, 1]]


def test_ticking_a_group_keeps_runs_that_were_selected_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[int]] = []
    table = pd.DataFrame({"runs": [[3, 4], [5, 6]]})
    monkeypatch.setattr(chosen, "_write", written.append)
    for before, rows in ([3], [1]), ([3, 5, 6], [1]), ([3, 5, 6], []), ([3, 4, 9], []):
        monkeypatch.setattr(chosen.url_state, "ids", lambda name, ids=before: ids)
        monkeypatch.setattr(chosen.st, "session_state", {"table.0": {"selection": {"rows": rows}}})
        chosen.take_rows("table.0", table)
    assert written == [[3, 5, 6], [3, 5, 6], [3], [9]]


def test_experiments_with_equal_names_are_separate_groups(runs: list[RunRecord]) -> None:
    table = run_table.data([runs[0], replace(runs[1], experiment_id=2)])
    assert len(run_table.grouped(table, "experiment")) == 2


def test_a_view_is_the_address_without_selected_runs() -> None:
    view = saved.view_query({"sort": "mean", "runs": "1,2", "q": "lam=1 a&b", "presenting": "true"})
    assert view == "q=lam%3D1+a%26b&sort=mean"
    assert saved.view_query({}) == ""
