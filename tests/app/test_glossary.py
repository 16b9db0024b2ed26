"""docs/glossary.md, and the tooltips that read it."""

import ast

import pytest

from app.data.glossary import FILE, definition, entries, terms
from engine.core.paths import ROOT


def used_terms() -> set[str]:
    """The arguments of every ``definition(...)`` in the app."""
    calls = (node for file in (ROOT / "app").rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
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
