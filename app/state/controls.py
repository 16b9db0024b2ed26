"""The controls of a page: widgets whose values are choices, and what the browser reports about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from app.state import visit

T = TypeVar("T")
_CONTROLS = "url_state.controls"


@dataclass
class Control(Generic[T]):
    """A widget that shows a choice. ``value`` is the value it showed last, and a press passes the new one to ``act``.

    ``left`` are the titles of the value that the program last replaced; the browser reports values by their titles, and
    may still report these. ``holds`` is False from when the program makes a choice until the widget is drawn again: the
    widget's own value is out of date then.
    """

    key: str
    value: T
    titles: Mapping[Any, str] | None
    act: Callable[[T], object]
    number: int = 1
    left: frozenset[object] | None = None
    holds: bool = True

    @property
    def now(self) -> T:
        value: T = st.session_state.get(self.key, self.value)
        return value

    def offers(self, value: object) -> bool:
        return self.titles is None or all(one in self.titles or one is None for one in _several(value))

    def titles_of(self, value: object) -> frozenset[object]:
        return frozenset((self.titles or {}).get(one, one) for one in _several(value))

    def may_be_late(self) -> bool:
        """Whether the value may be an outdated report instead of a press.

        For a slider's stop that no longer exists, Streamlit reports the first stop.
        """
        if self.left is None or self.titles_of(self.now) == self.left:
            return self.left is not None
        stops = self.titles or {}
        return bool(stops) and self.now == next(iter(stops)) and not self.left <= {*stops.values()}


def by_name() -> dict[str, Control[Any]]:
    """Return the controls of the current page by name."""
    named: dict[str, Control[Any]] = st.session_state.setdefault(_CONTROLS, {})
    return named


def keep(names: Mapping[str, None]) -> None:
    """Forget all controls but these."""
    st.session_state[_CONTROLS] = {name: by_name()[name] for name in names}


def show(name: str, new: Control[T], in_popover: bool = False) -> Control[T]:
    """Make the widget show the value of ``new``, and remember which older value the browser may still report."""
    known = by_name().get(name)
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
    by_name()[name] = new
    visit.current().drawn[name] = None
    return new


def settle() -> None:
    """Separate presses from outdated reports, undo the reports, and act on the presses.

    Until the browser has received a control's new value, it reports the old one with every press of another control. A
    report of the old value counts as a press only if it is the only change and the browser has the latest address.
    """
    all_controls = by_name()
    shown = [control for control in all_controls.values() if control.holds]
    moved = [control for control in shown if not _is_same(control.now, control.value)]
    for control in shown:
        if control not in moved:
            control.left = None
    doubtful = [control for control in moved if control.may_be_late() or not control.offers(control.now)]
    pressed = [control for control in moved if control not in doubtful]
    now = visit.current()
    is_behind = st.query_params.to_dict() != now.known[-1]
    if not is_behind and now.is_drawn:
        now.known = now.known[-1:]
    is_late = is_behind or pressed or len(doubtful) > 1 or len(shown) < len(all_controls)
    for control in doubtful:
        if is_late or not control.offers(control.now):
            st.session_state[control.key] = control.value
        else:
            pressed.append(control)
    for control in pressed:
        value = control.now
        control.act(value)  # first: if this run is stopped here, the next one acts on the same press
        control.value, control.left = value, None


def _several(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_same(one: object, other: object) -> bool:
    """Of several values the order does not matter."""
    return set(_several(one)) == set(_several(other))
