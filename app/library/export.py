"""Exports the selected runs: their numbers, or a bundle with models and logs."""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from app import wording
from app.actions import exchange
from app.data import queries
from storage import RunRecord

IF_IT_FAILS = "If the export fails, reload the page: a run may have been deleted."  # a download shows no reason
MAX_BYTES = 10**9  # more is too large to download in a browser


def buttons(runs: Sequence[RunRecord]) -> None:
    """Each file is made when its button is pressed. Only runs that have ended can be imported again."""
    ended, begun = [run for run in runs if run.is_finished], [run for run in runs if run.round >= 0]
    of = f"the {len(ended)} of {len(runs)} runs that have ended" if len(ended) < len(runs) else ""
    if ended:
        json_of = partial(exchange.json_of, [run.id for run in ended])
        file_button("JSON", json_of, ended, "application/json", f"{wording.capital(of)}. " if of else "")
    if begun:
        file_button("CSV", partial(exchange.csv_of, [run.id for run in begun]), begun, "text/csv")
    if ended:
        with st.popover("Export bundle", key="bundle"):
            bundle(ended, of or wording.plural(len(ended), "run"))


def file_button(title: str, write: Callable[[], bytes], runs: Sequence[RunRecord], mime: str, of: str = "") -> None:
    name = f"{exchange.file_name(runs)}.{title.lower()}"
    st.download_button(
        f"Export {title}", write, name, mime, key=title.lower(), help=of + IF_IT_FAILS, on_click="ignore"
    )


def bundle(runs: Sequence[RunRecord], several: str) -> None:
    ids = [run.id for run in runs]
    size = queries.store().artifacts.models_bytes(ids)
    st.write(
        f"One ZIP file with {several}: rounds, {wording.size_bytes(size)} of models, analyses and logs. "
        "You can import it into another Library."
    )
    if size <= MAX_BYTES:
        st.download_button(
            "Download bundle",
            partial(exchange.bundle_of, ids),
            f"{exchange.file_name(runs)}.zip",
            "application/zip",
            key="zip",
            type="primary",
            on_click="ignore",
        )
        st.caption("If the export fails, this shows why; it skips damaged files:")
    else:
        st.caption("Too large to download here. This writes it to a file:")
    st.code(f"python -m engine export {' '.join(map(str, ids))} --format bundle", language=None, wrap_lines=True)
