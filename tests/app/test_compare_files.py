"""Files of the comparison say what the page says: the rule, every setting, and a best method only if it ranks them."""

import io
from typing import Any

import numpy as np
import pandas as pd

from app import wording
from app.compare import numbers, pair, tables
from app.compare.view import View
from app.data import queries, table_files
from app.data.comparison import methods_of
from storage import RunRecord, Store
from tests.app.frames import run_record
from tests.app.samples import DIGITS, store_experiment

SHORT: dict[str, Any] = DIGITS | {"training": {"rounds": 1, "local_steps": 1}, "seeds": [0, 1, 2]}
METHODS: dict[str, Any] = {"algorithms": ["fedavg", "local_train"]}


def view_of(store: Store, *experiments: dict[str, Any]) -> View:
    for raw in experiments:
        store_experiment(store, SHORT | METHODS | raw)
    return View(tuple(methods_of(queries.runs(with_partition=True))), when="best")


def test_files_name_validation_data_if_the_best_round_was_chosen_on_them(empty_store: Store) -> None:
    view = view_of(empty_store, {"partition": DIGITS["partition"] | {"val_fraction": 0.2}})
    table, clients = numbers.rows_of(view, numbers.EVERY_RULE)
    rules = {"last round", "best round, chosen on validation"}
    assert set(tables.for_print(table, 5)["Round"]) == rules and view.rule.endswith("chosen on validation")
    assert set(pd.read_csv(io.StringIO(tables.to_csv(table)))["when"]) == rules
    shown = tables.for_screen(table, clients)
    assert set(shown["round"]) == {"last", "best"} and shown["bars"].map(len).min() > 0


def test_files_say_that_only_some_runs_chose_their_best_round_on_validation_data(empty_store: Store) -> None:
    view = view_of(empty_store, {}, {"name": "validated", "partition": DIGITS["partition"] | {"val_fraction": 0.2}})
    table, clients = numbers.rows_of(view, numbers.EVERY_RULE)
    rules = {"last round", "best round, chosen on validation data if available, otherwise on test data"}
    assert set(tables.for_print(table, 5)["Round"]) == rules and view.rule.partition(", ")[2] in rules
    assert set(pd.read_csv(io.StringIO(tables.to_csv(table)))["when"]) == rules
    assert set(tables.for_screen(table, clients)["round"]) == {"last", "best"}


def test_the_files_of_a_pair_name_its_methods(empty_store: Store) -> None:
    view = view_of(empty_store, {})
    pairs = pair.pairs_of(view, "LocalTrain", "FedAvg")
    assert pairs is not None
    for shown in pair.figures(view, pairs, "LocalTrain", "FedAvg", ()):
        rows = pd.read_csv(io.StringIO(table_files.to_csv(shown.table)))
        difference = rows["LocalTrain accuracy"] - rows["FedAvg accuracy"]
        assert np.allclose(rows["difference"], difference, atol=1e-6)
        assert "| LocalTrain, % | FedAvg, % |" in table_files.to_markdown(shown.table, "", shown.heads)


def test_no_number_is_bold_where_rows_are_not_ranked_and_every_setting_is_named(empty_store: Store) -> None:
    larger = {"name": "larger", "partition": DIGITS["partition"] | {"num_clients": 20, "classes_per_client": 5}}
    view = view_of(empty_store, {}, larger)
    table, _ = numbers.rows_of(view, [("personalized", "last")])
    assert not view.is_ranked and not table["may_be_best"].map(len).any()
    assert "10 clients" in view.setting and "20 clients" in view.setting


def test_runs_with_other_clients_or_participation_have_a_setting_of_their_own() -> None:
    def run(place: int, clients: int, **training: float) -> RunRecord:
        config = {"dataset": "digits", "partition": {"name": "iid", "num_clients": clients}, "training": training}
        return run_record(place, "FedAvg", place, algorithm="fedavg", config=config)

    alike, partial = [run(1, 8), run(2, 8)], run(3, 8, participation=0.5)
    assert wording.setting(alike) == "Digits · 8 clients · IID · 2 seeds"
    assert wording.setting([*alike, partial]) == (
        "Digits · 8 clients · IID · 2 seeds / Digits · 8 clients · IID · C = 50 % · 1 seed"
    )
    others = [run(3 + clients, clients) for clients in range(10, 15)]
    assert wording.setting([*alike, *others]).endswith(" / 3 more settings")


def test_the_files_of_grouped_rows_count_their_pooled_runs(empty_store: Store) -> None:
    view = view_of(empty_store, {}).pooled("dataset.name")
    table, _ = numbers.rows_of(view, [("personalized", "last")])
    assert table["seeds"].tolist() == [6] and tables.for_print(table, 5)["Pooled runs"].tolist() == ["6"]
