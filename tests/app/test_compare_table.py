"""The comparison as a table: a row per rule, fractions in files, percent on the screen and in LaTeX."""

import pandas as pd
import pytest

from app.compare import tables
from app.data.comparison import per_run
from tests.app.frames import clients
from tests.support.latex import problems

ACCURACIES = clients(1000, FedAvg=[[0.5, 0.7], [0.6, 0.8]], Ditto=[[0.9, 0.7], [0.9, 0.8]])


@pytest.fixture
def table() -> pd.DataFrame:
    runs = per_run(ACCURACIES, 0.05).assign(megabytes=1.5, gradient_evaluations=200.0, seconds=0.25)
    return tables.data(pd.concat([runs.assign(model="personalized", when=when) for when in ("last", "best")]))


def test_the_table_has_a_row_for_each_method_and_rule(table: pd.DataFrame) -> None:
    assert table[["method", "when"]].to_numpy().tolist() == [
        ["FedAvg", "last"],
        ["Ditto", "last"],
        ["FedAvg", "best"],
        ["Ditto", "best"],
    ]
    first = table.iloc[0]
    assert first[["mean", "weighted_mean", "lowest", "top", "megabytes"]].tolist() == pytest.approx(
        [0.65, 0.65, 0.55, 0.75, 1.5]
    )
    assert first[["clients", "tail", "seeds"]].tolist() == [2, 1, 2]


def test_the_screen_shows_percent_and_clients_worst_first(table: pd.DataFrame) -> None:
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


def test_gradient_evaluations_are_whole_numbers(table: pd.DataFrame) -> None:
    everyone = ACCURACIES.assign(model="personalized", when="last")
    shown = tables.for_screen(table.assign(gradient_evaluations=1234.56), everyone)
    assert shown["gradient_evaluations"].tolist() == [1235] * 4


def test_the_file_names_the_rule_of_each_number(table: pd.DataFrame) -> None:
    lines = tables.to_csv(table).splitlines()
    assert lines[0].endswith("clients,tail,seeds")
    assert lines[0].startswith("method,algorithm,model,when,mean,mean_pm")
    assert "last round" in lines[1] and "best round, chosen on test" in lines[3]


def test_simulated_seconds_are_in_every_table_if_some_runs_record_them(table: pd.DataFrame) -> None:
    found = _last(ACCURACIES, simulated_s=[56.0, 58.0, float("nan"), float("nan")])
    shown = tables.for_screen(found, ACCURACIES.assign(model="personalized", when="last"))
    assert shown["simulated_s"].tolist() == pytest.approx([57.0, float("nan")], nan_ok=True)
    assert tables.formats(["simulated_s"], found) == {"simulated_s": "%.2f"}
    header, *rows = tables.to_csv(found).splitlines()
    cells = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert [row["simulated_s"] for row in cells] == ["57", ""]
    assert [row["simulated_s_pm"] for row in cells] == ["1.41421356237", ""]
    assert r"& 1.50 & 57.0 & 2 \\" in tables.to_latex(found, 5, "") and r"{lrrrrrrrrr}" in tables.to_latex(found, 5, "")
    *_, first, second = tables.to_markdown(found, 5, "").splitlines()
    assert first.endswith("| 1.50 | 57.0 | 2 |") and second.endswith("| 1.50 | – | 2 |")
    assert tables.for_print(found, 5)["Simulated s"].tolist() == ["57.0", "–"]
    assert "simulated_s" not in table and "Simulated s" not in tables.for_print(table, 5)


def test_missing_numbers_are_dashes_in_every_table() -> None:
    rows = clients(0, A=[[0.0], [0.0]], B=[[0.5], [0.6]])  # no test samples, and CV divides by the mean
    found = _last(rows, simulated_s=[float("nan"), float("nan"), 3.0, 4.0])
    text = tables.to_latex(found, 5, "")
    assert problems(text) == [] and "nan" not in text
    assert r"    A & $0.00 \pm 0.00$ & -- & " in text and r" & -- & 1.50 & -- & 2 \\" in text
    *_, markdown, _ = tables.to_markdown(found, 5, "").splitlines()
    assert markdown.startswith("| A | 0.00 ± 0.00 | – |") and markdown.endswith("| – | 1.50 | – | 2 |")
    printed = tables.for_print(found, 5)
    assert printed["CV"].iloc[0] == "–" and printed["Weighted mean"].tolist() == ["–", "–"]


def _last(runs: pd.DataFrame, **own: list[float]) -> pd.DataFrame:
    costs = {"megabytes": 1.5, "gradient_evaluations": 200.0, "seconds": 0.25, **own}
    return tables.data(per_run(runs, 0.05).assign(model="personalized", when="last", **costs))


def test_latex_escapes_names(table: pd.DataFrame) -> None:
    named = table[table["when"] == "last"].replace("FedAvg", "Fed_Avg λ=1 & 2 %")
    text = tables.to_latex(named, 5, "3 seeds")
    assert r"Fed\_Avg $\lambda$=1 \& 2 \%" in text
    assert r"$65.0 \pm 7.1$" in text
    assert text.count(r"\\") == 3 and r"\begin{tabular}{lrrrrrrrr}" in text


def test_methods_that_may_be_best_are_bold_if_others_are_worse(table: pd.DataFrame) -> None:
    assert "mathbf" not in tables.to_latex(table, 5, "") and tables.bold_note(table) == ""  # two seeds
    near = {"A": [[0.8], [0.82], [0.81]], "B": [[0.82], [0.80], [0.80]], "C": [[0.1], [0.11], [0.12]]}
    found = _last(clients(1000, **near))
    rows = tables.to_markdown(found, 5, "").splitlines()
    assert [line.startswith(f"| {m} | **") for m, line in zip("ABC", rows[-3:], strict=True)] == [True, True, False]
    assert r"$\mathbf{81.00 \pm 1.00}$" in tables.to_latex(found, 5, "")
    assert "may be the best" in tables.bold_note(found)


def test_decimals_depend_on_test_samples_and_spread() -> None:
    found = _last(clients(22, A=[[0.9] * 20, [0.95] * 20], B=[[0.9] * 20, [0.9] * 20]))
    numbers = tables.for_print(found, 5).set_index("Method")
    assert numbers.loc["A", ["Mean", "Lowest 5 %"]].tolist() == ["92.5 ± 3.5", "92 ± 4"]  # 880 and 44 samples
    printed = tables.formats(["mean", "lowest", "cv", "megabytes"], found)
    assert printed == {"mean": "%.1f", "lowest": "%.0f", "cv": "%.3f", "megabytes": "%.2f"}
