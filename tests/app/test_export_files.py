"""Tables as files: values survive, text is escaped in print, and ± is formatted with its number."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from app.compare import tables
from app.data import table_files
from app.data.comparison import per_run
from tests.app.frames import clients

TABLE = pd.DataFrame(
    {
        "method": ["Fed_Avg λ=1 & 2 %", "a|b `c` <i>"],
        "mean": [0.975, 0.5],
        "mean_pm": [0.0125, np.nan],
        "rounds": [50, 7],
        "rate": [1.2e-05, -0.25],
    }
)


def test_csv_preserves_every_number() -> None:
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(table_files.to_csv(TABLE))), TABLE)


def test_latex_is_a_booktabs_table_with_numbers_in_math_and_names_escaped() -> None:
    text = table_files.to_latex(TABLE, "n = 40 & 3 seeds")
    assert r"Fed\_Avg $\lambda$=1 \& 2 \% & $97.50 \pm 1.25$ & $50$ & $1.2 \cdot 10^{-5}$ \\" in text
    assert r"& $50.00$ & $7$ & $-0.25$ \\" in text
    assert r"\caption{n = 40 \& 3 seeds}" in text
    assert r"\begin{tabular}{lrrr}" in text and text.startswith(r"% \usepackage{booktabs}")


def test_latex_is_balanced_and_has_equally_many_cells_per_row() -> None:
    text = table_files.to_latex(TABLE, r"\ { } $ # ^ ~")
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)[::-1] == ["table", "tabular"]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}
    rules = ["toprule", "midrule", "bottomrule"]
    assert re.findall(r"\\(\w+rule)", text) == rules


def test_markdown_shows_text_literally() -> None:
    text = table_files.to_markdown(TABLE, "said *so*")
    head, ruler, first, second, empty, caption = text.splitlines()
    assert head == "| Method | Mean, % | Rounds | Rate |" and ruler == "| :--- | ---: | ---: | ---: |"
    assert first == r"| Fed\_Avg λ=1 & 2 % | 97.50 ± 1.25 | 50 | 1.2e-05 |"
    assert second == r"| a\|b \`c\` \<i\> | 50.00 | 7 | −0.25 |"
    assert (empty, caption) == ("", r"said \*so\*")


def test_missing_values_are_dashes_in_print() -> None:
    table = pd.DataFrame({"a": [None, "x"], "b": [1.0, np.nan]})
    assert "– & $1$" in table_files.to_latex(table, "").replace("--", "–")
    assert "| x | – |" in table_files.to_markdown(table, "")


def test_the_comparison_is_equal_in_latex_and_markdown() -> None:
    fedavg, ditto = [[0.5, 0.7], [0.6, 0.8], [0.5, 0.6]], [[0.9, 0.7], [0.9, 0.8], [0.8, 0.7]]
    runs = per_run(clients(1000, FedAvg=fedavg, Ditto=ditto), 0.05)
    runs = runs.assign(megabytes=1.5, gradient_evaluations=200.0, seconds=0.25, model="personalized", when="last")
    table = tables.data(runs)
    assert "**80.0 ± 5.0**" in tables.to_markdown(table, 5, "")
    assert "80.0 \\pm 5.0" in tables.to_latex(table, 5, "")
    printed = tables.for_print(table, 5)
    assert printed.loc[1, ["Method", "Mean", "Round", "n", "Seeds"]].tolist() == [
        "Ditto",
        "80.0 ± 5.0",
        "last round",
        "2",
        "3",
    ]


@pytest.mark.parametrize("kind", table_files.FORMATS, ids=lambda kind: kind.ending)
def test_an_empty_table_is_still_a_file(kind: table_files.Format) -> None:
    assert "ethod" in kind.write(TABLE.head(0), "")
