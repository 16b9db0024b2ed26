"""Forms: the fields of any ``Options`` class as widgets, with labels and help texts from the schema.

A form returns plain values and does not validate: the engine validates the whole configuration, and ``Form.show`` puts
each message under its field.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, Protocol

import streamlit as st
import yaml
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import RerunException, StopException

from app.wording import capital, lines, names, plain
from engine.config.files import parse_value
from engine.config.schema import NOT_SET
from engine.core.errors import cut
from engine.core.registry import Entry, Options, Parameter

WORDS = {"training": "as in training", "full": "all samples", None: "not set"}  # the meaning of an empty field
MAX_INTEGER = 2**53  # the largest exact integer of a browser
MANY_CHOICES = 4
SPELLED = ("alpha", "beta", "delta", "eps1", "eps2", "gamma", "l2", "lam", "mu", "rho")  # names that spell a symbol
SHORT = {"lr": "learning rate", "dim": "dimension"}
NUMBER_PX = 96  # width of the number beside a slider
EXPANDER = "expander"  # prefix of the keys of expanders, which stay open when a form is filled again
MAX_CHANGES = 3  # changes in the label of an expander


class DrawField(Protocol):
    """Draws one field, like ``Form.field``."""

    def __call__(
        self,
        parameter: Parameter,
        value: Any,
        path: str,
        *,
        key: str = "",
        scale: Sequence[Any] | None = None,
        stand_in: Any = None,
    ) -> Any: ...


class Form:
    """The fields that one run of a page draws. Their state is under ``prefix`` in the session."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._fields, self._unread = f"fields.{prefix}", f"unread.{prefix}"  # in the session
        self._placeholders: dict[str, DeltaGenerator] = {}

    def forget(self) -> None:
        """Discard what was typed: the next drawing uses the given values."""
        for key in [k for k in st.session_state if str(k).startswith(f"{self.prefix}.")]:
            del st.session_state[key]
        st.session_state.pop(self._unread, None)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Enclose the drawing of the whole form. If it is stopped, the next one starts with the values the fields had.

        A press on a link to another page stops it, and Streamlit then forgets the values of all widgets, so a number
        typed just before would be lost.
        """
        for key, value in st.session_state.get(self._unread, {}).items():
            self.start(key, value)
        try:
            yield
        except (RerunException, StopException):
            fields: dict[str, None] = st.session_state.get(self._fields, {})
            chosen = {key: st.session_state[key] for key in fields if key in st.session_state}
            st.session_state[self._unread] = chosen
            raise
        st.session_state.pop(self._unread, None)

    def expander(
        self, title: str, key: str, changed: Sequence[str] = (), look: Literal["default", "compact"] = "default"
    ) -> DeltaGenerator:
        """An expander whose fields are drawn while it is open. Closed, its label names what is ``changed`` in it."""
        state, is_open = f"{EXPANDER}.{self.prefix}.{key}", self.is_open(key)
        st.session_state[state] = is_open  # also under another label
        label = f"{title} · {names(changed, MAX_CHANGES)}" if changed and not is_open else title
        return st.expander(plain(label), key=state, type=look, on_change="rerun")

    def is_open(self, key: str) -> bool:
        """Whether an expander is open, also before it is drawn."""
        return bool(st.session_state.get(f"{EXPANDER}.{self.prefix}.{key}"))

    def open_expander(self, key: str) -> None:
        """Opens an expander that is not drawn yet."""
        st.session_state[f"{EXPANDER}.{self.prefix}.{key}"] = True

    def start(self, key: str, value: Any) -> dict[str, Any]:
        """Arguments of a widget that starts at ``value`` and then keeps what the reader chose."""
        if key not in st.session_state:
            st.session_state[key] = value
        st.session_state.setdefault(self._fields, {})[key] = None
        return {"key": key}

    def options(
        self,
        options: type[Options],
        values: Mapping[str, Any],
        path: str,
        *,
        key: str = "",
        only: Collection[str] | None = None,
        scales: Mapping[str, Sequence[Any]] | None = None,
        stand_ins: Mapping[str, Any] | None = None,
        columns: int = 2,
        draw: DrawField | None = None,
    ) -> dict[str, Any]:
        """Draw an options class. ``path`` is its path in the configuration, ``key`` distinguishes several forms of it.

        ``scales`` draws a field as a slider over these values; ``stand_ins`` are the current values of words like
        "training"; ``draw`` replaces ``field``.
        """
        chosen = [p for p in parameters_of(options) if only is None or p.name in only]
        result = {}
        for place, parameter in enumerate(chosen):
            if place % columns == 0:
                cells = st.columns(columns, gap="medium")  # row by row: on a narrow screen the order stays
            with cells[place % columns]:
                where, value = f"{path}.{parameter.name}".lstrip("."), values.get(parameter.name)
                is_empty = value is None and not _can_show(set(parameter.type.split("|")), None, parameter)
                given = parameter.name in values and not is_empty
                result[parameter.name] = (draw or self.field)(
                    parameter,
                    value if given else parameter.default,
                    where,
                    key=f"{key or path}.{parameter.name}",
                    scale=(scales or {}).get(parameter.name),
                    stand_in=(stand_ins or {}).get(parameter.name),
                )
                if parameter.name in values and not given:
                    self._placeholders[where].warning("Must not be empty; using the default.")
        return {name: value for name, value in result.items() if value is not None}

    def field(
        self,
        parameter: Parameter,
        value: Any,
        path: str,
        *,
        key: str = "",
        scale: Sequence[Any] | None = None,
        stand_in: Any = None,
        beside: Callable[[], object] | None = None,
    ) -> Any:
        """One widget with a placeholder for its message; returns the reader's value. ``beside`` draws next to it."""
        with row() if beside else nullcontext():
            chosen = self._widget(parameter, value, f"{self.prefix}.{key or path}", scale, stand_in)
            if beside:
                beside()
        self.placeholder(path)
        return chosen

    def _widget(self, parameter: Parameter, value: Any, key: str, scale: Sequence[Any] | None, stand_in: Any) -> Any:
        kinds = set(parameter.type.split("|"))
        if not _can_show(kinds, value, parameter):
            return self._text(parameter, value, key)
        if scale is not None and kinds <= {"int", "float"}:
            return self._dial(parameter, value, scale, key)
        if kinds <= {"int", "float"}:
            return self._number(parameter, value, key)
        if kinds == {"bool"}:
            return st.checkbox(**_labels(parameter), **self.start(key, bool(value)))
        if kinds == {"choice"}:
            return self._choice(parameter, value, key)
        if len(parameter.choices or ()) > 1:
            return self._text(parameter, value, key, help=_help_on_words(parameter, stand_in))
        if kinds <= {"int", "float", "choice", "null"}:
            return self._number_or_word(parameter, value, key, stand_in)
        return self._text(parameter, value, key)

    def placeholder(self, *paths: str) -> None:
        """A placeholder for messages about ``paths`` and anything inside them."""
        self._placeholders |= dict.fromkeys(paths, st.empty())

    def text(self, label: str, value: str, path: str, *, key: str = "", **arguments: Any) -> str:
        """A text input with a placeholder for messages."""
        typed = st.text_input(label, **self.start(f"{self.prefix}.{key or path}", value), **arguments)
        self.placeholder(path)
        return typed or ""

    def show(self, problems: Sequence[str], to_do: Collection[str] = ()) -> list[str]:
        """Show each problem ``path: message`` under its field; returns those without a field on the page.

        Those in ``to_do`` are not mistakes but fields that are still empty.
        """
        unplaced: list[str] = []
        by_field: dict[str, list[str]] = {}
        mistaken = set[str]()
        for problem in problems:
            path, _, message = problem.partition(": ")
            place = next((p for p in _outwards(path) if p in self._placeholders), None)
            if place is None:
                unplaced.append(problem)
                continue
            field = path.removeprefix(place).lstrip(".")
            by_field.setdefault(place, []).append(f"{field}: {message}" if field else message)
            if problem not in to_do:
                mistaken.add(place)
        for place, messages in by_field.items():
            placeholder = self._placeholders[place]
            if place in mistaken:
                placeholder.error(lines(dict.fromkeys(messages)))
            else:
                placeholder.info(lines(capital(_without(m, NOT_SET)) for m in messages))
        return unplaced

    def note(self, path: str, notes: Sequence[str]) -> None:
        """Show notes, which are no problems, in the placeholder of a field."""
        self._placeholders[path].caption(lines(notes))

    def _number(self, parameter: Parameter, value: Any, key: str, **look: Any) -> float | int | None:
        """A number field without bounds: the engine's message is clearer than a widget that silently clips."""
        number: type[float] | type[int] = int if parameter.type.partition("|")[0] == "int" else float
        return st.number_input(
            **(_labels(parameter) | look),
            **self.start(key, number(value)),
            step=1 if number is int else min(_step(float(value)), 0.1 if parameter.maximum == 1 else math.inf),
            format=None if number is int else "%g",
        )

    def _dial(self, parameter: Parameter, value: Any, scale: Sequence[Any], key: str) -> Any:
        """A slider over ``scale``, and beside it the number, which may also be any other."""
        number, dial = st.session_state.get(key, value), f"{key}.dial"
        stops = sorted({*(stop for stop in scale if parameter.maximum is None or stop <= parameter.maximum), number})
        if len(stops) == 1:
            return self._number(parameter, value, key)
        if st.session_state.get(dial) != number:
            st.session_state[dial] = number
        with row():
            st.select_slider(
                **_labels(parameter),
                options=stops,
                format_func=_plain,
                key=dial,
                **when_changed(dial, _copy, dial, key),
            )
            label = f"{label_of(parameter)}, as a number"
            look = {"label": plain(label), "label_visibility": "collapsed", "help": None, "width": NUMBER_PX}
            return self._number(parameter, value, key, **look)

    def _choice(self, parameter: Parameter, value: Any, key: str) -> Any:
        choices, started = list(parameter.choices or ()), self.start(key, value)
        if len(choices) >= MANY_CHOICES:
            return st.selectbox(**_labels(parameter), options=choices, **started)
        return st.segmented_control(**_labels(parameter), options=choices, required=True, **started)

    def _number_or_word(self, parameter: Parameter, value: Any, key: str, stand_in: Any) -> Any:
        """A number; an empty field means a word (auto, training, full, not set)."""
        word = parameter.choices[0] if parameter.choices else None
        meaning = (parameter.unset or WORDS.get(word, str(word))) + (
            "" if stand_in is None else f" ({_plain(stand_in)})"
        )
        number: type[float] | type[int] = int if parameter.type.partition("|")[0] == "int" else float
        shown = number(value) if is_number(value) else None
        chosen = st.number_input(
            **(_labels(parameter) | {"help": f"{plain(parameter.meaning)} Empty: {meaning}."}),
            value=None,
            **self.start(key, shown),
            placeholder=meaning,
            format=None if number is int else "%g",
            step=1 if number is int else _step(float(stand_in or shown or 1.0)),
        )
        return word if chosen is None else chosen

    def _text(self, parameter: Parameter, value: Any, key: str, **look: Any) -> Any:
        """Anything else is typed as in YAML; text is unchanged."""
        shown = "" if value is None else value if isinstance(value, str) else listed(value)
        typed = st.text_input(**(_labels(parameter) | look), **self.start(f"{key}.text", shown))
        return typed or None if "str" in parameter.type.split("|") else read_value(typed or "")


def parameters_of(options: type[Options]) -> tuple[Parameter, ...]:
    return Entry(options.__name__, "", "", options, options).parameters


def kept(options: type[Options], values: Mapping[str, Any], only: Collection[str]) -> dict[str, Any]:
    """The values of fields that are not drawn, as ``Form.options`` returns those that are."""
    found = {p.name: values.get(p.name, p.default) for p in parameters_of(options) if p.name in only}
    return {name: value for name, value in found.items() if value is not None}


def changes(options: type[Options], values: Mapping[str, Any], only: Collection[str]) -> list[str]:
    """The values that differ from their defaults, in words: ``batch size 32``."""
    fields = [p for p in parameters_of(options) if p.name in only and values.get(p.name) is not None]
    return [in_words(p, values[p.name]) for p in fields if values[p.name] != p.default]


def in_words(parameter: Parameter, value: Any) -> str:
    """``batch size 32``, ``λ 0.5``, ``standardize``."""
    what = name_in_words(parameter)
    if isinstance(value, bool):
        return what if value else f"not {what}"
    return f"{what} {cut(_plain(listed(value) if isinstance(value, list) else value), 40)}"


def name_in_words(parameter: Parameter) -> str:
    """``batch size``, ``λ``, ``test share``: how a sentence names it."""
    name = parameter.symbol if _is_title(parameter) or _is_spelled(parameter) else _words(parameter)
    return name if len(name) <= 2 else name[:1].lower() + name[1:]


def when_changed(key: str, act: Callable[..., object], *args: Any) -> dict[str, Any]:
    """Arguments of a widget that calls ``act(*args)`` when its value has changed.

    The browser may send values after it has left the page. Streamlit then calls back although it has no value of the
    widget any more, so ``act`` is not called.
    """

    def call() -> None:
        if key in st.session_state:
            act(*args)

    return {"on_change": call}


def row() -> DeltaGenerator:
    """A field and what is beside it."""
    return st.container(horizontal=True, vertical_alignment="bottom", wrap=False, gap="small")


def read_value(text: str) -> Any:
    """A number, a word, or a list of comma-separated values."""
    return _read(text, f"[{text}]" if "," in text and not text.strip().startswith("[") else text)


def read_list(text: str) -> Any:
    """``"1, 5, 15"`` -> [1, 5, 15]; unreadable input stays text, for the engine to reject."""
    return _read(text, text if text.strip().startswith("[") else f"[{text}]")


def label_of(parameter: Parameter) -> str:
    """``Clients (N)``, ``λ (lam; larger = more global)``: name, symbol and the direction from the description."""
    direction = re.search(r"(larger = [^;,.]+)", parameter.description)
    notes = [direction[1]] if direction else []
    if _is_title(parameter):
        label = parameter.symbol
    elif _is_spelled(parameter):
        label, notes = parameter.symbol, [parameter.name, *notes]
    else:
        label = capital(_words(parameter))
        notes = [*([parameter.symbol] if parameter.symbol != parameter.name else []), *notes]
    return f"{label} ({'; '.join(notes)})" if notes else label


def listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < MAX_INTEGER
    )


def _is_title(parameter: Parameter) -> bool:
    return parameter.symbol != parameter.name and len(parameter.symbol) > 2


def _is_spelled(parameter: Parameter) -> bool:
    return parameter.symbol != parameter.name and parameter.name in SPELLED


def _words(parameter: Parameter) -> str:
    words = parameter.name.removeprefix("num_").removeprefix("n_").split("_")
    return " ".join(SHORT.get(word, word) for word in words)


def _copy(source: str, target: str) -> None:
    st.session_state[target] = st.session_state[source]


def _read(text: str, as_yaml: str) -> Any:
    """The value, or the text if it is invalid or cannot be in a link: a set, bytes, half a character."""
    try:
        value = parse_value(as_yaml)
        json.dumps(value, ensure_ascii=False).encode()
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        return text
    return value


def _without(text: str, prefixes: Sequence[str]) -> str:
    for prefix in prefixes:
        text = text.removeprefix(prefix)
    return text


def _labels(parameter: Parameter) -> dict[str, Any]:
    return {"label": plain(label_of(parameter)), "help": plain(parameter.meaning) or None}


def _help_on_words(parameter: Parameter, stand_in: Any) -> str:
    """The help of a field for a number or one of several words; ``stand_in`` is the current value of "training"."""
    values = {"training": f" ({_plain(stand_in)})"} if stand_in is not None else {}
    words = ", ".join(f"{word}{values.get(word, '')}" for word in parameter.choices or ())
    return f"{plain(parameter.meaning)} A number, or one of: {plain(words)}."


def _can_show(kinds: set[str], value: Any, parameter: Parameter) -> bool:
    """Whether the field's own widget can show the value; a link may contain anything."""
    if isinstance(value, bool):
        return "bool" in kinds
    if is_number(value):
        return "float" in kinds or ("int" in kinds and float(value).is_integer())
    if value is None:
        return bool(kinds & {"null", "str", "list"})
    return value in (parameter.choices or ()) or bool(kinds & {"str", "list"})


def _step(value: float) -> float:
    """One step changes the first digit: 0.005 by 0.001, 12 by 1."""
    return 10.0 ** min(0, math.floor(math.log10(abs(value)))) if value else 0.1


def _outwards(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
