"""R-hat on demand: how much the clients' own models differ. It trains, so it needs a button."""

import json
import math

import streamlit as st

from app.data.pools import federation_of
from app.setup.cost import LARGEST_STATE
from app.wording import plain
from engine.config.schema import RunConfig
from engine.core.errors import FedscapeError
from engine.simulation.preflight import num_bytes
from engine.simulation.simulate import Simulation
from engine.training import heterogeneity

MEASURED = "setup.measured"


@st.fragment
def measure_panel(run: RunConfig) -> None:
    """A button, and the number for the current split."""
    what = json.dumps([run.dataset.to_dict(), run.partition.to_dict(), run.seed], sort_keys=True)
    if st.button(
        "Measure R̂",
        key="measure",
        help="Measures how much clients differ: trains softmax regression on each client alone, a few seconds",
    ):
        st.session_state[MEASURED] = what
    if st.session_state.get(MEASURED) == what:
        st.caption(plain(finding(r_hat(what, run))))


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


@st.cache_data(max_entries=100, ttl=600, show_spinner="Training on each client alone")
def r_hat(what: str, _run: RunConfig) -> float:
    """R-hat of the split of ``_run``."""
    try:
        data = federation_of(_run)
        if num_bytes(_run, data) > LARGEST_STATE:
            return math.nan
        return heterogeneity.estimate(Simulation(_run, data=data).task)[0]
    except FedscapeError:
        return math.nan
