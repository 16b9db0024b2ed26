"""The section Dials of Set up: settings that act on uploads, whatever the method, each off until switched on."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.data.entry_text import text_of
from app.forms import Form, changes, kept
from app.setup import sweeps
from app.setup.dial_options import options_of
from app.setup.sections import first_level, pick
from app.setup.sweep_fields import Sweeps
from app.setup.switch import switch
from app.wording import capital, plain
from engine.config.schema import DIAL_KEYS, DIALS, OPTION_DIALS

LEAD = "Settings for all methods, each off until you switch it on."
MEANINGS = {
    "attack": "Some clients are malicious: they train on wrong labels or send false updates.",
    "aggregator": "A robust rule replaces the mean of the updates that arrive.",
    "compression": "Clients send their updates in fewer bytes.",
}
FIRST = {"attack": "labels", "aggregator": "median", "compression": "top_k"}  # what a dial starts with


def dials_section(form: Form, draft: Mapping[str, Any], swept: Sweeps) -> dict[str, dict[str, Any]]:
    """The dials that are on."""
    st.header("Dials", anchor=False)
    st.caption(LEAD)
    drawn = {dial: _dial(form, dial, draft.get(dial), swept) for dial in DIAL_KEYS}
    return {dial: values for dial, values in drawn.items() if values is not None}


def meaning(dial: str) -> str:
    """One sentence about a dial; for a dial without kinds, the first sentence of its docstring."""
    return MEANINGS[dial] if dial in DIALS else first_sentence(OPTION_DIALS[dial].__doc__ or "")


def first_sentence(docstring: str) -> str:
    first, stop, _ = " ".join(docstring.split()).partition(". ")
    return first + stop.strip()


def _dial(form: Form, dial: str, given: Mapping[str, Any] | None, swept: Sweeps) -> dict[str, Any] | None:
    with st.container(key=f"{form.prefix}.{dial}.card", gap="xsmall"):
        if not switch(capital(dial), meaning(dial), **form.start(f"{form.prefix}.{dial}.on", given is not None)):
            swept.drop(f"{dial}.")
            return None
        return settings(form, dial, given, swept, dial, dial)


def settings(
    form: Form, dial: str, given: Mapping[str, Any] | None, swept: Sweeps, path: str, key: str
) -> dict[str, Any]:
    """The fields of a dial that is on, at its ``path`` in the configuration."""
    if dial in DIALS:
        return _kind(form, dial, given or first(dial), swept, path, key)
    form.placeholder(path)
    return _fields(form, dial, given or first(dial), swept, path, key)


def first(dial: str) -> dict[str, Any]:
    """What a dial starts with when it is switched on."""
    return {"name": FIRST[dial]} if dial in DIALS else {}


def _kind(form: Form, dial: str, given: Mapping[str, Any], swept: Sweeps, path: str, key: str) -> dict[str, Any]:
    """A dial that is one of several kinds, with the options of this one."""
    registry = DIALS[dial]
    name = pick(form, registry, given["name"], f"Kind of {dial}", path, key=f"{key}.name")
    if name != given["name"]:
        swept.drop(f"{dial}.")
        given = {"name": name}
    st.caption(plain(text_of(registry.get(name)).summary))
    form.placeholder(path)  # below the text, not above it
    return {"name": name, **_fields(form, dial, given, swept, path, key)}


def _fields(form: Form, dial: str, values: Mapping[str, Any], swept: Sweeps, path: str, key: str) -> dict[str, Any]:
    """The options of a dial; rarely changed ones are in a collapsed section."""
    options = options_of(dial, values)
    own_key = f"{key}.{values['name']}" if dial in DIALS else key
    how: dict[str, Any] = {"key": own_key, "draw": swept.draw(f"{dial}.")}
    chosen = form.options(options, values, path, only=first_level(options), **how)
    if not options.advanced:
        return chosen
    own = [name.removeprefix(f"{dial}.") for name in swept.given if name.startswith(f"{dial}.")]
    set_here = {name: value for name, value in values.items() if name not in own}
    changed = changes(options, set_here, options.advanced)
    changed += [sweeps.in_words(name, options) for name in own if name in options.advanced]
    more = form.expander("More", key, changed, "compact")
    if not form.is_open(key):
        hidden = [f"{dial}.{name}" for name in own if name in options.advanced]
        swept.values |= {name: swept.given[name] for name in hidden}
        return chosen | kept(options, values, options.advanced)
    with more:
        return chosen | form.options(options, values, path, only=options.advanced, **how)
