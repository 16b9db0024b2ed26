"""A browser that is behind: what it reports with a press may be older than what it has been told.

Streamlit believes the browser. Each rerun brings its address along, in place of the server's, and the values of all
widgets: a press that left before the answer to the last one had arrived takes that one back, and a control that was
moved meanwhile reports its old value, which Streamlit takes for a press. So here is kept, for each reader, what was
written and shown lately.

Whoever writes the address writes it by ``put``. Callbacks of controls that show what the address says go through
``pressed``; those of all other widgets on such a page say ``catch_up`` first.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

Label = object  # of a value, or of several: a frozenset

LATE_S = 5.0  # how long the browser may be behind
_WRITTEN, _SHOWN, _NOW, _AGAIN = (f"browser.{name}" for name in ("written", "shown", "now", "again"))


@dataclass(frozen=True)
class Written:
    """What a name of the address was made to say, and what the browser may say of it until it hears of that."""

    before: frozenset[str | None]
    after: str | None
    at: float


@dataclass(frozen=True)
class Shown:
    """What a control shows, what it was moved from without a press on it, and the titles of its values.

    ``left`` is where it was moved from last: the browser repeats that until it draws the control anew, in a popover for
    as long as that is closed.
    """

    label: Label
    titles: Mapping[Any, str]
    before: frozenset[Label] = frozenset()
    at: float = 0.0
    left: Label | None = None

    @property
    def may_be_late(self) -> frozenset[Label]:
        return self.before if time.monotonic() - self.at < LATE_S else frozenset()

    def is_doubtful(self, label: Label) -> bool:
        return label in self.may_be_late or (self.left is not None and label == self.left)


@dataclass
class Run:
    """What was heard so far of one run of the script, which ``token`` tells from others.

    ``reported`` are the keys of the widgets whose values the browser has sent.
    """

    token: object
    is_behind: bool
    reported: frozenset[str] = frozenset()
    is_own: bool = False  # asked for by ``rerun``, without a word of the browser
    is_pressed: bool = False
    doubtful: list[Callable[[], object]] = field(default_factory=list)

    def says(self, key: str) -> bool:
        """Whether the browser has said in this run what the control of ``key`` shows."""
        return not self.is_own and key in self.reported


def put(**said: str | None) -> None:
    """A press makes names of the address say this; None takes one out."""
    _run().is_pressed = True
    written, at = _written(), time.monotonic()
    changes = _missing()
    for name, after in said.items():
        before = frozenset({changes.get(name, st.query_params.get(name))})
        if name in written:
            before |= written[name].before | {written[name].after}
        written[name] = Written(before, after, at)
    say(changes | said)


def say(changes: Mapping[str, str | None]) -> None:
    """Into the address, in few messages: each is an entry of the browser's history. None takes a name out."""
    if told := {name: value for name, value in changes.items() if value is not None}:
        st.query_params.update(told)
    for name in changes.keys() - told.keys():
        st.query_params.pop(name, None)


def catch_up() -> None:
    """Puts back what earlier presses wrote, where the browser does not know it yet."""
    _run().is_pressed = True
    say(_missing())


def begin() -> None:
    """For the shell, at each run of a page. One that no press has caused, as by Back, goes where the address says."""
    now = _run()
    now.is_own = st.session_state.pop(_AGAIN, False)
    is_arrival = not (now.is_own or now.is_pressed or now.doubtful)
    if has_gone_back() or is_arrival:
        _written().clear()
    settle()
    say(_missing())
    if is_arrival and not has_gone_back():
        st.query_params.update()  # sends the address: for a link within a page Streamlit's browser keeps the old one


def rerun() -> None:
    """``st.rerun`` that forgets nothing of what was pressed."""
    say(_missing())
    st.session_state[_AGAIN] = True
    st.rerun()


def has_gone_back() -> bool:
    """Whether the browser's Back or Forward has caused this run."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def show(key: str, said: object, titles: Mapping[Any, str] | None = None) -> None:
    """The control of ``key`` shows ``said`` when it is drawn next; its callback is ``pressed``.

    The browser is only told where it may show something else: to be told again, late, would take back what was pressed
    meanwhile. Of a control that it has not drawn yet, as in a popover, it reports nothing, and it forgets what it was
    told of it. ``titles`` are what its options are called, where that is not their own name: the browser reports
    titles, and Streamlit looks them up among the options of now.
    """
    titles = titles or {}
    label, known = _label(said, titles), _shown().get(key)
    if known is None:
        known = Shown(label, titles)
    elif (old := _label(said, known.titles)) != label and known.label == old:  # the same value has another title
        known = Shown(label, titles, (known.may_be_late | {old}) - {label}, time.monotonic(), left=old)
    elif (there := _label(st.session_state[key], titles) if key in st.session_state else known.label) == label:
        known = replace(known, label=label, titles=titles, left=None if _run().says(key) else known.left)
    else:
        before = known.may_be_late | {known.label, there}
        known = Shown(label, titles, before - {label}, time.monotonic(), left=there)
    _shown()[key] = known
    is_told = key in st.session_state and st.session_state[key] == said and _run().says(key)
    if not is_told or known.may_be_late:
        st.session_state[key] = said


def seeded(key: str, value: object) -> str:
    """The key of a widget that starts at ``value`` and then keeps what the reader chose.

    A browser that has not drawn it yet, as in a popover, forgets what it is told, and is told each time.
    """
    if key not in st.session_state:
        st.session_state[key] = value
    elif not _run().says(key):
        st.session_state[key] = st.session_state[key]
    return key


def pressed(key: str, act: Callable[[], object]) -> None:
    """Does what a press on the control of ``key`` does, if it is one.

    It is none where the browser reports what the control was shown with last. Where it reports what the control was
    moved from, ``settle`` decides.
    """
    known, now = _shown()[key], _run()
    label = _label(st.session_state[key], known.titles)
    if label == known.label:
        return
    if known.is_doubtful(label) or _is_stand_in(label, known):
        now.doubtful.append(act)
    elif _is_offered(label, known):
        _shown()[key] = replace(known, label=label, left=None)
        act()


def settle() -> None:
    """Before anybody reads what presses said: a doubtful one counts if it is the only one and the browser not behind.

    Until it hears that a press elsewhere has moved a control, each press on anything reports its old value.
    """
    now = _run()
    doubtful, now.doubtful = now.doubtful, []
    for act in () if now.is_pressed or now.is_behind or has_gone_back() else doubtful:
        act()


def _run() -> Run:
    """The present one. Its first question comes before anything is written, so that the address is the browser's."""
    context = get_script_run_ctx()
    token = context.cursors if context else None  # a new object for each run
    known: Run | None = st.session_state.get(_NOW)
    if known is None or known.token is not token:
        states = context.session_state.get_widget_states() if context else []
        keys = frozenset(state.id.split("-", 2)[-1] for state in states)  # $$ID-hash-key
        known = st.session_state[_NOW] = Run(token, bool(_missing()), keys)
    return known


def _missing() -> dict[str, str | None]:
    """What was written lately and the address does not say."""
    at = time.monotonic()
    return {
        name: own.after
        for name, own in _written().items()
        if at - own.at < LATE_S and st.query_params.get(name) in own.before - {own.after}
    }


def _label(value: object, titles: Mapping[Any, str]) -> Label:
    """What the browser calls a value, and what Streamlit makes of a title that is none any more."""
    if isinstance(value, list):
        return frozenset(_label(one, titles) for one in value)
    return titles.get(value, value)


def _is_stand_in(label: Label, known: Shown) -> bool:
    """Streamlit takes the first option for one that a slider does not have any more."""
    titles = list(known.titles.values())
    return bool(titles) and label == titles[0] and not known.may_be_late.issubset(titles)


def _is_offered(label: Label, known: Shown) -> bool:
    """Streamlit hands a title on as it is where it belongs to none of the options of now."""
    labels = label if isinstance(label, frozenset) else {label}
    return not known.titles or labels <= {*known.titles.values(), None}


def _written() -> dict[str, Written]:
    written: dict[str, Written] = st.session_state.setdefault(_WRITTEN, {})
    return written


def _shown() -> dict[str, Shown]:
    shown: dict[str, Shown] = st.session_state.setdefault(_SHOWN, {})
    return shown
