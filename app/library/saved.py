"""Views: the page's choices under a name, each a link. Two come with the product."""

import html
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from app import wording
from app.data import queries
from app.library.flash import Offer, Said, attempt
from app.state import links, url_state

PAGE = "library"
CHOICES = ("q", "status", "method", "dataset", "when", "from", "to", "archived", "group", "sort")
SHIPPED = {"Failed or diverged": "status=failed,diverged", "Still to run": "status=queued,running,paused"}
NAME = "library_view_name"
LONGEST = 60


def bar() -> None:
    """A link a view, and what keeps the present one."""
    saved = {view.name: view.query for view in queries.store().saved_views.list(PAGE)}
    now = asked(url_state.address())
    with st.container(horizontal=True, vertical_alignment="center", key="library_views"):
        st.html(navigation({"All runs": "", **SHIPPED, **saved}, now))
        with st.popover("Save view", key="view"):
            keep(now, saved)


def navigation(views: Mapping[str, str], now: str) -> str:
    """Plain links: a link of Streamlit's to the page one is on leaves its controls as they are."""
    items = []
    for name, query in views.items():
        address = html.escape(links.link(PAGE, **dict(parse_qsl(query))))
        current = ' aria-current="page"' if asked(dict(parse_qsl(query))) == now else ""
        items.append(f'<li><a href="{address}" target="_self"{current}>{html.escape(name)}</a></li>')
    return f'<nav class="views" aria-label="Views"><ul>{"".join(items)}</ul></nav>'


def keep(now: str, saved: Mapping[str, str]) -> None:
    """The present choices under a name; and what has one already."""
    if now:
        st.text_input(
            "Name of this view",
            key=NAME,
            max_chars=LONGEST,
            placeholder="Ditto on digits, best first",
        )
        st.button("Save", key="save_view", type="primary", on_click=lambda: attempt(save, st.session_state[NAME], now))
        st.caption(wording.plain(f"Kept with it: {', '.join(f'{k} {v}' for k, v in parse_qsl(now))}."))
    else:
        st.caption("Filter, sort or group the runs first: a view keeps these choices under a name.")
    for name in saved:
        st.button(
            f"Delete “{wording.plain(name)}”",
            key=f"delete_view_{name}",
            type="tertiary",
            on_click=attempt,
            args=(delete, name),
        )


def asked(query: Mapping[str, str]) -> str:
    """The choices of an address that make up a view, always in one order."""
    return urlencode([(name, query[name]) for name in CHOICES if query.get(name)], safe=",")


def save(name: str, query: str) -> Said:
    name = " ".join(name.split())
    if not name or name in SHIPPED:
        return Said(
            wording.plain(f"“{name}” comes with the product." if name else "A view needs a name.")
            + " Write another name, then press Save.",
            "error",
        )
    views = queries.store().saved_views
    before = {view.name: view.query for view in views.list(PAGE)}.get(name)
    views.save(PAGE, name, query)
    if before in (None, query):
        return Said(f"Saved the view “{wording.plain(name)}”.")
    return Said(f"Replaced the view “{wording.plain(name)}”.", offers=(Offer("Undo", save, (name, before)),))


def delete(name: str) -> Said:
    views = queries.store().saved_views
    query = next((view.query for view in views.list(PAGE) if view.name == name), None)
    if query is None:
        return Said(f"The view “{wording.plain(name)}” is not here any more.", "info")
    views.delete(PAGE, name)
    return Said(f"Deleted the view “{wording.plain(name)}”.", offers=(Offer("Undo", save, (name, query)),))
