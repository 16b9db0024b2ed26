"""A card for each figure and table: our picture of it, and whether the paper's claims and numbers hold here."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from app.charts.plot import palette
from app.components import page, terms
from app.data import queries
from app.data.preset_catalog import SCALES, by_document, preset_runs
from app.data.shipped import is_shipped
from app.papers.card import MARKS_IN_WORDS, Card, card_of, shipped_card
from app.papers.claim import State
from app.papers.preset_progress import Standing, standing
from app.papers.results import results_of
from app.papers.sketch import as_image, in_dark
from app.papers.study_result import study_result
from app.wording import names, plain, plural
from engine.config.presets import OURS, Preset

QUICK = (
    "Quick scale runs fewer rounds or seeds than the papers: its numbers are not expected to match the printed ones."
)


@dataclass(frozen=True)
class Entry:
    """A preset at the scale shown; ``progress`` of the reader's runs; the text ``instead`` of a missing picture."""

    preset: Preset
    scale: str
    card: Card
    progress: str
    instead: str

    @property
    def is_shown_at(self) -> str:
        return f"{SCALES[self.scale]} scale" if self.card.picture or self.card.verdict else ""


def gallery(entries: Sequence[Entry]) -> None:
    """The cards of each paper; those with a picture come first."""
    by_name = {entry.preset.name: entry for entry in entries}
    with st.container(key="papers_gallery"):
        if any(entry.scale == "quick" and entry.preset.document != OURS for entry in entries):
            terms.caption(QUICK)
        for place, (document, own) in enumerate(by_document({e.preset.name: e.preset for e in entries}).items()):
            st.header("Not from a paper" if document == OURS else plain(document), anchor=False)
            with st.container(key=f"gallery_{place}"):
                for entry in sorted((by_name[preset.name] for preset in own), key=lambda entry: not entry.card.picture):
                    _draw(entry)


def finding(entries: Iterable[Entry]) -> str:
    """``Of 12 claims about figures without printed numbers, 7 hold in these runs, 4 do not and 1 is not clear.``

    A claim that several presets test counts once, at the larger scale, and the sentence says so.
    """
    entries = list(entries)
    states: dict[str, State] = {}
    for entry in sorted(entries, key=lambda entry: list(SCALES).index(entry.scale)):
        states |= entry.card.claims
    counts = Counter(states.values())
    tested = counts.total()
    if not tested:
        return "Our version of each figure and table, at quick or full scale."
    parts = [f"{counts['holds']} {'holds' if counts['holds'] == 1 else 'hold'} in these runs"]
    parts += [f"{counts['fails']} {'does' if counts['fails'] == 1 else 'do'} not"] if counts["fails"] else []
    parts += [f"{counts['unclear']} {'is' if counts['unclear'] == 1 else 'are'} not clear"] if counts["unclear"] else []
    once = " (each counted once)" if tested < sum(len(entry.card.claims) for entry in entries) else ""
    return f"Of {plural(tested, 'claim')} about figures without printed numbers{once}, {names(parts)}."


def shown(presets: Mapping[str, Preset]) -> list[Entry]:
    """Each preset at the largest scale with a complete result, the reader's own or one that ships."""
    own = _standings({name: preset for name, preset in presets.items() if not preset.is_study})
    return [
        _of_study(preset)
        if preset.is_study
        else _of_runs(preset, {scale: own[name, scale] for scale in preset.scales if (name, scale) in own})
        for name, preset in presets.items()
    ]


def _of_runs(preset: Preset, own: Mapping[str, Standing]) -> Entry:
    scale = _largest(preset, [at for at, now in own.items() if now.is_complete or is_shipped(preset, at)])
    now = own[scale]
    progress = now.sentence() if now.runs and not now.is_complete else ""
    instead = "Drawn on the page of each run" if now.done else f"Not run yet: {plural(len(now.pairs), 'run')}"
    return Entry(preset, scale, _card(preset, scale, now), progress, instead)


def _of_study(preset: Preset) -> Entry:
    results = {scale: study_result(preset, scale) for scale in preset.scales}
    scale = _largest(preset, [at for at, now in results.items() if now.is_done or is_shipped(preset, at)])
    now = results[scale]
    return Entry(preset, scale, now.card, now.progress, f"Not run yet: {now.size}")


def _largest(preset: Preset, complete: Sequence[str]) -> str:
    """The largest scale with a complete result, else the smallest."""
    return complete[-1] if complete else next(iter(preset.scales))


def _card(preset: Preset, scale: str, own: Standing) -> Card:
    ready = None if own.is_complete else shipped_card(preset, scale)
    return ready or card_of(results_of(preset, scale, own))


def _draw(entry: Entry) -> None:
    card, preset = entry.card, entry.preset
    picture = in_dark(card.picture) if palette.is_dark() else card.picture
    item = " · ".join(filter(None, [preset.item, entry.is_shown_at]))
    verdict = " · ".join(filter(None, [card.verdict, entry.progress]))
    seen = f'<img alt="" src="{as_image(picture)}">' if picture else f"<p>{escape(entry.instead)}</p>"
    with st.container(key=f"paper_{preset.name}", gap=None):
        st.html(f'<div class="picture">{seen}</div><p class="item">{escape(item)}</p>')
        page.link(
            "papers",
            plain(preset.title),
            preset=preset.name,
            scale=None if entry.scale == next(iter(preset.scales)) else entry.scale,
        )
        if verdict:
            st.html(f'<p class="verdict">{_mark(card)}{escape(verdict)}</p>')


def _mark(card: Card) -> str:
    """The mark as an image with its meaning in words."""
    if not card.mark:
        return ""
    words = MARKS_IN_WORDS[card.mark]
    return f'<span class="mark" role="img" aria-label="{words}" title="{words}">{card.mark}</span> '


def _standings(presets: Mapping[str, Preset]) -> dict[tuple[str, str], Standing]:
    """The reader's runs of every preset and scale that may have some, with one database query.

    The full scale has thousands of runs: it is looked at if its result ships or an experiment has its name.
    """
    known = {experiment.name for experiment in queries.experiments()}
    planned = {
        (name, scale): preset_runs(preset, scale)
        for name, preset in presets.items()
        for place, (scale, configs) in enumerate(preset.scales.items())
        if place == 0 or is_shipped(preset, scale) or any(config["name"] in known for config in configs)
    }
    pairs = iter(standing([run for own in planned.values() for run in own]).pairs)
    return {key: Standing(tuple(next(pairs) for _ in own)) for key, own in planned.items()}
