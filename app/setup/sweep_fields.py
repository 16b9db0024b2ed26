"""Fields with a sweep: a button replaces the single value by several, each of which becomes a run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.forms import (
    DrawField,
    Form,
    is_number,
    label_of,
    listed,
    name_in_words,
    read_list,
    read_value,
    row,
    when_changed,
)
from app.setup import draft as drafts
from app.setup.offered import first_values, offered, text_of
from app.wording import plain
from engine.core.registry import Parameter

MAX_CHIPS = 40  # values; more are one line of text
MAX_LETTERS = 40  # of a value


class Sweeps:
    """Draws the fields of one method, or of all, with a button for a sweep, and swept ones as a list of values.

    ``given`` are the sweeps by name; ``places(name)`` the methods of such a sweep. ``values`` has those drawn so far.
    """

    def __init__(self, form: Form, given: Mapping[str, Any], places: Callable[[str], Sequence[int]], key: str) -> None:
        self.given, self.values = given, dict[str, Any]()
        self._form, self._places, self._key = form, places, key

    def draw(self, prefix: str = "") -> DrawField:
        """A ``draw`` argument of ``Form.options``; ``prefix`` begins the names of the parameters in a sweep."""
        return partial(self._field, prefix)

    def drop(self, prefix: str) -> None:
        """End the sweeps of options that are not drawn any more."""
        self.given = {name: values for name, values in self.given.items() if not name.startswith(prefix)}

    def unknown(self, name: str) -> None:
        """A sweep of no parameter, from a link; the engine says what is wrong with it."""
        self._values(name, name.replace("_", " "), "", [])

    def _field(
        self,
        prefix: str,
        parameter: Parameter,
        value: Any,
        path: str,
        *,
        key: str = "",
        scale: Sequence[Any] | None = None,
        stand_in: Any = None,
    ) -> Any:
        name = prefix + parameter.name
        if name in self.given:
            self._values(name, label_of(parameter), parameter.description, offered(parameter, value, stand_in), path)
            return value
        first = first_values(parameter, value, stand_in)
        about = f"Try several values: {name_in_words(parameter)}"
        button = partial(self._button, "begin_sweep", "Sweep", about, drafts.begin_sweep, name, first)
        return self._form.field(parameter, value, path, key=key, scale=scale, stand_in=stand_in, beside=button)

    def _values(self, name: str, label: str, about: str, choices: Sequence[Any], *paths: str) -> None:
        state, given = f"{self._form.prefix}.{self._key}.sweep.{name}", self.given[name]
        help = plain(" ".join(filter(None, [about, "One run per value and seed. You can also type other values."])))
        with row():
            if _are_chips(given):
                started = self._form.start(state, [text_of(one) for one in given])
                known = dict.fromkeys([*map(text_of, choices), *st.session_state[state]])
                typed = st.multiselect(
                    plain(label),
                    list(known),
                    **started,
                    accept_new_options=True,
                    placeholder="Choose or type values",
                    help=help,
                    select_all=False,
                    wrap=True,
                    **when_changed(state, _separate, state),
                )
                self.values[name] = [read_value(one) for one in typed]
            else:
                typed_text = st.text_input(plain(label), **self._form.start(f"{state}.text", listed(given)), help=help)
                self.values[name] = read_list(typed_text or "")
            self._button("end_sweep", "One value", "Back to one value", drafts.end_sweep, name)
        methods = [f"algorithms.{place}" for place in self._places(name)]
        self._form.placeholder(*paths, *(f"{method}.{part}{name}" for method in methods for part in ("sweep.", "")))

    def _button(self, key: str, label: str, help: str, act: Callable[..., None], name: str, *args: Any) -> None:
        """Each has a key of its own, or a double click would also press the button that replaces it."""
        st.button(
            label,
            key=f"{self._form.prefix}.{self._key}.{key}.{name}",
            help=plain(help),
            type="tertiary",
            on_click=act,
            args=(self._places(name), name, *args),
        )


def _are_chips(given: Any) -> bool:
    """Whether a list of values can be shown as one chip for each; a link may contain anything."""
    if not isinstance(given, list) or len(given) > MAX_CHIPS:
        return False
    texts = [text_of(one) for one in given if one is None or isinstance(one, bool | int | float | str)]
    return len(set(texts)) == len(given) and not any("," in text or not 0 < len(text) <= MAX_LETTERS for text in texts)


def _separate(state: str) -> None:
    """``0.1, 1, 10``, typed at once, becomes three values; numbers are in ascending order."""
    parts = (part.strip() for typed in st.session_state[state] for part in str(typed).split(","))
    chips = list(dict.fromkeys(filter(None, parts)))
    is_sorted = all(is_number(read_value(chip)) for chip in chips)
    st.session_state[state] = sorted(chips, key=read_value) if is_sorted else chips
