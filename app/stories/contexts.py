"""Contexts and clusters: how many models suit a federation with a few kinds of clients?

Twenty clients in four true contexts: the same ten groups of points, labelled differently in each context. CGPFL finds
K clusters of clients by k-means on their models, and pulls every client towards the model of its cluster.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import moving_figure, still
from app.stories.context_curve import HEUR, NUM_CLIENTS, NUM_CONTEXTS, Guesses, Stop, example, stops
from app.stories.figures import context_count, context_plane
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent

if TYPE_CHECKING:
    from app.stories.context_run import ContextRun

SEED = 0
ROUNDS = 30
TRAINING_SAMPLES, TEST_SAMPLES = 30, 100  # of each client
NOISE = 1.5
EXTENT = 4.2  # of the plane: beyond the furthest model of all runs
ALONE = {"name": "local_train", "label": "Alone"}
TOGETHER = {"name": "fedavg", "label": "Together"}


class ContextsAndClusters:
    order = 40
    slug = "contexts"
    short = "Contexts and clusters"
    kicker = f"Generated · {NUM_CLIENTS} clients in {NUM_CONTEXTS} contexts · {TRAINING_SAMPLES} samples each"
    title = "How many kinds of clients are there?"
    lead = (
        "Clients of one context label things the same way, those of another do not, and the contexts are unknown. "
        "CGPFL groups the clients into K clusters by their models and pulls each model towards that of its cluster."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            _scene(
                "One for all",
                1,
                "K = 1: one model in the middle of all clients, whose labels contradict one another. Clients pull away "
                "from the centre and end at {goal}, below the {alone} of learning alone.",
            ),
            _scene(
                "Too few",
                2,
                "Two clusters for four contexts: shapes that should be separate share a letter. {goal} on average, "
                "and clients grouped with the wrong ones lose accuracy.",
            ),
            _scene(
                "Just right",
                4,
                "Each shape gets its own letter: five clients with 30 samples learn together like one client with 150. "
                "{goal}, where each alone reaches {alone}.",
            ),
            _scene(
                "Too many",
                10,
                "No contexts are mixed, but clients that could learn together are split, and each cluster has too few "
                "samples: {goal}.",
            ),
            _scene(
                "Nearly alone",
                NUM_CLIENTS,
                "K = N: every client is its own cluster. {goal}, as good as learning alone: {alone}.",
            ),
            Scene("Choosing K", {"clusters": HEUR}, _heuristic_text()),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {stop: stop for stop in stops()} | {
            HEUR: f"★ heuristic: {example().K_hat}",
            f"{NUM_CLIENTS}": "20 = N",
        }
        return [Dial("clusters", "Number of clusters (K)", titles, "1")]

    def start(self, place: Place) -> "ContextRun":
        from app.stories.context_run import ContextRun

        return ContextRun(experiment(method(_read(place))))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "ContextRun | None", marks: Sequence[Mark]) -> None:
        stop = _read(place)
        ends = [(example().K_of(_read(mark.place)), mark.value) for mark in marks]
        df = _models(run)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header("Accuracy by number of clusters", anchor=False)
            _count_figure(stop, run.accuracies if run else [], ends)
        with side:
            st.header("Client models (letter: assigned cluster; shape: true group)", anchor=False)
            moves, alt = context_plane.moving(df, EXTENT), context_plane.finding(df)
            moving_figure(_still_plane(), moves, key="context_figure", alt=alt, name="clients-and-clusters")
            reading(self, place, _now(stop, run), finding(stop))

    def config(self, place: Place) -> Mapping[str, Any]:
        """The same question as an experiment: both references, the heuristic and the chosen K."""
        return experiment(ALONE, TOGETHER, *map(method, dict.fromkeys((_read(place), HEUR))))

    def setup_label(self, place: Place) -> str:
        ours = "" if place["clusters"] == HEUR else f" and K = {place['clusters']}"
        return f"alone, together, the heuristic{ours} on these clients"

    def table(self) -> pd.DataFrame:
        return context_count.data(example())

    @property
    def caption(self) -> str:
        return (
            "The dot and the models are trained live. The plane shows the models' first two principal components, "
            "recomputed after every round; each client is drawn on a small ring around its position. The curve and the "
            "dotted lines are example results on the same clients that ship with Fedscape: "
            f"{ROUNDS} rounds, accuracy on {TEST_SAMPLES} test samples per client, n = {NUM_CLIENTS} clients. Band: "
            f"mean ± standard deviation over {example().num_draws} draws of such clients. Computed by "
            f"`{example().command}`."
        )


STORY = ContextsAndClusters()


def method(stop: Stop) -> dict[str, Any]:
    """The configuration entry for a stop of the dial."""
    if isinstance(stop, str):
        return {"name": "cgpfl_heur", "label": "Heuristic", **_PULL}
    return {"name": "cgpfl", "K": stop, "label": f"K = {stop}", **_PULL}


_PULL = {"lam": 4.0, "personal_lr": 0.05}


def experiment(
    *methods: Mapping[str, Any],
    seed: int = SEED,
    rounds: int = ROUNDS,
    every: int = 1,
    training_samples: int = TRAINING_SAMPLES,
    noise: float = NOISE,
) -> dict[str, Any]:
    """These methods on the story's clients, or on others like them."""
    samples = training_samples + TEST_SAMPLES
    return {
        "name": "Contexts and clusters",
        "dataset": {
            "name": "contexts",
            "num_clients": NUM_CLIENTS,
            "samples_per_client": samples,
            "num_contexts": NUM_CONTEXTS,
            "noise": noise,
        },
        "partition": {"name": "natural", "test_fraction": round(TEST_SAMPLES / samples, 6)},
        "model": {"name": "mlr"},
        "training": {"rounds": rounds, "local_steps": 10, "batch_size": "full", "lr": 0.1},
        "algorithms": [dict(method) for method in methods],
        "seeds": [seed],
        "evaluation": {"every": every},
        "device": "cpu",
    }


def finding(stop: Stop) -> str:
    """What this number of clusters is worth, against both references and the best."""
    there, best = example(), example().best_K
    return (
        f"A run with this setting ends at {percent(there.goal(stop))}. One FedAvg model for all ends at "
        f"{percent(float(there.together[0]))}, learning alone at {percent(float(there.alone[0]))}, and the best number "
        f"of clusters, {best}, at {percent(there.goal(best))}. There are {NUM_CONTEXTS} true contexts."
    )


def _heuristic_text() -> str:
    """How the heuristic chooses, and how often it was right."""
    there, *harder = example().guesses
    worst = min((g for g in harder if g.noise == NOISE), key=lambda g: g.hits)
    noisy = min((g for g in harder if g.noise != NOISE), key=lambda g: g.hits)
    return (
        "After the first round the heuristic weighs the similarity of models within clusters against the number of "
        f"models to learn. It chose {_chosen(there)}. It is not always right: with {worst.training_samples} samples "
        f"per client it chose {_chosen(worst)}; with noise of {noisy.noise:g} instead of {NOISE:g}, {_chosen(noisy)}. "
        "In such cases the first models reflect noise more than contexts."
    )


def _chosen(guesses: Guesses) -> str:
    """``K = 4 in all 10 draws``, ``K = 1 in 6, 4 in 2 and 9 in 2 of 10 draws``."""
    draws, counts = len(guesses.K_hats), Counter(guesses.K_hats).most_common()
    if len(counts) == 1:
        return f"K = {counts[0][0]} in all {draws} draws"
    *first, last = (f"{K} in {n}" for K, n in counts)
    return f"K = {', '.join(first)} and {last} of {draws} draws"


def _scene(title: str, stop: Stop, words: str) -> Scene:
    numbers = {"goal": percent(example().goal(stop)), "alone": percent(float(example().alone[0]))}
    return Scene(title, {"clusters": str(stop)}, words.format(**numbers))


def _read(place: Place) -> Stop:
    return stops()[place["clusters"]]


def _now(stop: Stop, run: "ContextRun | None") -> str:
    """Where the run is."""
    setting = "heuristic" if isinstance(stop, str) else f"K = {stop}"
    if run is None:
        return f"Round 0 · {setting} · press Play"
    accuracy = f"accuracy {percent(run.standing.accuracy)}"
    return f"Round {run.round} · {setting} · {accuracy}, n = {NUM_CLIENTS}"


def _models(run: "ContextRun | None") -> pd.DataFrame:
    """The clients' models as they are; before training, all are the same."""
    if run is None:
        start = np.zeros((NUM_CLIENTS, 2))
        unknown = np.full(NUM_CLIENTS, np.nan)
        return context_plane.data(start, start, np.zeros(NUM_CLIENTS, int), unknown, NUM_CONTEXTS)
    now = run.standing
    return context_plane.data(now.places, now.centres, now.clusters, now.accuracies, NUM_CONTEXTS)


def _count_figure(stop: Stop, accuracies: Sequence[float], ends: Sequence[tuple[float, float]]) -> None:
    there = example()
    run = f"; your run is at {percent(accuracies[-1])}" if accuracies else ""
    alt = (
        f"Accuracy by number of clusters: {percent(there.goal(1))} with 1, best with {there.best_K}, "
        f"{percent(there.goal(there.best_K))}, and {percent(there.goal(NUM_CLIENTS))} with {NUM_CLIENTS}; the "
        f"heuristic chooses K = {there.K_hat} for {NUM_CONTEXTS} true contexts{run}"
    )
    moves = context_count.moving(there.K_of(stop), accuracies, ends)
    moving_figure(_still_count(), moves, key="count_figure", alt=alt, name="accuracy-over-clusters")


@still
def _still_count() -> go.Figure:
    return context_count.figure(context_count.data(example()))


@still
def _still_plane() -> go.Figure:
    return context_plane.figure(NUM_CONTEXTS, EXTENT)
