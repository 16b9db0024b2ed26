"""Exports the selected runs: their numbers, or a bundle with models and logs."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import wording
from app.actions import exchange
from app.data import queries
from storage import RunRecord

MAX_BYTES = 10**9  # more is too large to download in a browser


def buttons(runs: Sequence[RunRecord]) -> None:
    """Each file is made when its button is pressed."""
    ids, name = [run.id for run in runs], exchange.file_name(runs)
    for title, write, mime in (("JSON", exchange.json_of, "application/json"), ("CSV", exchange.csv_of, "text/csv")):
        st.download_button(
            f"Export {title}",
            partial(write, ids),
            f"{name}.{title.lower()}",
            mime,
            key=title.lower(),
            on_click="ignore",
        )
    if ended := [run.id for run in runs if run.is_finished]:
        with st.popover("Export bundle", key="bundle"):
            bundle(ended, name, len(runs) - len(ended))


def bundle(ids: Sequence[int], name: str, left: int) -> None:
    size = queries.store().artifacts.models_bytes(ids)
    several = f"the {len(ids)} of {len(ids) + left} runs that have ended" if left else wording.plural(len(ids), "run")
    st.write(
        f"One ZIP file with {several}: rounds, {wording.size_bytes(size)} of models, analyses and logs. "
        "You can import it into another Library."
    )
    if size <= MAX_BYTES:
        st.download_button(
            "Download bundle",
            partial(exchange.bundle_of, ids),
            f"{name}.zip",
            "application/zip",
            key="zip",
            type="primary",
            on_click="ignore",
        )
        st.caption("If export fails, a file is damaged; this skips and names it:")
    else:
        st.caption("Too large to download here. This writes it to a file:")
    st.code(f"python -m engine export {' '.join(map(str, ids))} --format bundle", language=None, wrap_lines=True)
