"""An analysis on the screen: the button that queues it, its progress, what went wrong, and in the end its findings."""

from typing import Any

import streamlit as st

from app import queries
from app.inside.view import RunView
from app.wording import plain
from engine.findings import Findings


def findings(view: RunView, kind: str, options: dict[str, Any], *, verb: str, cost: str) -> Findings | None:
    """What the analysis ``kind`` with ``options`` has found in the view's run; None while there is nothing yet.

    Then the reader sees a button ``verb`` with its ``cost`` in words ("1,681 evaluations, some 5 s"), how far the work
    is, or why it failed. ``options`` name every option that differs from its default: they are the key of the answer.
    """
    store = queries.store()
    same = [a for a in store.analyses.list(view.run.id, kind) if a.params == options]
    done = next((a for a in same if a.status == "done" and a.artifact_id is not None), None)
    if done is not None and done.artifact_id is not None:
        artifact = store.artifacts.get(done.artifact_id)
        return None if artifact is None else Findings.from_bytes(store.artifacts.read(artifact))
    if same:
        st.caption(plain(f"{kind}: {same[0].status}"))
        return None
    if st.button(verb, key=f"analysis_{kind}_{sorted(options.items())}", help=cost):
        store.analyses.request(view.run.id, kind, options)
        st.rerun()
    st.caption(plain(cost))
    return None
