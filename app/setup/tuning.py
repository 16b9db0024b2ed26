"""The section Tuning of Set up, which makes a fair study of the experiment, and what a study tunes of each method."""

from collections.abc import Collection, Mapping
from typing import Any

import streamlit as st

from app.forms import Form, changes, in_words, kept, listed, name_in_words, parameters_of, read_value, when_changed
from app.setup import draft as drafts
from app.setup.sections import first_level
from app.setup.sweeps import OF_TRAINING, PARAMETERS
from app.setup.switch import switch
from app.wording import plain
from engine.config.study import declared_spaces
from engine.config.tune import Tune
from engine.core.errors import cut
from engine.core.registry import Options
from engine.core.spaces import SCALES, Space, names_of

LABEL = "Tune all methods alike"
MEANING = (
    "Tries the same number of settings for each method and selects the best on validation "
    "data. Only the final runs, with new seeds, are evaluated on test data."
)
NOT_USED = "Not used, since the budget is in gradients."
MAX_LETTERS = 40  # of a name in a label
RANGE = f"Low, high and scale ({', '.join(SCALES)}), or a list of values. Empty: the declared range."


def tuning_section(form: Form, draft: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a study; None if methods run as written."""
    st.header("Tuning", anchor=False)
    with st.container(key=f"{form.prefix}.tune.card", gap="xsmall"):
        given, state = draft.get("tune"), f"{form.prefix}.tune.on"
        switch(LABEL, MEANING, **form.start(state, given is not None), **when_changed(state, _switch, form.prefix))
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


def range_fields(form: Form, path: str, key: str, tuned: "Tuned", fixed: Collection[str]) -> dict[str, Any]:
    """A field for the search space of each tuned option but those in ``fixed``; returns those that are not declared."""
    names = [name for name in tuned.written if name not in fixed]
    found = {}
    for place, name in enumerate(names):
        if place % 2 == 0:
            cells = st.columns(2, gap="medium")
        with cells[place % 2]:
            given = listed(tuned.written[name])
            label = f"Range of {cut(tuned.name(name), MAX_LETTERS)}"
            typed = form.text(plain(label), given, f"{path}.tune.{name}", key=f"{key}.range.{name}", help=RANGE)
            if typed.strip() and read_value(typed) != tuned.declared.get(name):
                found[name] = read_value(typed)
    return found


class Tuned:
    """What a study tunes of one method, and which of its options stay as they are set."""

    def __init__(self, options: type[Options], entry: Mapping[str, Any]) -> None:
        """``entry`` is the method in the draft: what it sets or sweeps is not tuned."""
        self._parameters = {p.name: p for p in parameters_of(options)}
        given = {name: value for name, value in entry.items() if name in options.model_fields}
        untuned = options.model_construct(**given).untuned
        swept = entry.get("sweep") or {}
        declared = {name: space for name, space in declared_spaces(options).items() if name not in untuned}
        self._is_off = entry.get("tune") == {}
        self._spaces = {} if self._is_off else declared | _own(entry)
        self.declared = {name: space.to_list() for name, space in declared.items()}
        self.options = [name for name in self._spaces if name in self._parameters]
        self.fixed = [name for name in self.options if name in entry or name in swept]
        of_training = {f"{OF_TRAINING}{name}" for name in entry.get("training") or {}} | set(swept)
        self._fixed_training = [name for name in self._spaces if name in of_training]
        self._entry = entry

    @property
    def written(self) -> dict[str, Any]:
        """The search space of each tuned option as the entry or its method declares it, also one that is invalid."""
        if self._is_off:
            return {}
        found = self.declared | {str(name): raw for name, raw in (self._entry.get("tune") or {}).items()}
        return {name: found[name] for name in names_of(found) if name not in self._fixed_training}

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


def _own(entry: Mapping[str, Any]) -> dict[str, Space]:
    """The method's own search spaces. Invalid ones are left out; the engine reports them."""
    found = {}
    for name, raw in (entry.get("tune") or {}).items():
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
