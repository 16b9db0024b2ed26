"""The notice of the last action or its error: a bar that stays visible, with Undo where possible."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from app import wording
from app.state.session import remember
from engine.core.errors import FedscapeError
from storage import StorageError

KEY = "library.notice"
Kind = Literal["success", "info", "error"]


@dataclass(frozen=True)
class Offer:
    """A button next to the notice."""

    label: str
    do: Callable[..., "Notice"]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Notice:
    """A sentence in Markdown, and follow-up actions. ``problems``: what did not work, beside what did."""

    text: str
    kind: Kind = "success"
    offers: tuple[Offer, ...] = ()
    problems: str = ""


def attempt(what: Callable[..., Notice], *arguments: Any) -> None:
    """Do it and show a notice of the outcome or the error. It replaces the previous notice."""
    try:
        show(what(*arguments))
    except (FedscapeError, StorageError) as error:
        show(refused(error))


def refused(error: FedscapeError | StorageError) -> Notice:
    return Notice(wording.lines(getattr(error, "problems", [str(error)])), "error")


def show(notice: Notice) -> None:
    """Show it in this run or, if another press stops this one, in the next."""
    remember(KEY, notice)


def bar() -> None:
    """A notice with offers stays until the next action; one without is shown once."""
    notice = st.session_state.get(KEY)
    if notice is None:
        return
    with st.container(key="library_notice", horizontal=True, vertical_alignment="center"):
        with st.container(gap="small", width="content"):
            if notice.problems:
                st.error(notice.problems)
            {"success": st.success, "info": st.info, "error": st.error}[notice.kind](notice.text)
        for i, offer in enumerate(notice.offers):
            st.button(offer.label, key=f"library_offer_{i}", on_click=attempt, args=(offer.do, *offer.arguments))
        if notice.offers:
            st.button("Close", key="library_notice_close", type="tertiary", on_click=_close)
    if not notice.offers:
        _close()


def _close() -> None:
    st.session_state.pop(KEY, None)
