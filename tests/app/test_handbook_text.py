"""Docstrings in the handbook: they are parsed into formulas and sentences, and all have the required parts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.data.entry_text import EntryText, parse, text_of
from app.handbook.mathematics import aligned, formula, split_comment
from app.handbook.options_table import allowed, default
from app.handbook.prose import capitalized, citation, sentences
from engine.core.registry import ALGORITHMS, Entry, Parameter

WHOLE = """Ditto: a personalized model per client,
pulled toward the global one.

Li, Hu. Ditto. ICML 2021.
https://arxiv.org/abs/2012.04221, Algorithm 1.

    w   <- sum_i m_i / m w_i          over the cohort

    v_i <- v_i - lr grad f_i(v_i)

Idea: Two models.
Both train.

Sent: w, both ways. Kept: v_i.

Cost: two trainings.

A remark.
"""
FORMULAS = {
    "w": "w",
    "v_i <- v_i - lr grad f_i(v_i)": r"v_{i} \gets v_{i} - \mathrm{lr} \, \nabla f_{i} ( v_{i} )",
    "sum_i m_i / m w_i": r"\sum_{i} m_{i} / m \, w_{i}",
    "omega~_i and x-bar and K^": r"\tilde{\omega}_{i} \text{ and } \bar{x} \text{ and } \hat{K}",
    "v_i~ w'_i theta'": r"\tilde{v}_{i} \, w'_{i} \, \theta'",
    "||w_g - w_i||^2": r"\lVert w_{g} - w_{i} \rVert^{2}",
    "KL(a || b)": r"\operatorname{KL} ( a \,\Vert\, b )",
    "sqrt(d K) x^-1 n^(-1/2)": r"\sqrt{d \, K} \, x^{- 1} \, n^{- 1 / 2}",
    "argmin_k f_i(w_k)": r"\operatorname*{arg\,min}_{k} f_{i} ( w_{k} )",
    "mean over i in C_k": r"\text{mean over } i \in C_{k}",
    "inner_steps times, for a batch B:": r"\mathrm{inner\_steps} \text{ times, for a batch } B :",
    "alpha_lr, sigma_every": r"\mathrm{alpha\_lr} , \mathrm{sigma\_every}",
    "M_{i,y_j}, lam_max": r"M_{i , y_{j}} , \lambda_{\mathrm{max}}",
    "k-means of the client's x": r"\text{k-means of the client's } x",
    "client i's w_i,0": r"\text{client } i \text{'s } w_{i , 0}",
    "<g, v_i - w_i> < a": r"\langle g , v_{i} - w_{i} \rangle < a",
    "B1, eps1, grad_phi f": r"B_{1} , \varepsilon_{1} , \nabla_{\varphi} f",
    "P_{c != i}, a^2^3": r"P_{c \ne i} , {a^{2}}^{3}",
    "{a, b} 5%": r"\{ a , b \} \, 5 \%",
}


@pytest.mark.parametrize("line", FORMULAS)
def test_a_line_becomes_its_formula(line: str) -> None:
    assert formula(line) == FORMULAS[line]


def test_a_comment_follows_three_spaces_unless_an_operator_follows() -> None:
    assert split_comment("w   <- w_i     over the cohort") == ("w   <- w_i", "over the cohort")
    assert split_comment("E times, for a batch B:") == ("E times, for a batch B:", "")


def test_a_block_keeps_its_indentation_and_its_comments() -> None:
    block = aligned(["    w <- a     start", "    E times:", "        w <- b"])
    assert block.splitlines() == [
        r"\begin{aligned}",
        r"& w \gets a && {\small \text{start}} \\",
        r"& E \text{ times:} \\",
        r"& \quad w \gets b",
        r"\end{aligned}",
    ]


@given(st.text(max_size=60) | st.text("wi_^~{}()|<>-=,.' \\$%&#:0ab", max_size=40))
@pytest.mark.slow
def test_any_line_becomes_balanced_latex(line: str) -> None:
    assert is_balanced(aligned([line]))


def test_a_docstring_is_parsed_into_parts() -> None:
    assert parse(WHOLE, "Ditto") == EntryText(
        summary="A personalized model per client, pulled toward the global one.",
        citation="Li, Hu. Ditto. ICML 2021. https://arxiv.org/abs/2012.04221, Algorithm 1.",
        equations=("    w   <- sum_i m_i / m w_i          over the cohort", "", "    v_i <- v_i - lr grad f_i(v_i)"),
        labeled={
            "Idea": "Two models. Both train.",
            "Sent": "w, both ways.",
            "Kept": "v_i.",
            "Cost": "two trainings.",
        },
        remarks=("A remark.",),
    )


@pytest.mark.parametrize("between", [" ", "\n", "\n\n"])
def test_several_labels_in_one_paragraph_are_parsed(between: str) -> None:
    text = parse(f"My method.\n\nCost: as FedAvg.{between}Newcomers: use w as it is; Idea: one.\nAnd two.")
    assert text.labeled == {"Idea": "one. And two.", "Cost": "as FedAvg.", "Newcomers": "use w as it is;"}
    assert list(text.labeled) == ["Idea", "Cost", "Newcomers"]


def test_a_label_starts_a_sentence() -> None:
    assert parse("My method.\n\nCost: twice the Cost: of FedAvg.").labeled == {"Cost": "twice the Cost: of FedAvg."}


@pytest.mark.parametrize("docstring", ["", "\n", "One sentence.", "My method"])
def test_a_docstring_without_parts_has_none(docstring: str) -> None:
    assert parse(docstring) == EntryText(summary=docstring.strip())


@pytest.mark.parametrize("entry", list(ALGORITHMS), ids=lambda entry: entry.name)
def test_every_method_has_the_parts_of_the_handbook(entry: Entry) -> None:
    text = text_of(entry)
    assert text.summary.endswith(".") and text.citation and text.equations
    assert {"Idea", "When", "Sent", "Kept", "Cost", "Newcomers", "Pitfalls"} <= text.labeled.keys()
    assert not text.remarks, "a paragraph of the docstring has no label"
    assert is_balanced(aligned(text.equations))
    assert all(parameter.description for parameter in entry.parameters)


def test_symbols_options_and_addresses_are_formatted() -> None:
    expected = sentences("w_i stays near omega~_k; a <b> with lam = 0, head_steps and ``x``, 8 x 8.", ["head_steps"])
    assert expected == (
        "<i>w</i><sub>i</sub> stays near <i>ω\u0303</i><sub>k</sub>; a &lt;b&gt; with <i>λ</i> = 0, "
        "<code>head_steps</code> and <code>x</code>, 8 × 8."
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("phi'_i, x'", "<i>φ</i>′<sub>i</sub>, <i>x</i>′"),
        ("psi's and v_i's steps", "<i>ψ</i>'s and <i>v</i><sub>i</sub>'s steps"),
        ("(-alpha_i), grad f_i", "(-<i>α</i><sub>i</sub>), ∇ <i>f</i><sub>i</sub>"),
        ("the sum of sum_i p_i", "the sum of ∑<sub>i</sub> <i>p</i><sub>i</sub>"),
        ("Sigma^{-1}", "<i>Σ</i><sup>-1</sup>"),
        ("own_share and a_ii", "<code>own_share</code> and <i>a</i><sub>ii</sub>"),
    ],
)
def test_symbols_in_sentences_are_set_as_in_formulas(text: str, shown: str) -> None:
    assert sentences(text) == shown


def test_an_address_in_a_citation_is_a_link() -> None:
    link = '<a href="https://arxiv.org/abs/1" target="_blank" rel="noopener">https://arxiv.org/abs/1</a>'
    assert citation("A & B. https://arxiv.org/abs/1, Algorithm 1.") == f"A &amp; B. {link}, Algorithm 1."


def test_a_paragraph_begins_with_a_capital_or_a_symbol() -> None:
    capitalized_texts = [
        capitalized(text, ["steps"]) for text in ("the mean", "w, both ways", "omega_k down", "steps of", "lam is")
    ]
    assert capitalized_texts == ["The mean", "w, both ways", "omega_k down", "steps of", "lam is"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"type": "int", "minimum": 1}, "whole number from 1"),
        ({"type": "float", "minimum": 0, "excludes": ("minimum",)}, "number above 0"),
        ({"type": "float", "minimum": 0, "maximum": 1, "excludes": ("maximum",)}, "from 0, below 1"),
        ({"type": "float", "minimum": 0, "maximum": 1}, "0 to 1"),
        ({"type": "float", "minimum": 0, "maximum": 1e6}, "0 to 1\u202f000\u202f000"),
        ({"type": "float|choice", "minimum": 0, "choices": ("auto",)}, "number from 0, or “auto”"),
        ({"type": "choice", "choices": ("a", "b")}, "“a”, “b”"),
        ({"type": "bool"}, "yes or no"),
        ({"type": "str"}, "text"),
    ],
)
def test_the_range_of_an_option_is_described_in_words(changes: dict[str, object], expected: str) -> None:
    plain = {
        "name": "x",
        "default": 1,
        "minimum": None,
        "maximum": None,
        "choices": None,
        "description": "",
        "symbol": "x",
    }
    assert allowed(Parameter(**({**plain, "required": False} | changes))) == expected  # type: ignore[arg-type]


def test_defaults_are_formatted_for_readers() -> None:
    assert [default(value) for value in (12.0, 0.005, True, None, [1, 2], "auto")] == [
        "12",
        "0.005",
        "yes",
        "–",
        "1, 2",
        "auto",
    ]


def is_balanced(latex: str) -> bool:
    """Whether all grouping braces are closed in order."""
    depth = 0
    for brace in re.findall(r"\\.|[{}]", latex, re.DOTALL):
        depth += (brace == "{") - (brace == "}")
        if depth < 0:
            return False
    return depth == 0
