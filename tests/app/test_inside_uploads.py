"""Uploads of a run: what its channel recorded, by round and by client."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.charts import training_curve, upload_clients, upload_rounds
from app.charts.printed.settings import Settings
from app.charts.printed.sheet import draw
from app.inside import uploads
from app.inside.view import RunView
from app.live import live_feed
from storage import RunRecord, Store
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

ONE = DIGITS | {"algorithms": [{"name": "fedavg"}], "seeds": [0], "training": DIGITS["training"] | {"rounds": 2}}
SLOW = {"compute_s": 0.01, "compute_spread": 1.0, "deadline_s": 1.0}
ROUNDS, VALUES = np.array([1, 2]), np.array([[1.0, 2.0, np.nan], [3.0, 2.0, 9.0]])


def stored(store: Store, scalars: dict[str, float] | None = None, **sections: object) -> RunRecord:
    arrays = sections.pop("arrays", None)
    found = store_experiment(store, ONE | sections, arrays, scalars)
    (run,) = store.queue.runs(experiment_ids=[found.id])
    return run


def lines_of(run: RunRecord) -> dict[str, list[float]]:
    view = RunView(run)
    values = pd.concat([uploads.scalars(view), uploads.over_clients(view, uploads.recorded(view))])
    return {str(line): own["value"].tolist() for line, own in upload_rounds.data(values).groupby("line")}


def test_late_uploads_are_counted_and_their_work_is_wasted(empty_store: Store) -> None:
    lines = lines_of(stored(empty_store, system=SLOW))
    assert [a + b for a, b in zip(lines["arrived"], lines["late"][-2:], strict=True)] == [10, 10]
    assert min(lines["late"][-2:]) > 0 and min(lines["wasted gradient evaluations"][-2:]) > 0
    assert lines["simulated seconds so far"] == [0, 1, 2]


def test_malicious_clients_have_lines_of_their_own(empty_store: Store) -> None:
    lines = lines_of(stored(empty_store, attack={"name": "sign_flip", "share": 0.2, "scale": 5}))
    assert all(
        bad > good for bad, good in zip(lines["malicious update norm"], lines["benign update norm"], strict=True)
    )
    assert all(0 < share < 100 for share in lines["malicious clients' share in the update"])


def test_compression_errors_and_what_is_not_sent_are_drawn(empty_store: Store) -> None:
    lines = lines_of(stored(empty_store, compression={"name": "top_k", "share": 0.1}))
    assert {"compression error, relative", "what clients have not sent", "update norm"} <= set(lines)


def test_a_privacy_budget_of_all_clients_is_one_line(empty_store: Store) -> None:
    spent = {f"diagnostics.privacy.{n}": v for n, v in (("epsilon", 4.6), ("clip", 1.0), ("clipped", 0.25))}
    spent |= {"diagnostics.privacy.noise_norm": 2.0, "diagnostics.privacy.signal_norm": 1.0}
    lines = lines_of(stored(empty_store, spent))
    assert lines["ε"] == [4.6] * 3 and lines["clipped updates"] == [25] * 3
    assert {"clipping norm C", "noise", "signal"} <= set(lines)


def test_privacy_budgets_of_clients_are_their_median_and_largest(empty_store: Store) -> None:
    own = np.arange(10.0)
    run = stored(empty_store, arrays={"diagnostics.privacy.epsilon": own})
    assert lines_of(run) == {"largest ε": [9.0] * 3, "median ε": [4.5] * 3}
    text = words(open_page("run", id=str(run.id), tab="uploads"))
    assert "ε after the last round: from 0 (client 0) to 9 (client 9)." in text


@pytest.mark.slow
def test_the_tab_shows_one_quantity_of_each_client(empty_store: Store) -> None:
    run = stored(empty_store, attack={"name": "sign_flip", "share": 0.2}, aggregator="krum", system=SLOW)
    page = open_page("run", id=str(run.id), tab="uploads")
    assert page.header[0].value == "What happened to the uploads?"
    assert "Hollow circle: malicious" in words(page)
    page.selectbox(key=next(box.key for box in page.selectbox if box.label == "Show")).set_value(
        "Share in the update"
    ).run()
    assert page.query_params["upload"] in ("aggregator.weight", ["aggregator.weight"])
    assert "0: it had no part in it." in words(page)


def test_runs_that_recorded_nothing_have_no_such_tab(read_store: Store) -> None:
    page = open_page("run", id="1")
    (tabs,) = (control for control in page.segmented_control if control.label == "View")
    assert "Uploads" not in tabs.options


def test_rows_are_sorted_by_their_mean_and_gaps_stay_empty() -> None:
    cells = upload_clients.data(ROUNDS, VALUES)
    assert cells.drop_duplicates("row")["client"].tolist() == [0, 1, 2]
    heat = upload_clients.figure(cells, 2, "Update norm", [1]).data[0]
    assert np.isnan(heat.z[2, 0]) and heat.z[2, 1] == 9
    assert upload_clients.finding(VALUES, "Update norm") == (
        "Update norm, mean over rounds: from 2 (client 0) to 9 (client 2)."
    )
    assert upload_clients.finding(VALUES, "Update norm", [2]) == (
        "Update norm, mean over rounds: benign clients 2 for all of 2 clients; mean of malicious 9."
    )


def test_totals_are_those_after_the_last_round() -> None:
    spent = np.array([[0.0, 0.0, np.nan], [3.0, 1.0, np.nan], [3.0, np.nan, np.nan]])
    assert upload_clients.finding(spent, "ε", is_total=True) == (
        "ε after the last round: from 1 (client 1) to 3 (client 0)."
    )
    assert upload_clients.data(np.arange(3), spent, is_total=True).drop_duplicates("row")["client"].tolist() == [1, 0]


def test_weights_of_several_clusters_are_a_share_of_all_of_them(empty_store: Store) -> None:
    run = stored(empty_store, attack={"name": "sign_flip", "share": 0.2, "scale": 5})
    view = RunView(run)
    weights = np.full((1, 10), 0.1)
    for clusters in (1, 3):
        found = uploads.over_clients(view, {"aggregator.weight": (np.array([1]), clusters * weights)})
        assert found["value"].tolist() == pytest.approx([0.2])


def test_the_sentence_counts_computed_rounds_and_has_units() -> None:
    values = pd.DataFrame({"round": [0, 1, 0, 1], "name": ["privacy.epsilon"] * 2 + ["privacy.clipped"] * 2})
    table = upload_rounds.data(values.assign(value=[0.0, 0.5, 0.0, 0.25]))
    assert upload_rounds.finding(table) == "Over 1 round: ε 0.5; clipped updates 25 %."
    later = upload_rounds.data(pd.DataFrame({"round": [0, 2, 4], "name": "privacy.epsilon", "value": [0.0, 1.0, 2.0]}))
    assert upload_rounds.finding(later) == "Over 2 rounds: ε 1 in round 2, 2 in round 4."


@pytest.mark.parametrize("count", [1, 3])
def test_panels_of_rounds_have_a_printed_form(count: int) -> None:
    values = pd.DataFrame({"round": [1, 2] * 3, "name": np.repeat(["late", "simulated_s", "compression.error"], 2)})
    table = upload_rounds.data(values.assign(value=1.0)[: 2 * count])
    fig = upload_rounds.figure(table, 2)
    assert len(fig.data) == count and len(draw([fig], Settings()).axes) == count
    assert upload_rounds.finding(table).startswith("Over 2 rounds: 1 uploads late per round")


def test_quantities_that_stay_zero_have_no_panel() -> None:
    values = pd.DataFrame({"round": [1, 2], "name": "aggregator.fell_back", "value": 0.0})
    assert upload_rounds.data(values).empty
    assert upload_rounds.finding(upload_rounds.data(values)) == "Nothing was recorded about uploads."


def test_live_draws_what_its_runs_record_about_uploads(empty_store: Store) -> None:
    slow = stored(empty_store, system=SLOW)
    private = stored(empty_store, arrays={"diagnostics.privacy.epsilon": np.arange(10.0)})
    private = replace(private, config=private.config | {"privacy": {"unit": "sample"}})
    attacked = stored(empty_store, attack={"name": "sign_flip", "share": 0.2, "scale": 5})
    points = {run.id: live_feed.whole_curve(empty_store, run).points for run in (slow, private, attacked)}
    assert training_curve.uploads_of([slow, attacked]) == ["arrived", "norms"]
    assert points[slow.id]["arrived"][0] is None and 0 < points[slow.id]["arrived"][-1] < 10
    assert points[private.id]["epsilon"] == [9.0] * 3 and "arrived" not in points[private.id]
    assert points[attacked.id]["malicious_norm"][-1] > points[attacked.id]["benign_norm"][-1]
    table = training_curve.data([slow, attacked], points)
    fig = training_curve.figure(table, [slow, attacked], "norms")
    assert [trace.meta["run"] for trace in fig.data] == [attacked.id] * 2


def test_live_panels_of_uploads_are_on_the_page(empty_store: Store) -> None:
    run = stored(empty_store, compression={"name": "top_k", "share": 0.1})
    page = open_page("live", runs=str(run.id))
    assert "live_compression" in {chart.proto.id.rpartition("-")[2] for chart in page.get("plotly_chart")}
