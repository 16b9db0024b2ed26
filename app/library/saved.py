"""Views: the page's choices under a name, each a link. Two are built in."""

import html
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from app import wording
from app.access import permits
from app.data import queries
from app.library.flash import Notice, Offer, attempt
from app.state import links, url_state

PAGE = "library"
CHOICES = ("q", "status", "method", "dataset", "when", "from", "to", "archived", "group", "sort")
SHIPPED = {"Failed or diverged": "status=failed,diverged", "Unfinished": "status=queued,running,paused"}
NAME = "library_view_name"
MAX_NAME_LENGTH = 60


def bar() -> None:
    """A link per view, and a popover to save the current one."""
    saved = {view.name: view.query for view in queries.store().saved_views.list(PAGE)}
    now = view_query(url_state.address())
    with st.container(horizontal=True, vertical_alignment="center", key="library_views"):
        st.html(navigation({"All runs": "", **SHIPPED, **saved}, now))
        if not permits.refusal("views"):
            with st.popover("Save view", key="view"):
                keep(now, saved)


def navigation(views: Mapping[str, str], now: str) -> str:
    """Plain links: a Streamlit link to the current page would not reset its controls."""
    items = []
    for name, query in views.items():
        address = html.escape(links.link(PAGE, **dict(parse_qsl(query))))
        current = ' aria-current="page"' if view_query(dict(parse_qsl(query))) == now else ""
        items.append(f'<li><a href="{address}" target="_self"{current}>{html.escape(name)}</a></li>')
    return f'<nav class="views" aria-label="Views"><ul>{"".join(items)}</ul></nav>'


def keep(now: str, saved: Mapping[str, str]) -> None:
    """Save the current choices under a name, or delete saved views."""
    if now:
        st.text_input(
            "View name",
            key=NAME,
            max_chars=MAX_NAME_LENGTH,
            placeholder="Ditto on digits, best first",
        )
        st.button("Save", key="save_view", type="primary", on_click=lambda: attempt(save, st.session_state[NAME], now))
        st.caption(wording.plain(f"Saved choices: {', '.join(f'{k} {v}' for k, v in parse_qsl(now))}."))
    else:
        st.caption("Filter, sort or group the runs first; a view saves these choices under a name.")
    for name in saved:
        st.button(
            f"Delete “{wording.plain(name)}”",
            key=f"delete_view_{name}",
            type="tertiary",
            on_click=attempt,
            args=(delete, name),
        )


def view_query(query: Mapping[str, str]) -> str:
    """The choices of an address that a view stores, in a fixed order."""
    return urlencode([(name, query[name]) for name in CHOICES if query.get(name)], safe=",")


def save(name: str, query: str) -> Notice:
    name = " ".join(name.split())
    if not name or name in SHIPPED:
        return Notice(
            wording.plain(
                f"“{name}” is a built-in view. Enter another name." if name else "Enter a name for the view."
            ),
            "error",
        )
    views = queries.store().saved_views
    before = {view.name: view.query for view in views.list(PAGE)}.get(name)
    with permits.allow("views", queries.store(), "Save view", of=[name]):
        views.save(PAGE, name, query)
    if before in (None, query):
        return Notice(f"Saved the view “{wording.plain(name)}”.")
    return Notice(f"Replaced the view “{wording.plain(name)}”.", offers=(Offer("Undo", save, (name, before)),))


def delete(name: str) -> Notice:
    views = queries.store().saved_views
    query = next((view.query for view in views.list(PAGE) if view.name == name), None)
    if query is None:
        return Notice(f"The view “{wording.plain(name)}” no longer exists.", "info")
    with permits.allow("views", queries.store(), "Delete view", of=[name]):
        views.delete(PAGE, name)
    return Notice(f"Deleted the view “{wording.plain(name)}”.", offers=(Offer("Undo", save, (name, query)),))
