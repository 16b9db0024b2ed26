"""Dropping the models of the chosen runs: what it frees, and what it costs."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.data import queries
from app.library.flash import Said, attempt
from storage import RunRecord

COST = (
    "Rounds, curves and analyses that were computed stay. No new landscape, feature map, trade-off or sharpness can be "
    "computed for these runs then, and their models cannot be exported. There is no way back but to run them again."
)


def panel(runs: Sequence[RunRecord]) -> None:
    """Offered where there are models to drop."""
    ids = [run.id for run in runs if run.status != "running"]
    size = queries.store().artifacts.models_bytes(ids)
    if not size:
        return
    with st.popover("Drop models", key="models"):
        st.write(f"Frees {wording.size_bytes(size)}. {COST}")
        st.button(
            f"Drop {wording.size_bytes(size)} of models",
            key="models_now",
            type="primary",
            on_click=attempt,
            args=(drop, [run.id for run in runs]),
        )


def drop(run_ids: Sequence[int]) -> Said:
    freed = queries.store().artifacts.drop_models(run_ids)
    return Said(f"Dropped the models of {wording.plural(len(run_ids), 'run')}: {wording.size_bytes(freed)} are free.")
