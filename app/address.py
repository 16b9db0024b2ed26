"""Choices that live in the address, so that every view is a link. The address holds values, not what they are called.

The default leaves no trace in the address; a value the address names and the page doesn't know is the default.
"""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

Control = Callable[..., object]


def value(name: str, allowed: Sequence[str] | Mapping[str, str], default: str) -> str:
    """What the address says of ``name``."""
    said = st.query_params.get(name, default)
    return said if said in allowed else default


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
    key = f"address_{name}"
    said = value(name, titles, default)
    st.session_state[key] = said
    control(
        label,
        list(titles),
        format_func=titles.__getitem__,
        key=key,
        on_change=_write,
        args=(name, key, default),
        **options,
    )
    return said


def _write(name: str, key: str, default: str) -> None:
    said = st.session_state[key]
    if said is None or said == default:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = said
