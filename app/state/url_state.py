"""Choices of a page, mirrored in its address, so that every view is a link.

The widget has the choice and the address mirrors it. A page reads its address when it opens: at its first run, by a
link, or by Back and Forward. In any other run, the address that the browser reports may be older than the last choice,
so it is ignored, and written again at the end of the run.

Default values are not written into the address, so a link follows a default that changes later. Unknown values in the
address count as the default.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from types import MappingProxyType
from typing import ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.state import controls, fragments
from app.state.links import parse_ids
from app.state.visit import Visit, current, start

KEPT_ON_LINKS = ("presenting",)  # choices that a link to another view keeps

P = ParamSpec("P")
_is_drawing = ContextVar("is_drawing", default=False)  # per thread: every run of a page has its own


@contextmanager
def page(name: str) -> Iterator[None]:
    """Enclose everything that a page draws. Nested calls, as when the shell runs a page, have no effect.

    Raises StorageError or PluginBroken, also those of fragments.
    """
    if _is_drawing.get():
        yield
        return
    if _has_arrived(name):
        _arrive(name)
    fragments.begin_page()
    try:
        with _run():
            visit = current()
            visit.drawn, visit.is_drawn = {}, False
            yield
            controls.keep(visit.drawn)
            visit.is_drawn = True
    except fragments.CannotBeDrawn as stop:
        raise stop.error from stop


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """``fragments.fragment`` for a part of a page that contains controls."""

    @fragments.fragment
    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        with nullcontext() if _is_drawing.get() else _run():
            draw(*args, **kwargs)

    return drawn


def address() -> Mapping[str, str]:
    """Return all choices of this visit by name, as written in the address. The mapping follows later choices."""
    return MappingProxyType(current().choices)


def has_arrived() -> bool:
    """Whether the page has read its address since the last ``take_arrival``."""
    return current().is_new


def take_arrival() -> None:
    """Call it when the page has done what its address asks for."""
    current().is_new = False


def is_history() -> bool:
    """Whether the reader came by Back or Forward."""
    return current().is_history


def choose(**choices: str | None) -> None:
    """Make these choices, and let their controls show them. None restores the default."""
    for name, text in choices.items():
        if name in controls.by_name():
            controls.by_name()[name].holds = False
        current().choose(name, text)


def get(name: str) -> str | None:
    """Return the choice, None if it is the default."""
    return current().choices.get(name)


def value(name: str, allowed: Sequence[str] | Mapping[str, str], default: str) -> str:
    """Return the choice, or ``default`` if it is not in ``allowed``."""
    chosen = get(name)
    return chosen if chosen is not None and chosen in allowed else default


def ids(name: str) -> list[int]:
    """Return ``?runs=3,5`` as numbers."""
    return parse_ids(get(name) or "")


def is_back_or_forward() -> bool:
    """Whether Back or Forward in the browser started this run."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


@contextmanager
def _run() -> Iterator[None]:
    """Act on presses, let the page or one of its fragments be drawn, and write its choices into the address."""
    controls.settle()
    _publish()  # before the result of a press is drawn
    token = _is_drawing.set(True)
    try:
        yield
        _publish()
    finally:
        _is_drawing.reset(token)


def _publish() -> None:
    """Write every choice that is not the default into the address."""
    visit = current()
    if visit.choices != st.query_params.to_dict():
        st.query_params.from_dict(visit.choices)
    if visit.choices != visit.known[-1]:
        visit.known.append(dict(visit.choices))


def _has_arrived(name: str) -> bool:
    """Whether the browser, not this program, has changed the address."""
    visit = current()
    return visit.page != name or is_back_or_forward() or st.query_params.to_dict() not in visit.known


def _arrive(name: str) -> None:
    """Read the address."""
    for known, control in controls.by_name().items():
        if control.holds and known in KEPT_ON_LINKS:
            control.act(control.now)  # it may have been pressed together with the link
        control.holds = False
    if current().page != name:  # another page has other widgets, even under the same keys; only the shell's stay
        controls.keep(dict.fromkeys(one for one in KEPT_ON_LINKS if one in controls.by_name()))
    here, is_history, before = st.query_params.to_dict(), is_back_or_forward(), current().page
    choices = dict(here)
    if before and not is_history:
        lasting = {one: get(one) for one in KEPT_ON_LINKS}
        choices = {one: text for one, text in (here | lasting).items() if text is not None}
    start(Visit(name, choices, [here], is_history=is_history))
    # After a link within a page, the browser waits for the address. After one to another page, it is still at the last
    # page, of which Back would find this address.
    if before == name or choices != here:
        st.query_params.from_dict(choices)
