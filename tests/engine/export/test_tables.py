"""Runs with known numbers as tidy tables."""

import numpy as np
import pandas as pd

from engine.core.results import RoundResult
from engine.export.tables import rounds_table
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


def test_other_client_values_are_means_and_accuracies_are_not_repeated() -> None:
    one = a_round(personalized__accuracy=[0.5, 0.5], personalized__val_accuracy=[0.25, 0.75], diagnostics__Q=[1, 2])
    table = rounds_table([an_outcome(rounds=[one])])
    assert table["personalized.val_accuracy"][0] == 0.5
    assert not {"personalized.accuracy", "diagnostics.Q"} & set(table.columns)
