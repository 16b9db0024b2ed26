"""The section Tuning of Set up, which makes a fair study of the experiment, and what a study tunes of each method."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.forms import Form, changes, in_words, kept, listed, name_in_words, parameters_of
from app.setup import draft as drafts
from app.setup.sections import first_level
from app.setup.sweeps import OF_TRAINING, PARAMETERS
from engine.config.study import declared_spaces
from engine.config.tune import Tune
from engine.core.registry import Options
from engine.core.spaces import Space, names_of

LABEL = (
    "**Tune all methods alike** · Each gets the same number of settings, chosen on validation data. Only the final "
    "runs, with fresh seeds, are evaluated on test data."
)
NOT_USED = "Not used, since the budget is in gradients."


def tuning_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a study; None if methods run as written."""
    st.header("Tuning", anchor=False)
    with st.container(key=f"{form.prefix}.tune.card", gap="xsmall"):
        given, state = draft.get("tune"), f"{form.prefix}.tune.on"
        st.toggle(LABEL, **form.start(state, given is not None), on_change=_switch, args=(form.prefix,))
        if given is None:
            return None
        form.placeholder("tune")
        chosen = form.options(Tune, given, "tune", only=first_level(Tune))
        more = form.expander("More", "tune", changes(Tune, given, Tune.advanced), "compact")
        if form.is_open("tune"):
            with more:
                chosen |= form.options(Tune, given, "tune", only=Tune.advanced)
        else:
            chosen |= kept(Tune, given, Tune.advanced)
    if "gradients" in chosen:
        form.note("tune.trials", [NOT_USED])
        del chosen["trials"]
    defaults = {p.name: listed(p.default) for p in parameters_of(Tune)}
    return {name: value for name, value in chosen.items() if name == "trials" or listed(value) != defaults[name]}


class Tuned:
    """What a study tunes of one method, and which of its options stay as they are set."""

    def __init__(self, options: type[Options], entry: Mapping[str, Any]) -> None:
        """``entry`` is the method in the draft: what it sets or sweeps is not tuned."""
        self._parameters = {p.name: p for p in parameters_of(options)}
        own, swept = _own(entry), entry.get("sweep") or {}
        self._spaces = {} if own == {} else declared_spaces(options) | (own or {})
        self.options = [name for name in self._spaces if name in self._parameters]
        self.fixed = [name for name in self.options if name in entry or name in swept]
        of_training = {f"{OF_TRAINING}{name}" for name in entry.get("training") or {}} | set(swept)
        self._fixed_training = [name for name in self._spaces if name in of_training]
        self._entry = entry

    @property
    def in_words(self) -> str:
        """``Tuned: learning rate, 0.001 to 0.5 (log); λ, 0.01 to 10 (log). Not tuned: p 0.2.``"""
        fixed = {*self.fixed, *self._fixed_training}
        tuned = [f"{self.name(n)}, {self._spaces[n].in_words}" for n in names_of(self._spaces) if n not in fixed]
        found = f"Tuned: {'; '.join(tuned)}." if tuned else "Nothing is tuned: all trials of this method are equal."
        values = {name: self._entry[name] for name in self.fixed if name in self._entry}
        kept_as = [in_words(self._parameters[name], value) for name, value in values.items()]
        return f"{found} Not tuned: {', '.join(kept_as)}." if kept_as else found

    def name(self, option: str) -> str:
        known = self._parameters.get(option) or PARAMETERS.get(option)
        return name_in_words(known) if known else option.replace("_", " ")


def _own(entry: Mapping[str, Any]) -> dict[str, Space] | None:
    """The method's own search spaces. Invalid ones are left out; the engine reports them."""
    if not isinstance(entry.get("tune"), Mapping):
        return None
    found = {}
    for name, raw in entry["tune"].items():
        try:
            found[str(name)] = Space.of(raw)
        except ValueError:
            continue
    return found


def _switch(prefix: str) -> None:
    """Make a study of the draft, with what it needs, or a plain experiment again."""
    if st.session_state[f"{prefix}.tune.on"]:
        drafts.begin_study(prefix)
    else:
        drafts.end_study(prefix)
