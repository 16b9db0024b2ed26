"""A figure or table in one picture and one line. The cards of shipped results ship as well: drawing all takes a second.

``python -m benchmarks.paper_cards`` writes them; a card that is not of the shipped numbers is drawn when it is shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.charts import paper_comparison
from app.data.shipped import FOLDER, checksum
from app.papers.claim import HEADS, State, verdicts, worst
from app.papers.figures import first_figure, printed
from app.papers.results import Results
from app.papers.sketch import sketch
from app.wording import plural
from engine.config.presets import Preset

MARKS: dict[State, str] = {"holds": "✓", "fails": "✗", "unclear": "~"}
SHIPPED = FOLDER.with_name("paper_cards.json")
CARDS_KEPT = 100


@dataclass(frozen=True)
class Card:
    """``picture`` is an SVG in light colors, or empty; ``verdict`` one line about the ``claims`` or the numbers.

    ``claims``: whether each holds, by what it says.
    """

    picture: str = ""
    verdict: str = ""
    claims: Mapping[str, State] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        return MARKS[worst(self.claims.values())] if self.claims else ""


def card_of(results: Results) -> Card:
    """Cached until its runs or their analyses change."""
    return _card(results.preset.name, results.scale, results.stamp, results)


def shipped_card(preset: Preset, scale: str) -> Card | None:
    """The card that ships, if it is of the numbers that ship and of the preset's settings."""
    found = shipped_cards(SHIPPED).get(f"{preset.name}.{scale}")
    if found is None or found["of"] != checksum(preset, scale):
        return None
    return Card(found["picture"], found["verdict"], found["claims"])


@cache
def shipped_cards(path: Path) -> dict[str, dict[str, Any]]:
    """``cgpfl-fig3.quick`` -> the card, and the checksum of the numbers that it shows."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@st.cache_resource(show_spinner=False, max_entries=CARDS_KEPT)
def _card(name: str, scale: str, stamp: object, _results: Results) -> Card:
    return drawn(_results)


def drawn(results: Results) -> Card:
    if not results.runs:
        return Card()
    return replace(in_words(results), picture=sketch(lambda: first_figure(results)))


def in_words(results: Results) -> Card:
    """The card of results with runs, without its picture, which takes the longest."""
    claims = {verdict.claim.says: verdict.state for verdict in verdicts(results)}
    numbers = of_numbers(results)
    line = " · ".join(filter(None, [of_claims(list(claims.values()), is_alone=not numbers), numbers]))
    return Card(verdict=line, claims=claims)


def of_claims(states: Sequence[State], *, is_alone: bool = True) -> str:
    """``Holds here``, or ``Claim: holds here`` unless it ``is_alone`` on the card; ``2 of 3 claims hold here``."""
    if len(states) == 1:
        return HEADS[states[0]] if is_alone else f"Claim: {HEADS[states[0]].lower()}"
    return f"{states.count('holds')} of {len(states)} claims hold here" if states else ""


def of_numbers(results: Results) -> str:
    """``4 of 9 numbers within 1 point``"""
    table = printed(results).dropna(subset=["difference"])
    close = int((table["difference"].abs() <= paper_comparison.CLOSE + 1e-9).sum())
    return f"{close} of {plural(len(table), 'number')} within 1 point" if len(table) else ""
