"""Changes to the analyses of a run, and the reason if the last one was not allowed."""

from collections.abc import Callable

import streamlit as st

from app.access import permits
from app.access.errors import NotAllowed
from app.access.permits import Adds
from app.data import queries
from app.wording import plain
from storage.analyses import Analyses

_REFUSED = "analyze.refused"


def perform(did: str, run_id: int, change: Callable[[Analyses], object], adds: Adds = "runs") -> None:
    """Makes the change if this person may change the analyses of this run. ``show_refusal`` shows why they may not."""
    store = queries.store()
    try:
        with permits.allow("analyze", store, did, run_ids=[run_id], adds=adds):
            change(store.analyses)
    except NotAllowed as error:
        st.session_state[_REFUSED] = str(error)


def show_refusal() -> None:
    """Once."""
    if reason := st.session_state.pop(_REFUSED, None):
        st.error(plain(reason))
