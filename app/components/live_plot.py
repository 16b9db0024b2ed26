"""Live charts that keep zoom and hover: the browser requests new points and adds them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from app import endpoints
from app.charts.plot import figure_text, palette
from app.components import drawing_library

_HERE = Path(__file__).parent
HTML = """
<div class="live">
  <p class="live-state" role="status" aria-live="polite" hidden></p>
  <div class="live-figures"></div>
  <p class="live-tools"><button type="button" class="live-hold" aria-pressed="false">Freeze charts</button>
    <span class="live-held" role="status"></span></p>
  <ul class="live-runs" aria-label="Runs"></ul>
  <details class="live-log"><summary>Log (times in UTC)</summary>
    <pre tabindex="0" aria-label="Log, times in UTC"></pre></details>
</div>
"""
STRIP = """
<p class="strip"></p>
<div class="strip-notes">
  <div class="strip-toast" role="status" aria-live="polite"></div>
  <div class="strip-alerts" role="alert" hidden></div>
</div>
"""


def live_plot(
    figures: Mapping[str, go.Figure],
    *,
    standings: Sequence[Mapping[str, Any]],
    model: str,
    key: str,
    links: Mapping[int, str],
    on_action: Callable[[], None],
) -> None:
    """Runs and their ``figures``, kept up to date by the browser.

    ``on_action`` is called when a button of a method or a run was pressed: ``st.session_state[key].action`` is
    ``{"runs": [3, 4], "action": "pause"}``. The page is drawn again when the status of a run has changed.
    ``links`` are what a diverged run offers to try.
    """
    swatches = {trace.meta["run"]: trace.line.color for trace in figures["accuracy"].data}
    _component()(
        key=key,
        data={
            "figures": {name: _without_points(fig) for name, fig in figures.items()},
            "titles": {name: fig.layout.title.text for name, fig in figures.items()},
            "runs": [dict(standing) for standing in standings],
            "model": model,
            "feed": endpoints.FEED,
            "plotly": endpoints.LIBRARY,
            "swatches": swatches,
            "links": dict(links),
            "presenting": palette.is_presenting(),
            "paper": palette.translucent(palette.theme().paper, 0.8),
        },
        on_action_change=on_action,
        on_changed_change=lambda: None,
    )


def strip(initial: Mapping[str, Any], *, is_served: bool) -> None:
    """Running and queued runs, device, and alerts; the browser polls for updates if the server has a route for them."""
    _strip()(key="strip", data={**initial, "route": endpoints.OVERVIEW if is_served else None})


def _without_points(fig: go.Figure) -> dict[str, Any]:
    """The browser fetches the points, so that the same data is not sent twice."""
    spec: dict[str, Any] = json.loads(figure_text.without_links(go.Figure(fig).update_traces(x=[], y=[])).to_json())
    return spec


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    css, js = (_HERE / "live_plot.css").read_text(encoding="utf-8"), drawing_library.script("live_plot.js")
    return st.components.v2.component("fedscape_live_plot", html=HTML, css=css, js=js, isolate_styles=False)


@st.cache_resource(show_spinner=False)
def _strip() -> Any:
    css, js = (_HERE / "strip.css").read_text(encoding="utf-8"), drawing_library.script("strip.js")
    return st.components.v2.component("fedscape_strip", html=STRIP, css=css, js=js, isolate_styles=False)
