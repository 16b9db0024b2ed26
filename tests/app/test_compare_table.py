"""The comparison as a table: every rule a row, fractions in the file, percent on the screen and on paper."""

import pandas as pd
import pytest

from app import tables
from app.comparison import per_run
from tests.app.frames import clients

ACCURACIES = clients(FedAvg=[[0.5, 0.7], [0.6, 0.8]], Ditto=[[0.9, 0.7], [0.9, 0.8]])


@pytest.fixture
def table() -> pd.DataFrame:
    runs = per_run(ACCURACIES, 0.05).assign(megabytes=1.5, gradient_evaluations=200.0, seconds=0.25)
    return tables.data(pd.concat([runs.assign(model="personalized", when=when) for when in ("last", "best")]))


def test_the_table_has_a_row_for_each_method_and_rule(table: pd.DataFrame) -> None:
    assert table[["method", "when"]].to_numpy().tolist() == [
        ["FedAvg", "last"], ["Ditto", "last"], ["FedAvg", "best"], ["Ditto", "best"],
    ]  # fmt: skip
    first = table.iloc[0]
    assert first[["mean", "weighted_mean", "lowest", "top", "megabytes"]].tolist() == pytest.approx(
        [0.65, 0.65, 0.55, 0.75, 1.5]
    )
    assert first[["clients", "tail", "seeds"]].tolist() == [2, 1, 2]


def test_the_screen_shows_percent_and_every_client_worst_first(table: pd.DataFrame) -> None:
    shown = tables.for_screen(
        table,
        pd.concat(
            [
                ACCURACIES.assign(model="personalized", when="last"),
                ACCURACIES.assign(model="personalized", when="best", accuracy=1.0),
            ]
        ),
    )
    assert shown.loc[0, ["mean", "lowest"]].tolist() == pytest.approx([65.0, 55.0])
    assert shown.loc[0, "bars"] == pytest.approx([50.0, 60.0, 70.0, 80.0])
    assert shown.loc[2, "bars"] == [100.0] * 4
    assert set(shown.columns) <= set(tables.column_titles(5))


def test_gradients_are_counted_in_whole_numbers(table: pd.DataFrame) -> None:
    everyone = ACCURACIES.assign(model="personalized", when="last")
    shown = tables.for_screen(table.assign(gradient_evaluations=1234.56), everyone)
    assert shown["gradient_evaluations"].tolist() == [1235] * 4


def test_the_file_names_the_rule_of_each_number(table: pd.DataFrame) -> None:
    lines = tables.to_csv(table).splitlines()
    assert lines[0].startswith("method,algorithm,model,when,mean,mean_pm")
    assert "last round" in lines[1] and "best round, chosen on test" in lines[3]


def test_latex_sets_the_best_in_bold_and_escapes_names(table: pd.DataFrame) -> None:
    named = table[table["when"] == "last"].replace("FedAvg", "Fed_Avg λ=1 & 2 %")
    text = tables.to_latex(named, 5, "3 seeds")
    assert r"Fed\_Avg $\lambda$=1 \& 2 \%" in text
    assert r"$\mathbf{82.50 \pm 3.54}$" in text and r"$65.00 \pm 7.07$" in text
    assert text.count(r"\\") == 3 and r"\begin{tabular}{lrrrrrrrr}" in text
