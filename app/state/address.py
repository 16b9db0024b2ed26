"""Choices that live in the address, so that every view is a link. The address holds values, not what they are called.

The default leaves no trace in the address; a value the address names and the page doesn't know is the default.
"""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app.state import browser

Control = Callable[..., object]

LARGEST_ID = 2**63 - 1  # what a database counts to
MOST_IDS = 10_000  # what a database takes in one question


def value(name: str, allowed: Sequence[str] | Mapping[str, str], default: str) -> str:
    """What the address says of ``name``."""
    browser.settle()
    said = st.query_params.get(name, default)
    return said if said in allowed else default


def ids(name: str) -> list[int]:
    """``?runs=3,5`` as numbers."""
    browser.settle()
    return parse_ids(st.query_params.get(name, ""))


def parse_ids(text: str) -> list[int]:
    """``3,5``, each once; whatever can be the number of nothing is passed over."""
    parts = (part.strip() for part in text.split(","))
    numbers = (int(part) for part in parts if part.isdecimal() and len(part) <= len(str(LARGEST_ID)))
    return list(dict.fromkeys(n for n in numbers if n <= LARGEST_ID))[:MOST_IDS]


def switch(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """A row of buttons, one of them pressed."""
    return _control(st.segmented_control, label, titles, name, default, required=True)


def pick(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """One of many."""
    return _control(st.selectbox, label, titles, name, default)


def slide(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """One of an ordered row."""
    return _control(st.select_slider, label, titles, name, default)


def _control(
    control: Control, label: str, titles: Mapping[str, str], name: str, default: str, **options: object
) -> str:
    key, said = f"address_{name}", value(name, titles, default)
    browser.show(key, said, titles)
    control(
        label,
        list(titles),
        format_func=titles.__getitem__,
        key=key,
        on_change=browser.pressed,
        args=(key, lambda: _write(name, key, default)),
        **options,
    )
    return said


def _write(name: str, key: str, default: str) -> None:
    said = st.session_state[key]
    browser.put(**{name: None if said == default else said})
