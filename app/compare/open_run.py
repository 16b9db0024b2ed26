"""Links from the comparison to its runs: a list or a click selects a run, a link opens it."""

from collections.abc import Sequence

import streamlit as st

from app.compare.chosen_clients import chosen
from app.compare.view import View
from app.components import page
from app.state import widgets
from app.wording import plain

MAX_LINKED = 3  # clients


def look_inside(view: View) -> None:
    """Any run of the comparison, and in it the first of the chosen clients."""
    titles = {"": "choose"} | {
        str(run.id): f"{method.name}, {run.seeds_in_words}" for method in view.methods for run in method.runs
    }
    run_id = widgets.pick("Open a run", titles, "inside", "")
    if run_id:
        client = next(iter(chosen(view)), None)
        of = f"client {client} of " if client is not None else ""
        page.link("run", plain(f"Open {of}{titles[run_id]}"), id=run_id, client=client)


def client_links(view: View, names: Sequence[str], clients: Sequence[int]) -> None:
    """The clients in the first run of each of the methods."""
    first = {method.name: method.runs[0] for method in view.methods}
    if not clients:
        return
    with st.container(horizontal=True, key="client_links"):
        for client in clients[:MAX_LINKED]:
            for name in names:
                run = first[name]
                page.link("run", plain(f"Client {client} in {name}, {run.seeds_in_words}"), id=run.id, client=client)
