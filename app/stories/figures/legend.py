"""What is live and what is shipped, in a line inside a figure."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from app.charts.plot import palette
from app.charts.plot.annotations import annotate
from app.components.moving_figure import RESULT

LIVE = THIS, EARLIER = " · ● this run", " · ○ earlier runs"
NOTE = "live"  # the ``name`` of a note that is about live runs alone


def explain(fig: go.Figure, shipped: str, *, at_top: bool = False, is_live: bool = True) -> None:
    """``shipped`` says what the lines are; the reader's runs are explained the same way everywhere."""
    side = "top" if at_top else "bottom"
    note = {
        "name": RESULT,
        "xref": "paper",
        "yref": "paper",
        "x": 0.01,
        "y": 1 if at_top else 0.01,
        "xanchor": "left",
        "yanchor": side,
        "align": "left",
        "showarrow": False,
        "text": f"{shipped}{THIS}{EARLIER}" if is_live else shipped,
        "font": {"color": palette.theme().muted},
    }
    annotate(fig, [note])


def without_live(figure: Mapping[str, Any]) -> dict[str, Any]:
    """``figure`` without the words on live runs, which do not exist on paper."""
    notes = [note for note in figure["layout"].get("annotations", []) if note.get("name") != NOTE]
    notes = [{**note, "text": _stripped(note.get("text", ""))} for note in notes]
    traces = [
        {**trace, "text": [_stripped(text) if isinstance(text, str) else text for text in trace["text"]]}
        if isinstance(trace.get("text"), list)
        else trace
        for trace in figure["data"]
    ]
    return {**figure, "data": traces, "layout": {**figure["layout"], "annotations": notes}}


def _stripped(text: str) -> str:
    for words in LIVE:
        text = text.replace(words, "")
    return text
