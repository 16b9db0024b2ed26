"""What is remembered of a reader's visit to a page, from one run of its script to the next."""

from dataclasses import dataclass, field

import streamlit as st

_VISIT = "url_state.visit"


@dataclass
class Visit:
    """A visit to one page, from opening it until a link, Back or Forward.

    ``choices`` are those in the address. ``known`` are the addresses that the browser may report: the last one it did
    report, and those written since. ``drawn`` are the names of the controls of the last run, in order; ``is_drawn`` is
    whether that run reached the end of the page.
    """

    page: str
    choices: dict[str, str]
    known: list[dict[str, str]]
    is_history: bool = False
    is_new: bool = True
    is_drawn: bool = False
    drawn: dict[str, None] = field(default_factory=dict)

    def choose(self, name: str, text: str | None) -> None:
        """Set a choice. None restores the default."""
        if text is None:
            self.choices.pop(name, None)
        else:
            self.choices[name] = text


def current() -> Visit:
    """Return the visit of this session."""
    visit: Visit = st.session_state.setdefault(_VISIT, Visit("", st.query_params.to_dict(), [{}]))
    return visit


def start(visit: Visit) -> None:
    """Replace the visit of this session."""
    st.session_state[_VISIT] = visit
