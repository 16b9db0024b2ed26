"""What was done last, or why it could not be: a bar that stays in sight, with the way back where there is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from app import wording
from engine.core.errors import FedscapeError
from storage import StorageError

KEY = "library.said"
Kind = Literal["success", "info", "error"]


@dataclass(frozen=True)
class Offer:
    """A button beside what was said."""

    label: str
    do: Callable[..., "Said"]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Said:
    """A sentence, as Markdown, and what one may do about it."""

    text: str
    kind: Kind = "success"
    offers: tuple[Offer, ...] = ()


def attempt(what: Callable[..., Said], *arguments: Any) -> None:
    """Do it, and say what was done or why it cannot be. What was offered before is over then."""
    try:
        say(what(*arguments))
    except (FedscapeError, StorageError) as error:
        say(refused(error))


def refused(error: FedscapeError | StorageError) -> Said:
    return Said(wording.lines(getattr(error, "problems", [str(error)])), "error")


def say(said: Said) -> None:
    st.session_state[KEY] = said


def bar() -> None:
    """What has an offer stays until the next action; what has none is said once."""
    said = st.session_state.get(KEY)
    if said is None:
        return
    if not said.offers:
        del st.session_state[KEY]
    with st.container(key="library_said", horizontal=True, vertical_alignment="center"):
        {"success": st.success, "info": st.info, "error": st.error}[said.kind](said.text)
        for i, offer in enumerate(said.offers):
            st.button(offer.label, key=f"library_offer_{i}", on_click=attempt, args=(offer.do, *offer.arguments))
        if said.offers:
            st.button("Close", key="library_said_close", type="tertiary", on_click=_close)


def _close() -> None:
    st.session_state.pop(KEY, None)
