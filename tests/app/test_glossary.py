"""docs/glossary.md, and the tooltips that read it."""

import ast

import pytest

from app.data.glossary import FILE, definition, entries, terms, tip, uses
from engine.core.paths import ROOT


def used_terms() -> set[str]:
    """The arguments of every ``definition(...)`` in the app."""
    texts = (file.read_text() for file in (ROOT / "app").rglob("*.py"))
    calls = (node for text in texts if "definition(" in text for node in ast.walk(ast.parse(text)))
    return {
        ast.literal_eval(call.args[0])
        for call in calls
        if isinstance(call, ast.Call)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) == "definition"
    }


def test_every_term_of_a_tooltip_is_in_the_glossary() -> None:
    used = used_terms()
    assert used and used <= terms().keys()


def test_terms_are_sorted_and_defined_once() -> None:
    names = [term.casefold() for term, _ in entries(FILE.read_text())]
    assert len(names) >= 60 and names == sorted(set(names))


def test_every_paragraph_defines_a_term_in_one_or_two_sentences() -> None:
    paragraphs = FILE.read_text().strip().split("\n\n")
    assert len(entries(FILE.read_text())) == len(paragraphs) - 2  # the heading and the introduction
    assert all(text.endswith(".") and text.count(". ") <= 2 for text in terms().values())


def test_a_definition_may_be_wrapped() -> None:
    assert entries("# Glossary\n\n**A b.** One\nline.\n\n**C.** Two.\n") == [("A b", "One line."), ("C", "Two.")]


def test_an_unknown_term_is_an_error() -> None:
    with pytest.raises(KeyError):
        definition("No such term")


def test_terms_are_found_in_singular_and_plural_and_the_longest_first() -> None:
    text = "Clients of one cohort, by weighted means and analyses; hyper-parameters, subclients"
    found = [(use.term, text[use.start : use.end]) for use in uses(text)]
    assert found == [
        ("Client", "Clients"),
        ("Cohort", "cohort"),
        ("Weighted mean", "weighted means"),
        ("Analysis", "analyses"),
        ("Hyper-parameter", "hyper-parameters"),
    ]


@pytest.mark.parametrize(
    "text", ["Run it twice", "runs from 0 to 1", "queue them", "it drifts", "heads for", "body acceleration"]
)
def test_a_word_that_means_something_else_is_no_term(text: str) -> None:
    assert not list(uses(text))


@pytest.mark.parametrize("text", ["16 runs", "the queue", "each run", "a drift", "one head"])
def test_a_word_of_two_meanings_is_a_term_where_a_noun_must_follow(text: str) -> None:
    assert [text[use.start : use.end] for use in uses(text)] == [text.split()[1]]


def test_a_symbol_is_a_term_but_not_as_a_hyper_parameter() -> None:
    text = "a larger ε, epsilon (ε); below ε₁ with ε = 0.1"
    assert [(use.term, text[use.start : use.end]) for use in uses(text)] == [
        ("Epsilon (ε)", "ε"),
        ("Epsilon (ε)", "epsilon (ε)"),
    ]


def test_a_tip_is_the_first_sentence() -> None:
    assert tip("Context") == "The true group of a client, where generated data defines one."
    assert all(tip(term).endswith(".") and ". " not in tip(term) for term in terms())
