"""The own dials of a method in Set up: those in which it differs from the experiment."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import streamlit as st

from app.forms import Form
from app.setup import dials
from app.setup.dial_options import is_same, is_unusable, options_of, whole
from app.setup.sweep_fields import Sweeps
from app.wording import capital
from engine.config.schema import DIAL_KEYS, OPTION_DIALS


def own_dials(
    form: Form, path: str, key: str, entry: Mapping[str, Any], experiment: Mapping[str, Any], swept: Sweeps
) -> dict[str, dict[str, Any] | None]:
    """The dials that a method sets itself, None for one that is off; unchanged ones as they were given."""
    chosen = st.multiselect(
        "Dials for this method only",
        list(DIAL_KEYS),
        placeholder="same as all methods",
        format_func=capital,
        **form.start(f"{form.prefix}.{key}.dials", [dial for dial in DIAL_KEYS if dial in entry]),
    )
    for dial in DIAL_KEYS:
        if dial in entry and dial not in chosen:
            swept.drop(f"{dial}.")
    return {dial: _own(form, dial, f"{path}.{dial}", key, entry, experiment, swept) for dial in chosen}


def _own(
    form: Form,
    dial: str,
    path: str,
    key: str,
    entry: Mapping[str, Any],
    experiment: Mapping[str, Any],
    swept: Sweeps,
) -> Any:
    shared = experiment.get(dial)
    given = whole(dial, entry, experiment) if dial in entry else (shared or dials.first(dial))
    # A dial that changes single keys follows the experiment in the others: its fields are reset when those change.
    key = f"{key}.{dial}.{sha256(repr(shared).encode()).hexdigest()[:8]}"
    with st.container(gap="xsmall"):
        if not st.toggle(f"{capital(dial)} on", **form.start(f"{form.prefix}.{key}.on", given is not None)):
            swept.drop(f"{dial}.")
            form.placeholder(path)
            return None
        if is_unusable(dial, given):
            swept.drop(f"{dial}.")
        drawn = dials.settings(form, dial, given, swept, path, key)
    if dial in entry and given is not None and not is_unusable(dial, given) and is_same(dial, drawn, given):
        return entry[dial]
    # The experiment's other keys would be added to those of an entry, unless it empties them.
    unset = [name for name in shared or {} if name not in drawn] if dial in OPTION_DIALS else []
    return dict.fromkeys(unset) | drawn


def swept_options(own: Mapping[str, Any], experiment: Mapping[str, Any]) -> set[str]:
    """``privacy.noise`` and the other options of dials that a method sets, as its sweep names them."""
    values = {dial: whole(dial, own, experiment) for dial in own}
    usable = {dial: given for dial, given in values.items() if given is not None and not is_unusable(dial, given)}
    return {f"{dial}.{name}" for dial, given in usable.items() for name in options_of(dial, given).model_fields}
