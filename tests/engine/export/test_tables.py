"""Runs with known numbers as tidy tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine.core.results import RoundResult, RunResult
from engine.core.vocabulary import COSTS, Status
from engine.export.tables import clients_table, rounds_table, summary_table, without_formulas
from tests.support.outcomes import an_outcome


def a_round(**arrays: list[float]) -> RoundResult:
    values = {name.replace("__", "."): np.float32(given) for name, given in arrays.items()}
    return RoundResult(1, np.array([0, 2], np.int32), {"personalized.mean": 0.5}, values)


def test_losses_are_means_over_clients_with_a_loss() -> None:
    rounds = [a_round(personalized__loss=[1, np.nan, 2], global__loss=[4, 2, 6], train_loss=[0.5, np.nan, 1.5])]
    row = rounds_table([an_outcome(rounds=rounds)]).iloc[0]
    assert (row["personalized.loss"], row["global.loss"], row["train_loss"]) == (1.5, 4.0, 1.0)


def test_a_loss_that_no_client_has_is_missing() -> None:
    table = rounds_table([an_outcome(rounds=[a_round(train_loss=[np.nan, np.inf])])])
    assert pd.isna(table["train_loss"][0])


def test_rows_of_a_failed_run_and_of_its_retry_differ_in_their_status() -> None:
    rounds = [a_round(personalized__accuracy=[0.5, 0.25])]
    runs = [an_outcome(status=status, rounds=rounds) for status in ("failed", "done")]
    for table in (rounds_table(runs), clients_table(runs)):
        assert list(table["status"].unique()) == ["failed", "done"]
        assert len(table[table["status"] == "done"]) == len(table) / 2


def test_other_client_values_are_means_and_accuracies_are_not_repeated() -> None:
    one = a_round(personalized__accuracy=[0.5, 0.5], personalized__val_accuracy=[0.25, 0.75], diagnostics__Q=[1, 2])
    table = rounds_table([an_outcome(rounds=[one])])
    assert table["personalized.val_accuracy"][0] == 0.5
    assert not {"personalized.accuracy", "diagnostics.Q"} & set(table.columns)


def test_the_seeds_of_a_split_are_averaged_before_the_deviation_is_taken() -> None:
    means = {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.9, (1, 1): 0.9}
    runs = [
        an_outcome(data_seed=split, seed=seed, summary={"personalized": {"mean": mean}})
        for (split, seed), mean in means.items()
    ]
    (row,) = summary_table(runs).to_dict("records")
    assert (row["splits"], row["seeds"]) == (2, 2)
    assert row["personalized.mean"] == pytest.approx(0.75)
    assert row["personalized.mean.std"] == pytest.approx(0.3 / 2**0.5)


def test_in_a_study_a_choice_of_the_defaults_also_counts_for_the_defaults() -> None:
    def final(split: int, trial: int, label: str, mean: float) -> RunResult:
        study = {"role": "final", "entry": "ditto", "split": split, "trial": trial}
        return an_outcome(label=label, data_seed=split, study=study, summary={"personalized": {"mean": mean}})

    chose_defaults = [final(0, 0, "ditto", 0.5)]
    chose_another = [final(1, 0, "ditto defaults", 0.8), final(1, 3, "ditto", 0.9)]
    table = summary_table(chose_defaults + chose_another).set_index("label")
    assert table.loc["ditto", "personalized.mean"] == pytest.approx(0.7)
    assert table.loc["ditto defaults", "personalized.mean"] == pytest.approx(0.65)
    assert table["splits"].tolist() == [2, 2]
    assert summary_table(chose_defaults)["label"].tolist() == ["ditto"]


def test_only_runs_that_are_done_are_averaged_and_diverged_ones_are_counted() -> None:
    def ended(seed: int, status: Status, mean: float, **more: Any) -> RunResult:
        of_clients = {"personalized": {"mean": mean}}
        rounds = [RoundResult(1, np.array([0], np.int32), {**dict.fromkeys(COSTS, 10.0), "seconds": mean}, {})]
        return an_outcome(seed=seed, status=status, summary=of_clients, rounds=rounds, **more)

    some = [ended(0, "done", 0.5), ended(1, "done", 0.7), ended(2, "diverged", np.nan), ended(3, "diverged", 0.1)]
    (row,) = summary_table(some).to_dict("records")
    assert (row["seeds"], row["diverged"]) == (2, 2)
    assert row["personalized.mean"] == row["seconds"] == pytest.approx(0.6)
    none = [ended(seed, "diverged", 0.9, data_seed=0) for seed in range(2)]
    (row,) = summary_table(none).to_dict("records")
    assert (row["splits"], row["seeds"], row["diverged"]) == (0, 0, 2)
    assert np.isnan(row["personalized.mean"])


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x")', "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "-", "=1"])
def test_text_that_a_spreadsheet_would_compute_begins_with_an_apostrophe(text: str) -> None:
    safe = without_formulas(pd.DataFrame({"label": [text], text: [1]}))
    assert safe["label"].item() == f"'{text}" and safe.columns[1] == f"'{text}"


@pytest.mark.parametrize("text", ["FedProx, λ = 0.1", "a-b", "-0.5", "+3 %", "-1.2e-05", "-1,200", "'quoted'", ""])
def test_other_text_and_numbers_are_written_as_they_are(text: str) -> None:
    table = pd.DataFrame({"text": [text, None], "number": [-0.5, np.nan], "list": [[1], []]})
    table["whole"] = pd.Series([2**53 + 1, None], dtype=object)
    table["day"] = pd.to_datetime(["2026-03-01", None])
    assert without_formulas(table).to_csv() == table.to_csv()


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_text_of_any_type_is_without_formulas(kind: Any) -> None:
    table = pd.DataFrame({"label": pd.Series(["=1", "a", None], dtype=kind)})
    assert without_formulas(table).to_csv(index=False) == 'label\n\'=1\na\n""\n'


def test_two_columns_of_the_same_name_are_both_written() -> None:
    table = pd.DataFrame([["=1", "b"]], columns=["x", "x"])
    assert without_formulas(table).to_csv(index=False) == "x,x\n'=1,b\n"


def test_a_table_without_rows_has_its_columns() -> None:
    assert list(without_formulas(rounds_table([]))) == list(rounds_table([]))
