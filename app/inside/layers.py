"""Layers of one run: in which do clients differ from the shared model, which are personal, which move most?"""

import numpy as np
import streamlit as st

from app.charts import layer_habits, layer_scores
from app.charts.plot import figure_cache
from app.components import page, terms
from app.data import queries
from app.inside.tab import Tab
from app.inside.view import RunView
from engine.core.run_json import recorded

FEW_LAYERS = 6  # fit beside another figure
MEANING = (
    "A layer's score is its distance per parameter from the shared model's layer, as a share of all layers of the "
    "client: a client's scores add up to 1, and a high score marks a layer in which the client differs most. "
    "Sharpness-aware training perturbs each layer in proportion to its score."
)
MEANING_OF_STEP = (
    "A layer's score is how far one training step of the body moved it, per parameter, as a share of all layers of "
    "the body: a client's scores add up to 1. Sharpness-aware training perturbs each layer in proportion to its score."
)


def applies(view: RunView) -> bool:
    """Whether the method scores layers."""
    return bool(len(queries.client_series(view.run.id, "diagnostics.layer_scores")[0]))


def panel(view: RunView) -> None:
    rounds, scores = queries.client_series(view.run.id, "diagnostics.layer_scores")
    if not len(rounds):
        terms.caption(f"{view.method} does not score layers; PLGU-LF and PLGU-GRep do.")
        return
    _, kept = queries.client_series(view.run.id, "diagnostics.personal_layers")
    names = layer_names(view, scores.shape[2])
    st.header("Which layers are personal?" if len(kept) else "Which layers does training move most?", anchor=False)
    left, right = st.columns(2) if len(names) <= FEW_LAYERS else (st.container(), st.container())
    with left:
        by_client(view, rounds, scores, kept if len(kept) else None, names)
    with right:
        over_rounds(view, rounds, scores, names)
        if len(kept):
            how_often(kept, names)


TAB = Tab("Layers", order=50, panel=panel, moves_with_rounds=True, applies=applies)


def by_client(view: RunView, rounds: np.ndarray, scores: np.ndarray, kept: np.ndarray | None, names: list[str]) -> None:
    at = max(view.round, int(rounds[0]))
    cells = layer_scores.data(rounds, scores, at, names, kept)
    old = int((cells["round"] < at).groupby(cells["client"]).first().sum())
    notes = [f"Before training in round {at}." if kept is not None else f"After one step of the body in round {at}."]
    notes += [f"{old} of them did not participate; their latest earlier scores are shown."] if old else []
    notes += ["Diamond: personal layer."] if kept is not None else []
    page.finding_chart(
        figure_cache.figure(layer_scores.figure, cells),
        cells,
        layer_scores.finding(cells),
        key="layer_scores",
        name="layer-scores",
        title="Score of each layer by client",
        also=" ".join(notes),
    )
    terms.caption(MEANING if kept is not None else MEANING_OF_STEP)


def over_rounds(view: RunView, rounds: np.ndarray, scores: np.ndarray, names: list[str]) -> None:
    means = layer_habits.data(rounds, scores, names)
    page.finding_chart(
        figure_cache.figure(layer_habits.figure, means, view.round),
        means,
        layer_habits.finding(means),
        key="layer_means",
        name="layer-means",
        title="Mean score of each layer by round",
    )


def how_often(kept: np.ndarray, names: list[str]) -> None:
    often = layer_habits.how_often(kept, names)
    page.finding_chart(
        layer_habits.bars(often),
        often,
        layer_habits.often_finding(often),
        key="layers_kept",
        name="layers-kept",
        title="How often each layer was personal",
    )


def layer_names(view: RunView, count: int) -> list[str]:
    """The model's layer names, from input to output; numbers for runs that did not record them."""
    known = recorded(view.run.provenance).extra.layers
    scored = known if len(known) == count else [name for name in known if name.startswith("body.")]
    if len(scored) != count:
        return [f"layer {i + 1}" for i in range(count)]
    return [f"{i + 1} · {name}" for i, name in enumerate(scored)]
