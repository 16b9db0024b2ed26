"""The runs of a preset: their progress, their cost, and the button that queues them."""

from collections.abc import Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.actions import launch
from app.components import page
from app.components.queue_button import queue_button
from app.components.queue_position import queue_position
from app.components.timed import timed
from app.data import queries
from app.data.preset_catalog import SCALE_WORDS, SCALES, experiments, preset_runs
from app.papers.preset_progress import Standing, standing
from app.setup import cost
from app.wording import duration, plain, plural, size_bytes
from engine.config.presets import Preset
from engine.core.errors import FedscapeError

REFRESH_S = 3


def progress_panel(preset: Preset, scale: str, now: Standing) -> None:
    """The progress of the runs, and buttons for the missing ones."""
    st.markdown(f"**{SCALES[scale]}**: {plain(now.sentence())}.")
    if now.is_active:
        _follow(preset, scale, now.sentence())
    row, notice = st.container(horizontal=True, vertical_alignment="center", key="papers_actions"), st.container()
    with row:
        if now.unfinished:
            _queue_missing(preset, scale, now, notice)
        if now.runs:
            page.link("live", "Watch live", runs=",".join(str(run.id) for run in now.runs))
        if now.unfinished:
            _estimate_button(preset, scale)


@timed(REFRESH_S)
def _follow(preset: Preset, scale: str, shown: str) -> None:
    """Redraw the whole page when the progress is no longer as ``shown``."""
    if standing(preset_runs(preset, scale)).sentence() != shown:
        st.rerun()


def _queue_missing(preset: Preset, scale: str, now: Standing, notice: DeltaGenerator) -> None:
    """Queue all experiments, or the incomplete ones."""
    missing = now.unfinished
    count = sum(w.experiment in missing for w, _ in now.pairs)
    some = now.runs and len(missing) < len(preset.configs(scale))
    what = "missing experiments" if some else f"the {SCALE_WORDS[scale]} version"
    if now.runs and not some:
        exist = plural(len(now.runs), "of these runs exists", "of these runs exist")
        st.caption(f"{exist} and {'is' if len(now.runs) == 1 else 'are'} shown below.")
    run_button(preset, scale, f"Run {what} ({plural(count, 'run')})", notice, missing)


def run_button(
    preset: Preset, scale: str, label: str, notice: DeltaGenerator, only: Sequence[str] | None = None
) -> None:
    """Queue the experiments of a scale, or those named in ``only``. ``queue_button`` shows its notice in ``notice``."""
    key, queue = f"papers_run_{preset.name}_{scale}", partial(launch.queue_preset, preset, scale, only)
    if queue_button(label, key, queue, doing="Checking the data", width="content", notice=notice):
        st.rerun()


def _estimate_button(preset: Preset, scale: str) -> None:
    """Times each method briefly, which takes a while itself."""
    key = f"papers_estimate_{preset.name}_{scale}"
    if not st.button("Estimate the time here", key=key):
        return
    runs = [run for experiment in experiments(preset, scale) for run in experiment.runs()]
    bar = st.progress(0.0, "Timing each method")
    costs = []
    try:
        with queue_position():
            for i, run in enumerate(runs):
                costs.append(cost.cost_of(run))
                bar.progress((i + 1) / len(runs), f"Timed {i + 1} of {plural(len(runs), 'run')}")
    except FedscapeError as error:
        bar.empty()
        st.warning(plain(str(error)))
        return
    bar.empty()
    st.markdown(plain(_estimate(costs, max(sum(engine.slots for engine in queries.engines()), 1))))


def _estimate(costs: list[cost.Cost], slots: int) -> str:
    whole, unknown = cost.total_cost(costs, slots), sum(one.seconds is None for one in costs)
    beyond = f", not counting {plural(unknown, 'run')} too slow to time" if unknown else ""
    disk = f"{size_bytes(whole.disk_bytes)} on disk"
    return f"About {duration(whole.seconds)} on {plural(slots, 'slot')}{beyond}; {disk}."
