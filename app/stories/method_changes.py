"""What one of two methods of a story changes for each client: as shipped, and in the reader's run."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Moves, are_results_hidden, moving_figure, still
from app.stories.dial_example import load
from app.stories.dial_run import DialRun
from app.stories.figures import client_changes


def draw(name: str, methods: Sequence[str], pair: tuple[str, str], stop: str, run: DialRun | None, count: int) -> None:
    """A heading and bars of ``count`` clients: the first of the ``pair`` against the second."""
    ours, theirs = pair
    st.header(f"{ours} instead of {theirs}: change for each client (seed {load(name).seeds[0]})", anchor=False)
    df, reach = changes(name, methods, pair, stop, run), _reach(name, pair, stop)
    moves: Moves = {} if df is None else client_changes.moving(df, reach)
    alt = "Change for each client; this run has not started" if df is None else client_changes.finding(df)
    moving_figure(_still_changes(count, reach), moves, key="changes_figure", alt=alt, name=f"{name}-clients")


def changes(
    name: str, methods: Sequence[str], pair: tuple[str, str], stop: str, run: DialRun | None
) -> pd.DataFrame | None:
    """The change for each client in this run; before it starts the shipped one, unless it is to be predicted."""
    if run:
        ours, theirs = (run.now.accuracies[methods.index(method)] for method in pair)
        return client_changes.data(ours, theirs)
    return None if are_results_hidden() else _shipped(name, pair, stop)


def _shipped(name: str, pair: tuple[str, str], stop: str) -> pd.DataFrame:
    ended = load(name).clients_at(stop)
    ours, theirs = (ended[method] for method in pair)
    return client_changes.data(ours, theirs)


def _reach(name: str, pair: tuple[str, str], stop: str) -> float:
    return float(np.ceil(_shipped(name, pair, stop)["change"].abs().max()))


@still
def _still_changes(count: int, reach: float) -> go.Figure:
    return client_changes.figure(count, reach)
