"""Widgets whose values are mirrored in the page's address."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import streamlit as st

from app.state import controls, url_state, visit

T = TypeVar("T")


def switch(label: str, titles: Mapping[str, str], name: str, default: str, *, is_labeled: bool = True) -> str:
    """Draw a row of buttons, one of them pressed. Screen readers read the label even if it is not shown."""
    at = _choice(name, titles, default)
    st.segmented_control(
        label,
        list(titles),
        format_func=titles.__getitem__,
        key=at.key,
        required=True,
        label_visibility="visible" if is_labeled else "collapsed",
    )
    return at.value


def pick(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """Draw a list to pick one option from."""
    at = _choice(name, titles, default)
    st.selectbox(label, list(titles), format_func=titles.__getitem__, key=at.key)
    return at.value


def slide(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """Draw a slider over ordered options."""
    at = _choice(name, titles, default)
    st.select_slider(label, list(titles), format_func=titles.__getitem__, key=at.key)
    return at.value


def toggle(label: str, name: str, **options: Any) -> bool:
    """Draw a switch, off by default."""
    at = control(name, False, lambda text: text == "true" or None, lambda _: "true")
    st.toggle(label, key=at.key, **options)
    return at.value


def control(
    name: str,
    default: T,
    parse: Callable[[str], T | None],
    text: Callable[[T], str],
    titles: Mapping[Any, str] | None = None,
) -> controls.Control[T]:
    """Return the control for a widget whose value the address mirrors. ``parse`` returns None for an invalid text."""

    def choose(value: T) -> None:
        visit.current().choose(name, None if value == default else text(value))

    chosen = url_state.get(name)
    parsed = None if chosen is None else parse(chosen)
    value = default if parsed is None else parsed
    choose(value)
    return controls.show(name, controls.Control(f"address_{name}", value, titles, choose))


def key(
    name: str,
    shown: T,
    act: Callable[[T], object],
    titles: Mapping[Any, str] | None = None,
    *,
    in_popover: bool = False,
) -> str:
    """Return the key for a widget that shows ``shown`` and passes a pressed value to ``act``.

    ``titles`` are the titles of its options. The browser draws a widget inside a popover only when the popover opens,
    and reports the old value until then. Such a widget therefore gets a new key when the program changes its value, and
    the caller has to pass ``shown`` as the widget's default.
    """
    return controls.show(name, controls.Control(name, shown, titles, act), in_popover).key


def _choice(name: str, titles: Mapping[str, str], default: str) -> controls.Control[str]:
    chosen = url_state.value(name, titles, default)
    return control(name, default, lambda _: chosen, str, titles)
