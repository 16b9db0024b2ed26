"""The buttons that load the example results, and the shipped result of a study."""

import streamlit as st

from app.access import permits
from app.actions import exchange, launch
from app.wording import plain
from engine.config.presets import Preset
from storage import StorageError


def examples_button() -> None:
    """Loads them and redraws the page, which then shows them."""
    if not exchange.example_files() or permits.refusal("import"):
        return
    if not st.button("Load examples", key="load_examples"):
        return
    try:
        loaded = exchange.load_examples()
    except StorageError as error:
        st.error(plain(str(error)))
        return
    if loaded:
        st.rerun()
    st.info("The examples are archived; unarchive them in the Library.")


def study_button(preset: Preset, scale: str) -> None:
    """Loads the shipped result of a study and opens it on the Study page."""
    if permits.refusal("import") or not st.button("Open the shipped result", key=f"open_{preset.name}_{scale}"):
        return
    bar = st.progress(0.0, "Reading the runs")

    def tell(number: int, total: int) -> None:
        bar.progress(number / total, f"Run {number} of {total}")

    try:
        study = exchange.load_study(preset, scale, tell)
    except StorageError as error:
        st.error(plain(str(error)))
        return
    finally:
        bar.empty()
    launch.open_page("study", "Open the study", experiment=study.id)
