"""Layers of one run: in which of them do clients differ from the shared model, and which do they keep?"""

import numpy as np
import streamlit as st

from app.charts import layer_habits, layer_scores
from app.components import page
from app.data import queries
from app.inside.view import RunView
from app.wording import plain
from engine.core.run_json import recorded

FEW_LAYERS = 6  # fit beside another figure
MEANING = (
    "A layer's score is its distance from the shared model's, per parameter, as a share of all layers of the client: "
    "the scores of a client add up to 1, and a high one is a layer in which the client has an opinion of its own. "
    "Sharpness-aware training perturbs a layer as far as its score says."
)


def applies(view: RunView) -> bool:
    """Whether the method scores layers."""
    return bool(len(queries.client_series(view.run.id, "diagnostics.layer_scores")[0]))


def panel(view: RunView) -> None:
    rounds, scores = queries.client_series(view.run.id, "diagnostics.layer_scores")
    if not len(rounds):
        st.caption(plain(f"{view.method} does not score layers; PLGU-LF and PLGU-GRep do, in each round."))
        return
    _, kept = queries.client_series(view.run.id, "diagnostics.personal_layers")
    names = layer_names(view, scores.shape[2])
    st.header("Which layers are personal?", anchor=False)
    left, right = st.columns(2) if len(names) <= FEW_LAYERS else (st.container(), st.container())
    with left:
        by_client(view, rounds, scores, kept if len(kept) else None, names)
    with right:
        over_rounds(view, rounds, scores, names)
        if len(kept):
            how_often(kept, names)


def by_client(view: RunView, rounds: np.ndarray, scores: np.ndarray, kept: np.ndarray | None, names: list[str]) -> None:
    at = max(view.round, int(rounds[0]))
    cells = layer_scores.data(rounds, scores, at, names, kept)
    old = int((cells["round"] < at).groupby(cells["client"]).first().sum())
    said = [f"Before the training of round {at}."]
    said += [f"{old} of them sat out then: their last scores before it are shown."] if old else []
    said += ["Outlined with a diamond: kept personal."] if kept is not None else []
    page.told(
        layer_scores.figure(cells),
        cells,
        layer_scores.finding(cells),
        key="layer_scores",
        name="layer-scores",
        title="Score of each layer, client by client",
        also=" ".join(said),
    )
    st.caption(plain(MEANING))


def over_rounds(view: RunView, rounds: np.ndarray, scores: np.ndarray, names: list[str]) -> None:
    means = layer_habits.data(rounds, scores, names)
    page.told(
        layer_habits.figure(means, view.round),
        means,
        layer_habits.finding(means),
        key="layer_means",
        name="layer-means",
        title="Mean score of each layer, round by round",
    )


def how_often(kept: np.ndarray, names: list[str]) -> None:
    often = layer_habits.how_often(kept, names)
    page.told(
        layer_habits.bars(often),
        often,
        layer_habits.often_finding(often),
        key="layers_kept",
        name="layers-kept",
        title="How often each layer was kept personal",
    )


def layer_names(view: RunView, count: int) -> list[str]:
    """As the model calls them, from the input to the output; numbers for runs that did not write them down."""
    known = recorded(view.run.provenance).extra.layers
    scored = known if len(known) == count else [name for name in known if name.startswith("body.")]
    if len(scored) != count:
        return [f"layer {i + 1}" for i in range(count)]
    return [f"{i + 1} · {name}" for i, name in enumerate(scored)]
