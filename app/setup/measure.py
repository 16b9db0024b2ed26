"""R-hat on demand: how much the clients' own models differ. It trains, so it needs a button."""

import json
import math
from collections.abc import Hashable
from functools import partial

import streamlit as st

from app.components.queue_position import queue_position
from app.data.lru import Lru
from app.data.once import Once
from app.data.pools import federation_of, file_state
from app.data.turns import leave_if_outdated
from app.setup.cost import MAX_STATE_BYTES
from app.state.fragments import fragment
from app.wording import plain
from engine.config.schema import RunConfig
from engine.core.errors import FedscapeError
from engine.simulation.preflight import num_bytes
from engine.simulation.simulate import Simulation
from engine.training import heterogeneity

MEASURED = "setup.measured"
_r_hats: Lru[Hashable, Once[float]] = Lru(100)


@fragment
def measure_panel(run: RunConfig) -> None:
    """A button, and the number for the current split."""
    what = _what(run)
    if st.button(
        "Measure how different the clients are (R̂)",
        key="measure",
        help="Measures how much clients differ: trains softmax regression on each client alone, a few seconds",
    ):
        st.session_state[MEASURED] = what
    if st.session_state.get(MEASURED) == what:
        with queue_position(), st.spinner("Training on each client alone"):
            st.caption(plain(finding(r_hat(run))))


def finding(value: float) -> str:
    """The number in words; NaN if training alone was rejected or diverged."""
    if not math.isfinite(value):
        return (
            "R̂ is not available: softmax regression does not suit this data, needs too much memory here, or diverged "
            "on a client."
        )
    return (
        f"R̂ = {value:.3g}: the largest distance of a client's model from the mean of all models, after "
        f"{heterogeneity.STEPS} steps of softmax regression on each client alone. 0: all clients are alike."
    )


def r_hat(run: RunConfig) -> float:
    """R-hat of the split of ``run``, computed in a turn, once per split."""
    key = (_what(run), file_state(run))
    try:
        return _r_hats.get_or_put(key, lambda: Once(partial(_computed, run))).get()
    except FedscapeError:
        return math.nan


def _what(run: RunConfig) -> str:
    return json.dumps([run.dataset.to_dict(), run.partition.to_dict(), run.split], sort_keys=True)


def _computed(run: RunConfig) -> float:
    data = federation_of(run)
    if num_bytes(run, data) > MAX_STATE_BYTES:
        return math.nan
    return heterogeneity.estimate(Simulation(run, data=data, tick=leave_if_outdated).task)[0]
