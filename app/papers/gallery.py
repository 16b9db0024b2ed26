"""A card for each figure and table: our picture of it, and whether the paper's claims and numbers hold here."""

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape

import streamlit as st

from app.charts.plot import palette
from app.components import page
from app.data import queries
from app.data.preset_catalog import SCALES, by_document, wanted
from app.data.shipped import is_shipped
from app.papers.card import card_of
from app.papers.preset_progress import Standing, standing
from app.papers.results import Results, results_of
from app.papers.sketch import as_image, in_dark
from app.wording import names, plain, plural
from engine.config.presets import OURS, Preset


def gallery(presets: Mapping[str, Preset], found: Mapping[str, tuple[Results, Standing]]) -> None:
    """``found`` as ``shown`` gives it. In each paper, what has a picture comes first."""
    for place, (document, own) in enumerate(by_document(dict(presets)).items()):
        st.header("Not from a paper" if document == OURS else plain(document), anchor=False)
        with st.container(key=f"gallery_{place}"):
            for preset in sorted(own, key=lambda preset: not card_of(found[preset.name][0]).picture):
                _draw(preset, *found[preset.name])


def finding(found: Mapping[str, tuple[Results, Standing]]) -> str:
    """``Of 12 claims about figures without numbers, 7 hold in these runs, 4 do not, and 1 is not clear.``"""
    counts = Counter(state for results, _ in found.values() for state in card_of(results).claims)
    tested = counts.total()
    if not tested:
        return "Our picture of each figure and table, at quick scale or as published."
    parts = [f"{counts['holds']} {'holds' if counts['holds'] == 1 else 'hold'} in these runs"]
    parts += [f"{counts['fails']} {'does' if counts['fails'] == 1 else 'do'} not"] if counts["fails"] else []
    parts += [f"{counts['unclear']} {'is' if counts['unclear'] == 1 else 'are'} not clear"] if counts["unclear"] else []
    return f"Of {plural(tested, 'claim')} about figures without printed numbers, {names(parts)}."


def shown(presets: Mapping[str, Preset]) -> Iterator[tuple[str, tuple[Results, Standing]]]:
    """name -> the results at the largest scale that has all of them, and the progress of the reader's runs there."""
    own = _standings(presets)
    for name, preset in presets.items():
        by_scale = {
            scale: results_of(preset, scale, own[name, scale]) for scale in preset.scales if (name, scale) in own
        }
        smallest, *larger = by_scale
        complete = [scale for scale in larger if by_scale[scale].is_complete]
        scale = complete[-1] if complete else smallest
        yield name, (by_scale[scale], own[name, scale])


def _draw(preset: Preset, results: Results, own: Standing) -> None:
    card = card_of(results)
    picture = in_dark(card.picture) if palette.is_dark() else card.picture
    progress = own.sentence() if own.runs and not results.is_own_and_complete else ""
    scale = f"{SCALES[results.scale]} scale" if results.runs else ""
    item = " · ".join(filter(None, [preset.item, scale]))
    verdict = " · ".join(filter(None, [card.verdict, progress]))
    if picture:
        seen = f'<img alt="" src="{as_image(picture)}">'
    elif results.runs:
        seen = "<p>Drawn on the page of each run</p>"
    else:
        seen = f"<p>Not run yet: {plural(len(results.now.pairs), 'run')}</p>"
    with st.container(key=f"paper_{preset.name}", gap=None):
        st.html(f'<div class="picture">{seen}</div><p class="item">{escape(item)}</p>')
        page.link(
            "papers",
            plain(preset.title),
            preset=preset.name,
            scale=None if results.scale == next(iter(preset.scales)) else results.scale,
        )
        if verdict:
            mark = f'<span class="mark">{card.mark}</span> ' if card.mark else ""
            st.html(f'<p class="verdict">{mark}{escape(verdict)}</p>')


def _standings(presets: Mapping[str, Preset]) -> dict[tuple[str, str], Standing]:
    """The reader's runs of every preset and scale that may have some, with one database query.

    The full scale has thousands of runs: it is looked at if its result ships or an experiment has its name.
    """
    known = {experiment.name for experiment in queries.experiments()}
    wants = {
        (name, scale): wanted(preset, scale)
        for name, preset in presets.items()
        for place, (scale, configs) in enumerate(preset.scales.items())
        if place == 0 or is_shipped(preset, scale) or any(config["name"] in known for config in configs)
    }
    pairs = iter(standing([run for own in wants.values() for run in own]).pairs)
    return {key: Standing(tuple(next(pairs) for _ in own)) for key, own in wants.items()}
