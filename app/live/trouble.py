"""Runs that failed or diverged: why, what the log says, and the way out."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app import links, queries
from app.comparison import run_name
from app.one_run import experiment_of
from app.wording import plain
from storage import RunRecord


def what_happened(run: RunRecord) -> None:
    """The log of a run that went wrong, and the way out."""
    with st.expander(plain(f"What happened to {run_name(run)}?")):
        st.text(run.error or "no reason was stored")
        events = queries.store().events.list(run.id, limit=20)
        if events:
            st.code("\n".join(f"{e.at:%Y-%m-%d %H:%M:%S} {e.level} {e.message}" for e in events), language=None)
        if run.id in (offers := retry_links([run])):
            st.html(f'<a href="{offers[run.id]}" target="_self">Set it up again with a third of the learning rate</a>')


def retry_links(runs: Sequence[RunRecord]) -> dict[int, str]:
    """For each diverged run: Set up, filled with its configuration and a third of its learning rate."""
    return {run.id: links.setup_link(gentler(run)) for run in runs if run.status == "diverged"}


def gentler(run: RunRecord) -> dict[str, Any]:
    """The experiment of one run, with lr / 3."""
    alone = experiment_of(run)
    training = alone["training"] | {"lr": float(f"{run.config['training']['lr'] / 3:.3g}")}
    return alone | {"name": f"{run.experiment_name}, gentler", "training": training}
