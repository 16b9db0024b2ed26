"""The runs of a preset: how far they are, what they will take, and the button that queues them."""

import streamlit as st

from app.actions import launch
from app.components import page
from app.data import queries
from app.data.preset_catalog import SCALE_WORDS, SCALES, experiments, wanted
from app.papers.preset_progress import Standing, standing
from app.setup import cost
from app.wording import duration, lines, plain, plural, size_bytes
from engine.config.presets import Preset
from engine.core.errors import FedscapeError, InvalidConfig
from storage import StorageError

LOOK_AGAIN_S = 3


def progress_panel(preset: Preset, scale: str, now: Standing) -> None:
    """Where the runs stand, what is missing, and how to get it."""
    st.markdown(f"**{SCALES[scale]}**: {plain(now.sentence())}.")
    if now.is_active:
        _follow(preset, scale, now.sentence())
    with st.container(horizontal=True, vertical_alignment="center", key="papers_actions"):
        if now.unfinished:
            _queue_button(preset, scale, now)
        if now.runs:
            page.link("live", "Watch them", runs=",".join(str(run.id) for run in now.runs))
        if now.unfinished:
            _estimate_button(preset, scale)


@st.fragment(run_every=LOOK_AGAIN_S)
def _follow(preset: Preset, scale: str, said: str) -> None:
    """When the runs stand otherwise than ``said`` the whole page is drawn again, with the new numbers."""
    if standing(wanted(preset, scale)).sentence() != said:
        st.rerun()


def _queue_button(preset: Preset, scale: str, now: Standing) -> None:
    """All experiments, or those that are not complete."""
    missing = now.unfinished
    count = sum(w.experiment in missing for w, _ in now.pairs)
    some = now.runs and len(missing) < len(preset.configs(scale))
    what = "what is missing" if some else f"the {SCALE_WORDS[scale]} version"
    if now.runs and not some:
        st.caption(f"Of these very runs {len(now.runs)} are here already, and shown below.")
    if not st.button(
        f"Run {what} ({plural(count, 'run')})",
        key=f"papers_run_{preset.name}_{scale}",
        type="primary",
    ):
        return
    try:
        with st.spinner("Checking the data"):
            launch.queue_preset(preset, scale, missing)
    except FedscapeError as error:
        st.error(lines(error.problems) if isinstance(error, InvalidConfig) else plain(str(error)))
    except StorageError as error:
        st.error(plain(str(error)))
    else:
        st.rerun()


def _estimate_button(preset: Preset, scale: str) -> None:
    """Measures a moment of every method, which takes a while itself."""
    key = f"papers_estimate_{preset.name}_{scale}"
    if not st.button("Estimate the time here", key=key):
        return
    runs = [run for experiment in experiments(preset, scale) for run in experiment.runs()]
    bar = st.progress(0.0, "Measuring a moment of every method")
    costs = []
    try:
        for i, run in enumerate(runs):
            costs.append(cost.cost_of(run))
            bar.progress((i + 1) / len(runs), f"Measured {i + 1} of {plural(len(runs), 'run')}")
    except FedscapeError as error:
        bar.empty()
        st.warning(plain(str(error)))
        return
    bar.empty()
    st.markdown(plain(_estimate(costs, max(sum(engine.slots for engine in queries.engines()), 1))))


def _estimate(costs: list[cost.Cost], slots: int) -> str:
    whole, unknown = cost.together(costs, slots), sum(one.seconds is None for one in costs)
    beyond = f", and {plural(unknown, 'run')} that a moment was not enough to measure" if unknown else ""
    disk = f"{size_bytes(whole.disk_bytes)} on disk"
    return f"About {duration(whole.seconds)} on {plural(slots, 'slot')}{beyond}; {disk}."
