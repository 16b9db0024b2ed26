"""Choices of a page that live in its address, so that every view is a link.

The widget holds the choice and the address mirrors it. A page reads its address when the reader arrives: at its first
run, by a link, or by Back and Forward. In any other run the address that the browser reports may be older than the last
choice, so it is ignored; ``publish`` writes it anew at the end of the run.

A value equal to the default is left out of the address, and follows the default where that moves. A value in the
address that a page does not know counts as the default.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

LARGEST_ID = 2**63 - 1  # of a database
MOST_IDS = 10_000  # that a database takes in one query
OF_ALL_PAGES = ("presenting",)  # choices that a link to another view does not end

P = ParamSpec("P")
T = TypeVar("T")
_is_drawing = ContextVar("is_drawing", default=False)  # in this thread: a link starts a run before the last has stopped
_VISIT, _CONTROLS = "url_state.visit", "url_state.controls"


@dataclass
class Visit:
    """A reader on a page. ``known`` are the addresses that the browser may report: its last one, and ours since."""

    page: str
    choices: dict[str, str]
    known: list[dict[str, str]]
    is_history: bool = False
    is_new: bool = True
    is_drawn: bool = False  # to the end by the last run; what begins one that was not may be this program
    drawn: dict[str, None] = field(default_factory=dict)  # in order


@dataclass
class Control(Generic[T]):
    """A widget that shows a choice. ``value`` is what it showed last.

    ``left`` are the titles of what the program has moved it from: the browser knows a value by its title.

    The address mirrors it by ``text``, or a press hands its value to ``act``. ``holds`` is whether the widget decides:
    not after the program has made the choice, until the widget is drawn again.
    """

    key: str
    value: T
    titles: Mapping[Any, str] | None
    number: int = 1
    default: T | None = None
    text: Callable[[T], str] | None = None
    act: Callable[[T], object] | None = None
    left: frozenset[object] | None = None
    holds: bool = True

    @property
    def now(self) -> T:
        value: T = st.session_state.get(self.key, self.value)
        return value

    @property
    def in_address(self) -> str | None:
        return None if self.text is None or self.now == self.default else self.text(self.now)

    def mirrors(self) -> bool:
        return self.holds and self.text is not None and self.key in st.session_state

    def offers(self, value: object) -> bool:
        return self.titles is None or all(one in self.titles or one is None for one in _several(value))

    def titles_of(self, value: object) -> frozenset[object]:
        return frozenset((self.titles or {}).get(one, one) for one in _several(value))

    def may_be_late(self) -> bool:
        """Streamlit takes the first stop of a slider for one that it does not have any more."""
        if self.left is None or self.titles_of(self.now) == self.left:
            return self.left is not None
        stops = self.titles or {}
        return bool(stops) and self.now == next(iter(stops)) and not self.left <= {*stops.values()}


@contextmanager
def page(name: str) -> Iterator[None]:
    """Around all that a page draws; the shell and a page that runs alone both say it."""
    if _is_drawing.get():
        yield
        return
    if _has_arrived(name):
        _arrive(name)
    else:
        _settle()
        publish()  # what is pressed is in the address before the page shows it
    visit = _visit()
    visit.drawn, visit.is_drawn = {}, False
    token = _is_drawing.set(True)
    try:
        yield
        publish()
        st.session_state[_CONTROLS] = {name: _controls()[name] for name in visit.drawn}
        visit.is_drawn = True
    finally:
        _is_drawing.reset(token)


def fragment(draw: Callable[P, None]) -> Callable[P, None]:
    """``st.fragment`` for a part of a page with choices of its own."""

    @st.fragment
    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> None:
        is_alone = not _is_drawing.get()
        if is_alone:
            _settle()
        draw(*args, **kwargs)
        if is_alone:
            publish()

    return drawn


def publish() -> None:
    """Write every choice that is not the default into the address."""
    visit = _visit()
    visit.choices = address()
    if visit.choices != st.query_params.to_dict():
        st.query_params.from_dict(visit.choices)
    if visit.choices != visit.known[-1]:
        visit.known.append(visit.choices)


def address() -> dict[str, str]:
    """All choices by name, as the address says them."""
    visit = _visit()
    mirrored = {name: control.in_address for name, control in _controls().items() if control.mirrors()}
    others = {name: text for name, text in visit.choices.items() if name not in mirrored}
    return others | {name: text for name, text in mirrored.items() if text is not None}


def reader() -> Callable[[], dict[str, str]]:
    """Reads the choices of this visit later, where there is no page: in the thread that makes a download."""
    visit = _visit()
    return lambda: dict(visit.choices)


def take_arrival() -> bool:
    """Whether the page has read the address since this was last asked."""
    visit = _visit()
    is_new, visit.is_new = visit.is_new, False
    return is_new


def is_history() -> bool:
    """Whether the reader came by Back or Forward."""
    return _visit().is_history


def choose(**choices: str | None) -> None:
    """Make these choices; None goes back to the default. Moves their controls."""
    visit = _visit()
    visit.choices = dict(visit.choices)
    for name, chosen in choices.items():
        if name in _controls():
            _controls()[name].holds = False
        if chosen is None:
            visit.choices.pop(name, None)
        else:
            visit.choices[name] = chosen


def get(name: str) -> str | None:
    """The choice; None where it is the default."""
    control = _controls().get(name)
    return control.in_address if control and control.mirrors() else _visit().choices.get(name)


def value(name: str, allowed: Sequence[str] | Mapping[str, str], default: str) -> str:
    """The choice, or ``default`` where it is not among ``allowed``."""
    chosen = get(name)
    return chosen if chosen is not None and chosen in allowed else default


def ids(name: str) -> list[int]:
    """``?runs=3,5`` as numbers."""
    return parse_ids(get(name) or "")


def parse_ids(text: str) -> list[int]:
    """``3,5``, each once; anything that cannot be an id is skipped."""
    parts = (part.strip() for part in text.split(","))
    numbers = (int(part) for part in parts if part.isdecimal() and len(part) <= len(str(LARGEST_ID)))
    return list(dict.fromkeys(n for n in numbers if n <= LARGEST_ID))[:MOST_IDS]


def switch(label: str, titles: Mapping[str, str], name: str, default: str, *, is_labelled: bool = True) -> str:
    """A row of buttons, one of them pressed; the label is always there for screen readers."""
    at = _choice(name, titles, default)
    st.segmented_control(
        label,
        list(titles),
        format_func=titles.__getitem__,
        key=at.key,
        required=True,
        label_visibility="visible" if is_labelled else "collapsed",
    )
    return at.value


def pick(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """One of many."""
    at = _choice(name, titles, default)
    st.selectbox(label, list(titles), format_func=titles.__getitem__, key=at.key)
    return at.value


def slide(label: str, titles: Mapping[str, str], name: str, default: str) -> str:
    """One of an ordered row."""
    at = _choice(name, titles, default)
    st.select_slider(label, list(titles), format_func=titles.__getitem__, key=at.key)
    return at.value


def toggle(label: str, name: str, **options: Any) -> bool:
    """On or off; off by default."""
    at = control(name, False, lambda text: text == "true" or None, lambda _: "true")
    st.toggle(label, key=at.key, **options)
    return at.value


def control(
    name: str,
    default: T,
    parse: Callable[[str], T | None],
    text: Callable[[T], str],
    titles: Mapping[Any, str] | None = None,
) -> Control[T]:
    """For a widget whose value the address mirrors. ``parse`` returns None for what cannot be a value."""
    chosen = get(name)
    parsed = None if chosen is None else parse(chosen)
    value = default if parsed is None else parsed
    return _draw(name, Control(f"address_{name}", value, titles, default=default, text=text))


def key(
    name: str,
    shown: T,
    act: Callable[[T], object],
    titles: Mapping[Any, str] | None = None,
    *,
    in_popover: bool = False,
) -> str:
    """The key of a widget that shows ``shown`` and hands what is pressed to ``act``; ``titles`` are of its options.

    The browser draws what is in a popover when that opens, and until then repeats what the widget showed last. There
    a widget that the program moves is another one, and needs ``shown`` as its own default.
    """
    return _draw(name, Control(name, shown, titles, act=act), in_popover).key


def _choice(name: str, titles: Mapping[str, str], default: str) -> Control[str]:
    chosen = value(name, titles, default)
    return control(name, default, lambda _: chosen, str, titles)


def _draw(name: str, new: Control[T], in_popover: bool = False) -> Control[T]:
    """Make the widget show the value of ``new``, and remember what the browser may still report."""
    known = _controls().get(name)
    if known is not None:
        new.key, new.number, new.left = known.key, known.number, known.left
        is_moved = not _is_same(known.now, new.value)
        if is_moved and not in_popover:
            new.left = known.titles_of(known.now)
        if in_popover and (is_moved or known.titles != new.titles):
            new.number += 1
            new.key = f"{known.key.removesuffix(f'.{known.number}')}.{new.number}"
        elif not in_popover and (
            is_moved or known.key not in st.session_state or known.titles_of(new.value) != new.titles_of(new.value)
        ):
            st.session_state[new.key] = new.value
    elif not in_popover:
        st.session_state[new.key] = new.value
    _controls()[name] = new
    _visit().drawn[name] = None
    return new


def _settle() -> None:
    """Tell presses from late reports: until the browser hears that a control was moved it repeats the old value.

    So that value counts where it is the only news and the browser knows the last address.
    """
    controls = [control for control in _controls().values() if control.holds]
    moved = [control for control in controls if not _is_same(control.now, control.value)]
    for control in controls:
        if control not in moved:
            control.left = None
    doubtful = [control for control in moved if control.may_be_late() or not control.offers(control.now)]
    pressed = [control for control in moved if control not in doubtful]
    visit = _visit()
    is_behind = st.query_params.to_dict() != visit.known[-1]
    if not is_behind and visit.is_drawn:
        visit.known = visit.known[-1:]
    is_late = is_behind or pressed or len(doubtful) > 1 or len(controls) < len(_controls())
    for control in doubtful:
        if is_late or not control.offers(control.now):
            st.session_state[control.key] = control.value
        else:
            pressed.append(control)
    for control in pressed:
        control.value, control.left = control.now, None
        if control.act:
            control.act(control.value)


def _several(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_same(one: object, other: object) -> bool:
    """Of several values the order does not matter."""
    return set(_several(one)) == set(_several(other))


def is_back_or_forward() -> bool:
    """Whether the browser's Back or Forward has caused this run."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _has_arrived(name: str) -> bool:
    """Whether the browser has changed the address, not this program."""
    visit = _visit()
    return visit.page != name or is_back_or_forward() or st.query_params.to_dict() not in visit.known


def _arrive(name: str) -> None:
    """Read the address."""
    here, is_history = st.query_params.to_dict(), is_back_or_forward()
    choices = dict(here)
    if _visit().page and not is_history:
        lasting = {one: get(one) for one in OF_ALL_PAGES}
        choices = {one: text for one, text in (here | lasting).items() if text is not None}
    for control in _controls().values():
        control.holds = False
    st.session_state[_VISIT] = Visit(name, choices, [here], is_history=is_history)
    st.query_params.from_dict(choices)  # for a link within a page the browser waits to be sent the address


def _visit() -> Visit:
    visit: Visit = st.session_state.setdefault(_VISIT, Visit("", st.query_params.to_dict(), [{}]))
    return visit


def _controls() -> dict[str, Control[Any]]:
    controls: dict[str, Control[Any]] = st.session_state.setdefault(_CONTROLS, {})
    return controls
