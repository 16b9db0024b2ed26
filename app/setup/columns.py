"""The roles of a table's columns, chosen from those that it has."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.data.pools import columns_of
from app.forms import Form, label_of
from app.wording import plain
from engine.core.registry import DATASETS, Parameter

LABEL, CLIENT = "label", "client"


def fields(form: Form, path: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Draws the options of a table. If the file is no table or cannot be read, the options stay as they are."""
    names = columns_of(path) if isinstance(path, str) else None
    if names is None:
        return {role: values[role] for role in (LABEL, CLIENT) if values.get(role) is not None}
    options = {p.name: p for p in DATASETS.get("custom").parameters}
    left, right = st.columns(2, gap="medium")
    with left:
        label = _column(form, options[LABEL], values, names, "Choose a column")
    with right:
        client = _column(form, options[CLIENT], values, names, CLIENT if CLIENT in names else "none")
    return {role: name for role, name in ((LABEL, label), (CLIENT, client)) if name is not None}


def _column(form: Form, parameter: Parameter, values: Mapping[str, Any], names: tuple[str, ...], empty: str) -> Any:
    """One column, which may have come from a link or from another table and be missing here."""
    key, given = f"{form.prefix}.dataset.custom.{parameter.name}.column", values.get(parameter.name, parameter.default)
    form.start(key, given if given in names or given != parameter.default else None)
    chosen = st.session_state[key]
    column = st.selectbox(
        plain(label_of(parameter)),
        list(dict.fromkeys([*names, *([] if chosen is None else [chosen])])),
        index=None,
        key=key,
        format_func=str,
        placeholder=empty,
        help=plain(parameter.description),
    )
    form.placeholder(f"dataset.{parameter.name}")
    return column
