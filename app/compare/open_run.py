"""From a marker on a chart to its run: a click or a list selects it, a link opens it."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.compare.view import View
from app.components import page
from app.state import url_state
from app.wording import plain


def follow(chart: str, writes: Callable[[list[Any]], dict[str, str]]) -> Callable[[], None]:
    """For ``page.chart(on_select=...)``: what ``writes`` makes of a mark's ``customdata`` goes into the address."""

    def write() -> None:
        points = st.session_state[chart].selection.points
        if points and points[0].get("customdata") is not None:
            url_state.choose(**writes(values(points[0]["customdata"])))

    return write


def values(customdata: Any) -> list[Any]:
    """A row of numbers is sent as a typed array and arrives as ``{"0": 3, "1": 7}``; one value arrives bare."""
    if hasattr(customdata, "values"):
        return list(customdata.values())
    return list(customdata) if isinstance(customdata, list | tuple) else [customdata]


def look_inside(view: View) -> None:
    """Any run of the comparison, and in it the client that was clicked last."""
    titles = {"": "a run"} | {
        str(run.id): f"{method.name}, seed {run.seed}" for method in view.methods for run in method.runs
    }
    with st.container(horizontal=True, vertical_alignment="bottom", key="look_inside"):
        run_id = url_state.pick("Look inside", titles, "inside", "")
        if run_id:
            client = chosen_client(view)
            of = f"client {client} of " if client is not None else ""
            page.link("run", plain(f"Open {of}{titles[run_id]}"), id=run_id, client=client)


def client_links(view: View, names: list[str], client: int | None) -> None:
    """The same client in the first run of each of the methods."""
    first = {method.name: method.runs[0] for method in view.methods}
    for name in names if client is not None else []:
        run = first[name]
        page.link("run", plain(f"Client {client} in {name}, seed {run.seed}"), id=run.id, client=client)


def chosen_client(view: View) -> int | None:
    """``?client=3``, of the first run's clients."""
    numbers = [str(i) for i in range(int(view.clients()["client"].max()) + 1)] if len(view.clients()) else []
    chosen = url_state.value("client", numbers, "")
    return int(chosen) if chosen else None
