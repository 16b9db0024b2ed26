"""Drops the models of the selected runs: the space it frees, and what is lost."""

from collections.abc import Sequence

import streamlit as st

from app import wording
from app.access import permits
from app.data import queries
from app.library.flash import Notice, attempt
from storage import RunRecord

COST = (
    "Rounds, curves and computed analyses are kept. New landscapes, feature maps, trade-offs and sharpness can't be "
    "computed for these runs, and their models can't be exported. This can't be undone; you would have to rerun them."
)


def panel(runs: Sequence[RunRecord]) -> None:
    """Offered if there are models to drop."""
    ids = [run.id for run in runs if run.status != "running"]
    size = queries.store().artifacts.models_bytes(ids)
    if not size or permits.why_not("delete", runs):
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


def drop(run_ids: Sequence[int]) -> Notice:
    with permits.allow("delete", queries.store(), "Drop models", run_ids=run_ids):
        freed = queries.store().artifacts.drop_models(run_ids)
    return Notice(f"Dropped models, freeing {wording.size_bytes(freed)}.")
