"""Who pays for it? Each client under a setting against itself with the setting off, and the settings side by side."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from app.charts import dial_settings, who_pays
from app.charts.printed.settings import Settings
from app.charts.printed.sheet import draw
from app.compare import clients as section
from app.compare.view import View
from app.data import client_traits, column_heads, dials, queries
from app.data.comparison import methods_of
from storage import Store
from tests.app.frames import run_record
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

ROBUST = DIGITS | {
    "name": "robust",
    "algorithms": [{"name": "fedavg"}, {"name": "local_train"}],
    "training": DIGITS["training"] | {"rounds": 2},
    "seeds": [0],
    "attack": {"name": "sign_flip", "share": 0.2, "scale": 5},
}
HONEST = ROBUST | {"name": "honest", "attack": {"name": "sign_flip", "share": 0.2, "scale": -1}}
KRUM = {"name": "krum", "f": "auto"}
TRAITS = pd.DataFrame({"split": 0, "client": range(8), "touched": np.arange(8.0)})
NORM = who_pays.Touched("Update norm", "larger updates")

opened = partial(open_page, "compare", experiment="1,2", section="clients")


@pytest.fixture
def attacked_store(empty_store: Store) -> Store:
    """FedAvg and LocalTrain with 2 of 10 clients malicious: honest in experiment 1, with flipped updates in 2."""
    for raw in (HONEST, ROBUST):
        store_experiment(empty_store, raw)
    return empty_store


def record(run_id: int, label: str = "fedavg", seed: int = 0, **sections: object):
    run = run_record(run_id, label, seed, algorithm=label.split(" ")[0])
    run.config.update(sections)
    return run


def sides(on: list[float], off: list[float], malicious: tuple[int, ...] = ()) -> pd.DataFrame:
    return pd.concat(
        pd.DataFrame(
            {
                "setting": side,
                "split": 0,
                "seed": 0,
                "client": range(len(values)),
                "accuracy": values,
                "test_size": 1000,
                "is_malicious": [client in malicious for client in range(len(values))],
            }
        )
        for side, values in ((who_pays.ON, on), (who_pays.OFF, off))
    )


def at_settings(**accuracies: dict[str, list[float]]) -> pd.DataFrame:
    rows = []
    for method, own in accuracies.items():
        for setting, values in own.items():
            head = {"method": method, "algorithm": method, "setting": setting, "split": 0, "seed": 0}
            rows += [
                head | {"run": len(rows), "client": i, "accuracy": v, "test_size": 1000} for i, v in enumerate(values)
            ]
    table = pd.DataFrame(rows)
    return table.assign(run=table.groupby(["method", "setting"], sort=False).ngroup())


@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("attack", None, True),
        ("attack", {"name": "sign_flip", "share": 0.2, "scale": -1.0}, True),
        ("attack", {"name": "sign_flip", "share": 0.2, "scale": 1.0}, False),
        ("attack", {"name": "labels", "share": 0.0, "how": "random"}, True),
        ("aggregator", {"name": "mean"}, True),
        ("aggregator", {"name": "median"}, False),
        ("compression", {"name": "none"}, True),
        ("system", {"compute_s": 0.01}, True),
        ("system", {"compute_s": 0.01, "deadline_s": 1.0}, False),
        ("system", {"availability": 0.5}, False),
        ("privacy", {"unit": "none"}, True),
        ("privacy", {"unit": "client", "noise": 1.0}, False),
    ],
)
def test_a_dial_is_off_where_it_changes_no_model(name: str, setting: dict | None, expected: bool) -> None:
    assert dials.is_off(name, setting) is expected


def test_runs_that_differ_in_one_dial_are_a_series() -> None:
    runs = [
        record(1, "fedavg aggregator=mean", aggregator={"name": "mean"}),
        record(2, "fedavg aggregator=krum", aggregator=KRUM),
        record(3, "ditto"),
        record(4, "ditto", aggregator=KRUM),
        record(5, "local_train"),
    ]
    (fedavg, ditto) = dials.varied(runs)["aggregator"]
    assert list(dials.varied(runs)) == ["aggregator"]
    assert (fedavg.name, ditto.name, fedavg.on, fedavg.has_off) == ("FedAvg", "Ditto", ["Krum"], True)
    assert {words: next(iter(own.values())).id for words, own in fedavg.settings.items()} == {"off": 1, "Krum": 2}


def test_settings_are_paired_over_the_seeds_that_all_of_them_have() -> None:
    runs = [record(1, seed=0), record(2, seed=1), record(3, seed=1, aggregator=KRUM)]
    (series,) = dials.series_of(runs, "aggregator")
    assert {words: [run.id for run in own.values()] for words, own in series.settings.items()} == {
        "off": [2],
        "Krum": [3],
    }
    assert dials.series_of([runs[0], runs[2]], "aggregator") == []


def test_settings_are_named_by_what_differs() -> None:
    runs = [
        record(i, compression={"name": "top_k", "share": share, "feedback": True})
        for i, share in enumerate((0.1, 0.01), start=1)
    ]
    (series,) = dials.series_of([*runs, record(3)], "compression")
    assert list(series.settings) == ["off", "Top-k, share sent = 0.1", "Top-k, share sent = 0.01"]
    clock = {"compute_s": 0.01, "deadline_s": None, "tie": "none"}
    late = [
        record(4, system=clock),
        record(5, system=clock | {"deadline_s": 1.4}),
        record(6, system=clock | {"deadline_s": 1.4, "tie": "labels"}),
    ]
    (series,) = dials.series_of(late, "system")
    assert list(series.settings) == ["off", "deadline = 1.4 s, tie = none", "deadline = 1.4 s, tie = labels"]


def test_options_that_are_not_set_are_not_named() -> None:
    devices = {"compute_s": 0.01, "deadline_s": None, "drop_out": 0.0}
    settings = [devices | {"deadline_s": 1.4}, devices | {"drop_out": 0.5}]
    (series,) = dials.series_of([record(i, system=own) for i, own in enumerate(settings)], "system")
    assert series.on == ["deadline = 1.4 s, drop-out = 0", "drop-out = 0.5"]
    private = [record(3), record(4, privacy={"unit": "client", "clip": 1.0, "noise": None, "epsilon": 4.0})]
    (series,) = dials.series_of(private, "privacy")
    assert list(series.settings) == ["off", "epsilon = 4"]


def test_methods_of_one_name_are_told_apart_by_another_dial() -> None:
    attack = {"name": "sign_flip", "share": 0.2, "scale": 5.0}
    runs = [
        record(i, aggregator={"name": rule}, **({"attack": attack} if is_on else {}))
        for i, (rule, is_on) in enumerate([("krum", 0), ("krum", 1), ("median", 0), ("median", 1)])
    ]
    assert [one.name for one in dials.series_of(runs, "attack")] == ["FedAvg, Krum", "FedAvg, Median"]


def test_a_client_is_compared_with_itself_and_malicious_ones_are_not_counted() -> None:
    clients = sides([0.5, 0.9, 0.7, 0.0], [0.7, 0.8, 0.7, 0.9], malicious=(3,))
    rows = who_pays.data(clients, TRAITS)
    assert rows[["client", "difference"]].to_numpy().tolist() == [[1, 0.1], [2, 0], [0, -0.2], [3, -0.9]]
    found = who_pays.counted(rows)
    assert (found.hurt, found.helped, found.clients) == (1, 1, 3)
    assert who_pays.who(rows) == "3 benign clients"
    assert who_pays.finding(rows, None).startswith("1 of 3 benign clients is hurt (33 %, ")


def test_the_heading_says_who_pays_and_whether_it_may_be_chance() -> None:
    hurt = who_pays.data(sides([0.5] * 8, [0.7] * 8), TRAITS)
    assert who_pays.heading(hurt, "FedAvg", "Krum") == (
        "Who pays for it? With Krum, 8 of 8 clients of FedAvg lose, none gain"
    )
    one = who_pays.data(sides([0.5, 0.6], [0.7, 0.6]), TRAITS)
    assert who_pays.heading(one, "FedAvg", "Krum").endswith(
        "1 of 2 clients of FedAvg loses, none gain, which may be chance"
    )
    same = who_pays.data(sides([0.5, 0.6], [0.5, 0.6]), TRAITS)
    assert who_pays.heading(same, "FedAvg", "Krum").endswith("none of 2 clients of FedAvg gains or loses")


def test_the_finding_says_whom_the_color_picks_out() -> None:
    off, lower = [0.9] * 8, [0.9 - 0.05 * i for i in range(8)]
    rows = who_pays.data(sides(lower, off), TRAITS)
    assert who_pays.rank_correlation(rows) == pytest.approx(-1)
    assert who_pays.finding(rows, NORM).endswith("Clients with larger updates lose more (Spearman's ρ −1.00).")
    mixed = who_pays.data(sides([0.8, 0.6, 0.8, 0.6, 0.8, 0.6, 0.8, 0.6], off), TRAITS)
    assert "no clear relation to update norm" in who_pays.finding(mixed, NORM)


def test_malicious_clients_are_hollow_and_chosen_ones_stay_lit() -> None:
    rows = who_pays.data(sides([0.5, 0.9, 0.0], [0.7, 0.8, 0.9], malicious=(2,)), TRAITS)
    stems, benign, malicious = who_pays.figure(rows, NORM, "#000000", (1,)).data
    assert malicious.marker.symbol == "circle-open" and malicious.customdata.tolist() == [[2]]
    assert benign.customdata.tolist() == [[1], [0]] and list(benign.marker.opacity) == [1, who_pays.FADED]
    assert benign.marker.color.tolist() == [1, 0] and benign.marker.colorbar.title.text == "Update norm"
    assert stems.x[:3] == (1, 1, None)


def test_the_settings_have_a_mean_and_a_tail_each() -> None:
    table = dial_settings.data(
        at_settings(a={"off": [0.8] * 18 + [0.7, 0.9], "Krum": [0.6] * 18 + [0.1, 0.7]}, b={"off": [0.5] * 20}), 0.05
    )
    assert table[["method", "setting", "mean", "lowest"]].to_numpy().tolist() == [
        ["a", "off", pytest.approx(0.8), pytest.approx(0.7)],
        ["b", "off", pytest.approx(0.5), pytest.approx(0.5)],
        ["a", "Krum", pytest.approx(0.58), pytest.approx(0.1)],
    ]
    assert dial_settings.finding(table, "off", 0.05, "20 clients") == (
        "a with Krum pays most: lowest 5 % 10.0 % instead of 70.0 %, mean 58.0 % instead of 80.0 % (20 clients)."
    )
    assert dial_settings.change(table, "a", "Krum", "off") == "mean −22.0 points, lowest −60.0 points"
    fig = dial_settings.figure(table, 0.05)
    assert [list(trace.y) for trace in fig.data] == [pytest.approx(y) for y in ([80, 58], [50], [70, 10], [50])]
    assert fig.layout.xaxis2.ticktext == ("off", "Krum")


def test_the_report_has_the_panel_and_its_file_of_clients_names_the_method_and_the_setting(
    attacked_store: Store,
) -> None:
    view = View(tuple(methods_of(queries.runs(with_partition=True))))
    found = next(section.parts(view, view, {"payers": "FedAvg"}))
    assert found.heading.startswith("Who pays for it?")
    assert [one.key for one in found.figures] == ["dial_settings", "who_pays"]
    table, heads = found.figures[1].table, found.figures[1].heads
    assert len(table) == 10 and table["is_malicious"].sum() == 2
    on = next(name for name in table if name.startswith("FedAvg accuracy, Sign flip"))
    off = table["FedAvg accuracy, off"]
    assert np.allclose(table["difference"], table[on] - off, atol=1e-6)
    assert {"With it, %", "Off, %"} < set(column_heads.read(table, heads).columns)


@pytest.mark.slow
def test_both_figures_have_a_printed_form_with_the_scale_of_the_colors() -> None:
    rows = who_pays.data(sides([0.5, 0.9, 0.0], [0.7, 0.8, 0.9], malicious=(2,)), TRAITS)
    table = dial_settings.data(at_settings(a={"off": [0.8], "Krum": [0.6]}), 0.05)
    sheet = draw([who_pays.figure(rows, NORM, "#000000"), dial_settings.figure(table, 0.05)], Settings())
    assert any(axes.get_ylabel() == "Update norm" for axes in sheet.axes)


def test_the_distance_of_labels_is_zero_for_equal_shares_and_at_most_one() -> None:
    run = run_record(1, partition={"class_counts": [[5, 5], [10, 0], [0, 10]]})
    assert client_traits.label_distance(run).tolist() == pytest.approx([0, 0.5, 0.5])
    assert client_traits.label_distance(run_record(1, partition={})) is None


@pytest.mark.slow
def test_the_panel_names_the_benign_clients_and_is_a_link(attacked_store: Store) -> None:
    page = opened(client="3")
    text = words(page)
    assert "Who pays for it? With Sign flip" in text and "of 8 benign clients of FedAvg" in text
    assert "Hollow: malicious, not counted." in text
    assert "(8 benign clients); median difference" in text  # the pair below
    keys = [chart.proto.id.rpartition("-")[2] for chart in page.get("plotly_chart")]
    assert keys[:2] == ["dial_settings", "who_pays"]
    next(one for one in page.selectbox if one.label == "Method").set_value("LocalTrain").run()
    assert page.query_params["payers"] in ("LocalTrain", ["LocalTrain"])
    assert "none of 8 benign clients of LocalTrain gains or loses" in words(page)


@pytest.mark.slow
def test_without_a_run_with_the_dial_off_only_the_settings_are_shown(empty_store: Store) -> None:
    for rule in ("median", "krum"):
        store_experiment(empty_store, ROBUST | {"name": rule, "algorithms": [{"name": "fedavg"}], "aggregator": rule})
    page = opened()
    assert page.header[0].value == "Who pays for it?" and "add a run with aggregator off" in words(page)
