"""LaTeX that plain pdflatex can set: every symbol, and every table of a figure, with the words of the screen."""

import numpy as np
import pandas as pd
import pytest

from app.components import page as frame
from app.data import column_heads, latex, table_files
from app.data.column_heads import Heads
from app.inside.tab import tabs
from storage import Store
from tests.app.hostile import NAME
from tests.app.pages import open_page
from tests.support.latex import problems

GREEK = "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"
SIGNS = "◂▸→←↑↓±×·−–—…≤≥≠≈∞★●○□■◆“”‘’²₀°µ<>|&%$#_{}~^\\"
Offered = tuple[str, pd.DataFrame, str, Heads]


@pytest.mark.parametrize("sign", [*GREEK, *SIGNS, *"éÉüñçåøßłž", "R̂", "中", "😀", "\n"])
def test_every_symbol_can_be_set(sign: str) -> None:
    text = table_files.to_latex(pd.DataFrame({f"name {sign}": [f"a{sign}b"]}), f"about {sign}")
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lowest 5 % ◂ mean ▸ top 5 %", r"Lowest 5 \% $\triangleleft$ mean $\triangleright$ top 5 \%"),
        ("α → β", r"$\alpha$ $\rightarrow$ $\beta$"),
        ("a < b | c", "a $<$ b $|$ c"),
        ("René", r"Ren\'{e}"),
        ("R̂", r"\^{R}"),
        ("two\nlines", "two lines"),
        ("m²", "m$^{2}$"),
        ("中", "U+4E2D"),
        ("5\u00a0%", r"5 \%"),
    ],
)
def test_a_symbol_becomes_plain_latex(text: str, expected: str) -> None:
    assert latex.escape(text) == expected


def test_the_check_finds_invalid_latex() -> None:
    good = table_files.to_latex(pd.DataFrame({"a": ["x"]}), "c")
    assert problems(good) == []
    for bad in ("◂", "a_b", "$x", "{", r"\Box", "a & b", "#", "50 %", "x^2", "<"):
        assert problems(good.replace("    x", f"    {bad}")), bad


def test_the_start_of_a_row_is_not_an_option_of_the_line_before() -> None:
    table = pd.DataFrame({"[1]": ["[1] FedAvg", "*", "[2] Ditto"], "a": ["x", "[y]", "z"]})
    lines = table_files.to_latex(table, "c").splitlines()
    assert [line.strip() for line in lines if line.endswith(r"\\")] == [
        r"{}[1] & A \\",
        r"{}[1] FedAvg & x \\",
        r"{}* & [y] \\",
        r"{}[2] Ditto & z \\",
    ]


def test_a_table_has_percent_heads_and_booleans_in_words() -> None:
    table = pd.DataFrame(
        {
            "method": ["A"],
            "algorithm": ["local_train"],
            "mean": [0.91137],
            "mean_pm": [0.0161],
            "front": [True],
            "megabytes": [1.5],
            "seeds": [2],
            "difference": [np.nan],
        }
    )
    text = table_files.to_latex(table, "")
    assert r"Method & Mean, \% & On the Pareto front & MB & Seeds & Difference, \% \\" in text
    assert r"A & $91.14 \pm 1.61$ & yes & $1.500$ & $2$ & -- \\" in text
    read = column_heads.read(table, {})
    assert read.loc[0, "Mean, %"] == pytest.approx(91.137) and read.loc[0, "± Mean, %"] == pytest.approx(1.61)
    assert table_files.to_csv(table).splitlines()[1].startswith("A,local_train,0.91137,0.0161")


def test_heads_of_a_table_override_the_common_ones() -> None:
    table = pd.DataFrame({"mean": [0.5], "a": [0.25]})
    heads = {"mean": column_heads.Head("Shortest update"), "a": column_heads.percent("Ditto")}
    assert column_heads.read(table, heads).to_dict("records") == [{"Shortest update": 0.5, "Ditto, %": 25.0}]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[Offered]:
    """Every table that pages offer during the test: (name, table, words, heads)."""
    found: list[Offered] = []
    whole = frame.table_button

    def note(table: pd.DataFrame, *, name: str, heads: Heads | None = None, **rest: object) -> None:
        words = " ".join(str(rest[part]) for part in ("title", "caption") if rest.get(part))
        found.append((name, table, words, heads or {}))
        whole(table, name=name, heads=heads, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(frame, "table_button", note)
    return found


def assert_can_be_printed(offered: list[Offered]) -> None:
    assert offered
    for name, table, words, heads in offered:
        assert problems(table_files.to_latex(table.head(30), words, heads)) == [], name
        titles = list(column_heads.read(table, heads).columns)
        assert len(set(titles)) == len(titles), (name, titles)
        assert not [title for title in titles if "_" in title], (name, titles)
        assert "Algorithm" not in titles or not {"Method", "Label", "Line"} & set(titles)


@pytest.mark.slow
def test_the_tables_of_a_comparison_can_be_printed(read_store: Store, offered: list[Offered]) -> None:
    for section in ("accuracy", "clients", "cost"):
        open_page("compare", experiment=1, section=section)
    assert_can_be_printed(offered)
    assert {"low-mean-top", "ecdf", "paired", "accuracy-over-round"} <= {name for name, *_ in offered}
    pairs, heads = next((table, heads) for name, table, _, heads in offered if name == "paired")
    read = column_heads.read(pairs, heads)
    assert {"Difference, %", "Client"} < set(read.columns) and read["Difference, %"].abs().max() > 1


@pytest.mark.parametrize("tab", tabs())
@pytest.mark.slow
def test_the_tables_inside_a_run_can_be_printed(read_store: Store, offered: list[Offered], tab: str) -> None:
    clustered = next(run for run in read_store.queue.runs() if run.algorithm == "cgpfl")
    open_page("run", id=clustered.id, tab=tab, client=0)
    if offered:
        assert_can_be_printed(offered)


@pytest.mark.slow
def test_the_tables_of_set_up_live_and_learn_can_be_printed(read_store: Store, offered: list[Offered]) -> None:
    for name, address in (("setup", {}), ("live", {"runs": "1,2"}), ("learn", {}), ("learn", {"story": "dial"})):
        open_page(name, **address)
    assert_can_be_printed(offered)


def test_imported_names_can_be_printed() -> None:
    assert problems(table_files.to_latex(pd.DataFrame({NAME: [NAME]}), NAME)) == []
