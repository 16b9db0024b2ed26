"""The second level of Set up: rarely changed options, in a collapsed section at the end of the form."""

from collections.abc import Collection, Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.forms import Form, changes, kept
from app.setup import draft as drafts
from app.setup import sweeps
from app.setup.local_training import training_fields
from app.setup.sweep_fields import Sweeps
from app.setup.sweeps import OF_TRAINING, SCHEDULED, UNITS
from engine.config.options import Evaluation, Machine, Training
from engine.core.registry import Options

FIRST = ("rounds",)  # of training
RARER = ("lr_schedule", "clip_norm", "augmentation", "dtype")
USUAL = tuple(field for field in Training.model_fields if field not in (*FIRST, *RARER, *SCHEDULED))


class Advanced:
    """The collapsed section. While it is closed, its fields are not drawn, and the draft keeps their values."""

    def __init__(self, form: Form, place: DeltaGenerator) -> None:
        """``place`` is the container at the end of the form."""
        self._form, self._place, self._is_open = form, place, form.is_open(drafts.ADVANCED)
        if self._is_open:
            with place:
                self._place = form.expander("Advanced", drafts.ADVANCED)

    def close(self, raw: Mapping[str, Any]) -> None:
        """Draw the section last: its label depends on all values."""
        if not self._is_open:
            with self._place:
                self._form.expander("Advanced", drafts.ADVANCED, changed(raw))

    def options(
        self,
        title: str,
        options: type[Options],
        values: Mapping[str, Any],
        path: str,
        only: Collection[str],
        **how: Any,
    ) -> dict[str, Any]:
        """Some options of one kind, under a title."""
        if not self._is_open or not only:
            return kept(options, values, only)
        with self._place:
            st.subheader(title, anchor=False)
            return self._form.options(options, values, path, only=only, **how)

    def training(self, values: Mapping[str, Any], swept: Sweeps) -> dict[str, Any]:
        """The training options that are not first."""
        unused = {name: values[name] for name in SCHEDULED if name in values}
        if not self._is_open:
            fields = [name for name in (*USUAL, *RARER) if name in values or name not in UNITS]
            return unused | kept(Training, values, fields)
        if f"{OF_TRAINING}local_epochs" in swept.given:
            values = {"local_epochs": 1} | {name: value for name, value in values.items() if name != "local_steps"}
        draw = swept.draw(OF_TRAINING)
        with self._place:
            st.subheader("Local training", anchor=False)
            chosen = training_fields(self._form, values, "training", USUAL, draw)
            for unit in UNITS.keys() - chosen.keys():
                swept.drop(f"{OF_TRAINING}{unit}")
            chosen |= self._form.options(Training, values, "training", only=RARER, draw=draw)
            if chosen["lr_schedule"] == "step":
                return chosen | self._form.options(Training, values, "training", only=SCHEDULED)
        return chosen | unused

    def machine(self, draft: Mapping[str, Any]) -> dict[str, Any]:
        """The options on where and how runs are computed; only values that differ from the defaults are kept."""
        chosen = self.options("Machine", Machine, draft, "", Machine.model_fields, key="machine")
        defaults = Machine()
        return {name: value for name, value in chosen.items() if value != getattr(defaults, name)}


def changed(raw: Mapping[str, Any]) -> list[str]:
    """The values in the section that differ from the defaults, in words."""
    found = []
    for section, (registry, _) in drafts.SECTIONS.items():
        values = raw[section]
        options = registry.get(values["name"]).options
        found += changes(options, values, options.model_fields if section == "model" else options.advanced)
    defaults, training = Training.model_validate({}).model_dump(), raw["training"]
    set_here = {name: value for name, value in training.items() if value != defaults.get(name)}
    found += changes(Training, set_here, [*USUAL, *RARER, *(SCHEDULED if "lr_schedule" in set_here else ())])
    shared = [name.removeprefix(OF_TRAINING) for name in sweeps.shared(raw) if name.startswith(OF_TRAINING)]
    found += [sweeps.in_words(f"{OF_TRAINING}{name}") for name in shared if name not in FIRST]
    found += changes(Evaluation, raw["evaluation"], Evaluation.model_fields)
    return found + changes(Machine, raw, Machine.model_fields)
