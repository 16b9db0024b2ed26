"""The chosen clients, which are highlighted in every chart of Compare that shows clients.

Box selections and clicks in charts, a list and a button all write the same choice, ``?client=3,7,12``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.compare.view import View
from app.state import links, url_state, widgets
from app.state.choice import Choices
from app.wording import names, plain, plural
from engine.metrics import tail_size

NAME = "client"
LOWEST = 0.1
MAX_NAMED = 12


def chosen(view: View, choices: Choices | None = None) -> tuple[int, ...]:
    """The clients in the address, or in ``choices``, that are part of the comparison."""
    text = url_state.get(NAME) if choices is None else choices.get(NAME)
    known = set(numbers(view))
    return tuple(sorted(client for client in links.parse_ids(text or "") if client in known))


def numbers(view: View) -> list[int]:
    """All clients with an accuracy."""
    return view.keep("client numbers", lambda: sorted(map(int, view.clients().dropna()["client"].unique())))


def accuracies(view: View, clients: Sequence[int]) -> pd.DataFrame | None:
    """[method, client, accuracy, samples] of these clients: means over runs; None without clients."""
    if not clients:
        return None
    own = view.clients().dropna(subset=["accuracy"])
    own = own[own["client"].isin(clients)]
    return own.groupby(["method", "client"], as_index=False, sort=False).agg(
        accuracy=("accuracy", "mean"), samples=("test_size", "sum")
    )


def lowest(view: View, method: str) -> list[int]:
    """The tenth of the clients with the lowest accuracy under a method, mean over its runs."""
    own = view.clients().dropna(subset=["accuracy"])
    means = own[own["method"] == method].groupby("client")["accuracy"].mean().sort_values(kind="stable")
    return [int(client) for client in means.index[: tail_size(len(means), LOWEST)]]


def choose(clients: Iterable[int]) -> None:
    """Makes this the choice, in order."""
    url_state.choose(**{NAME: ",".join(map(str, sorted(set(clients)))) or None})


def selected(chart: str) -> list[Any]:
    """The points that a reader has selected in a chart, as their ``customdata``."""
    points = st.session_state[chart].selection.points
    return [values(point["customdata"]) for point in points if point.get("customdata") is not None]


def values(customdata: Any) -> list[Any]:
    """A row of numbers is sent as a typed array and arrives as ``{"0": 3, "1": 7}``; one value arrives bare."""
    if hasattr(customdata, "values"):
        return list(customdata.values())
    return list(customdata) if isinstance(customdata, list | tuple) else [customdata]


def by_selection(chart: str, clients_of: Callable[[list[Any]], Iterable[int]]) -> Callable[[], None]:
    """A callback for ``page.show(on_select=...)`` that chooses the clients of the selected points."""

    def write() -> None:
        if points := selected(chart):
            choose(client for point in points for client in clients_of(point))

    return write


def picker(view: View, method: str) -> None:
    """A list of all clients for the keyboard, a button for the lowest of ``method``, and the current choice."""
    here = list(chosen(view))
    titles = {client: f"Client {client}" for client in numbers(view)}
    with st.popover("Choose clients", width="content", key="choose_clients"):
        st.button(f"Lowest {100 * LOWEST:g} % under {plain(method)}", on_click=choose, args=(lowest(view, method),))
        st.multiselect(
            "Clients to follow",
            list(titles),
            here,
            titles.__getitem__,
            placeholder="None",
            key=widgets.key("chosen_clients", here, choose, titles, in_popover=True),
        )
        st.caption(
            "Or in a chart: drag across the cumulative chart; click a mark or a bar of Clients, or drag around several "
            "with the chart's Box Select."
        )
    if here:
        st.markdown(f"{plural(len(here), 'client')} chosen: {names(map(str, here), MAX_NAMED)}", width="content")
        st.button("Clear", type="tertiary", key="clear_clients", on_click=choose, args=((),))
