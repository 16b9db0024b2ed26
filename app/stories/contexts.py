"""Contexts and clusters: how many models suit a federation with a few kinds of clients?

Twenty clients in four true contexts: the same ten groups of points, labeled differently in each context. CGPFL finds
K clusters of clients by k-means on their models, and pulls every client toward the model of its cluster.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Picture, still
from app.stories.asked import Places, asked
from app.stories.compared import meaning, side, word
from app.stories.context_curve import CLUSTERS, HEUR, NUM_CLIENTS, NUM_CONTEXTS, Guesses, Stop, example, stops
from app.stories.figures import chosen_clusters, context_count, context_plane
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm

if TYPE_CHECKING:
    from app.stories.context_run import ContextRun, ContextStep

SEED = 0
ROUNDS = 30
TRAINING_SAMPLES, TEST_SAMPLES = 30, 100  # of each client
NOISE = 1.5
DRAWS = f"{example().num_draws} draws"
BY_CLUSTERS = f"Accuracy by number of clusters ({TRAINING_SAMPLES} samples per client)"
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
        "Clients of the same context label things the same way, clients of different contexts do not, and nobody knows "
        "the contexts. CGPFL groups the clients into K clusters by their models and pulls each model toward that of "
        "its cluster."
    )
    ending = "You have seen that similar clients gain from learning together, if the server finds the groups."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_one(), _too_few(), _just_right(), _too_many(), _nearly_alone(), _choosing()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {stop: stop for stop in stops()} | {
            HEUR: f"★ heuristic: {example().K_hat}",
            f"{NUM_CLIENTS}": "20 = N",
        }
        return [Dial("clusters", "Number of clusters (K)", titles)]

    def steps(self, place: Place) -> Iterator["ContextStep"]:
        from app.stories.context_run import steps

        return steps(experiment(method(_read(place))))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "ContextRun | None", marks: Sequence[Mark]) -> None:
        count = _count(place, run, marks)
        beside = self.picture(place, run, marks) if place["clusters"] == HEUR else _plane(run)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(count.title, anchor=False)
            count.draw()
        with side:
            st.header(beside.title, anchor=False)
            beside.draw()
            reading(self, place, count.now)

    def picture(self, place: Place, run: "ContextRun | None", marks: Sequence[Mark]) -> Picture:
        """The curve, or the heuristic's choices where the scene is about these."""
        if place["clusters"] != HEUR:
            return _count(place, run, marks)
        chosen = "; ".join(
            f"{guesses.training_samples} samples and noise {guesses.noise:g}: {_chosen(guesses)}"
            for guesses in example().guesses
        )
        return Picture(
            _still_chosen(),
            {},
            key="chosen_figure",
            alt=f"The heuristic's number of clusters. {chosen}",
            name="chosen-clusters",
            title=f"How often the heuristic chose each K ({DRAWS})",
            now=_now(HEUR, run),
        )

    @property
    def curve(self) -> Picture:
        return Picture(
            _still_count(None), {}, key="curve", alt=_alt(None, []), name="accuracy-over-clusters", title=BY_CLUSTERS
        )

    def finding(self, place: Place) -> str:
        return finding(_read(place))

    def config(self, place: Place) -> Mapping[str, Any]:
        """The same question as an experiment: both references, the heuristic and the chosen K."""
        return experiment(ALONE, TOGETHER, *map(method, dict.fromkeys((_read(place), HEUR))))

    def setup_label(self, place: Place) -> str:
        ours = "" if place["clusters"] == HEUR else f" and K = {place['clusters']}"
        return f"alone, together, the heuristic{ours} on these clients"

    def table(self, places: Places = None) -> pd.DataFrame:
        return context_count.data(example(), _most(places))

    @property
    def caption(self) -> str:
        return (
            "The dot and the models are trained live, on the clients of the first draw, so the dot need "
            "not end on the curve. The plane, where it is drawn, shows the models' first two principal "
            f"components, recomputed after every round; each client is drawn on a small ring around its position. "
            f"{self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "The curve and the dotted lines are example results that ship with Fedscape: mean ± standard "
            f"deviation over {DRAWS} of such clients, after {ROUNDS} rounds, accuracy on {TEST_SAMPLES} "
            f"test samples per client, n = {NUM_CLIENTS} clients. Computed by `{example().command}`."
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
    """The result with this number of clusters, next to both references and the best number."""
    best = example().best_K
    return (
        f"{_K(stop)} ends at {_goal(stop)}; learning alone reaches {_alone()}, one FedAvg model "
        f"{_pm(example().together)}, and the best number of clusters, {best}, {_goal(best)} ({DRAWS})."
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


def _one() -> Scene:
    gap = _side(1, example().alone)
    return Scene(
        "One cluster",
        {"clusters": "1"},
        "K = 1 is not one model for all: each client keeps its own, which is pulled toward the one model of the "
        f"cluster. Labels contradict one another, and clients end at {_goal(1)}, where learning alone reaches "
        f"{_alone()}. One FedAvg model, the same for all, reaches {_pm(example().together)}.",
        f"Where labels contradict one another, one cluster {word(gap)} learning alone: {_goal(1)} against {_alone()} "
        f"({DRAWS}).",
        Choice.between(
            f"{NUM_CLIENTS} clients come from {NUM_CONTEXTS} contexts that label the same points differently. Which is "
            "more accurate?",
            "One cluster for all",
            "Learning alone",
            gap,
        ),
        "Introduce contexts as departments that use the same words for different things. The server sees models, never "
        "the contexts.",
        beside="In the figure, shapes are contexts and letters are clusters.",
    )


def _too_few() -> Scene:
    return Scene(
        "Two clusters",
        {"clusters": "2"},
        f"Two clusters for four contexts: contexts that should be separate share a cluster. {_goal(2)} on average, "
        "and clients grouped with the wrong ones lose accuracy.",
        f"Two clusters for four contexts reach {_goal(2)}; learning alone reaches {_alone()} ({DRAWS}).",
        Estimate(
            f"Two clusters for four contexts. Learning alone reaches {_alone()}. What does K = 2 reach?",
            _accuracies(2),
            DRAWS,
            lambda run: run.value,
        ),
        "Watch the letters on the right: here one cluster holds three shapes and the other only one. Ask whether a "
        "client would rather be alone than in the wrong group.",
    )


def _just_right() -> Scene:
    best = example().best_K
    gap = word(_side(best, example().alone), ("beat", "are level with", "lose to"))
    return Scene(
        "Four clusters",
        {"clusters": f"{best}"},
        "Each context gets its own cluster: five clients with 30 samples learn together like one client with 150. "
        f"{_goal(best)}, where each alone reaches {_alone()}.",
        f"{best} clusters for {NUM_CONTEXTS} contexts are best and {gap} learning alone: {_goal(best)} against "
        f"{_alone()} ({DRAWS}).",
        Estimate(
            f"Now K = {best}, a cluster for every context. Learning alone reaches {_alone()}. What does K = {best} "
            "reach?",
            _accuracies(best),
            DRAWS,
            lambda run: run.value,
        ),
        "Five clients of a context now pool 150 samples without naming their context. Point out that the clusters are "
        "found within a few rounds.",
    )


def _too_many() -> Scene:
    K, best, answers = 10, example().best_K, ("Better", "About the same", "Worse")
    gap = _side(K, _accuracies(best))
    return Scene(
        "Ten clusters",
        {"clusters": f"{K}"},
        "No contexts are mixed, but clients that could learn together are split, and each cluster has too few "
        f"samples: {_goal(K)}.",
        f"Ten clusters mix no contexts, and still end {word(gap, ('above', 'level with', 'below'))} {best}: {_goal(K)} "
        f"against {_goal(best)} ({DRAWS}).",
        Choice(
            f"Ten clusters can keep all contexts apart. Compared with K = {best}, is K = {K} …",
            answers,
            word(gap, answers),
        ),
        "The opposite error: no cluster mixes contexts, but clients of one context are separated. Too few clusters "
        "cost bias, too many cost variance.",
    )


def _nearly_alone() -> Scene:
    K, nearest = NUM_CLIENTS, {"Learning alone": example().alone, "One FedAvg model": example().together}
    nearest[f"K = {example().best_K}"] = _accuracies(example().best_K)
    gaps = {name: abs(float(values.mean()) - float(_accuracies(K).mean())) for name, values in nearest.items()}
    return Scene(
        "A cluster each",
        {"clusters": f"{K}"},
        f"K = N: every client is its own cluster, and is pulled toward a model that only it has trained. It learns "
        f"nothing from the others, so it ends where learning alone does ({_alone()}).",
        f"With a cluster for every client, CGPFL {word(_side(K, example().alone))} learning alone: {_goal(K)} against "
        f"{_alone()} ({DRAWS}).",
        Choice(
            "K = N gives every client a cluster of its own. What is its accuracy closest to?",
            tuple(nearest),
            min(gaps, key=gaps.__getitem__),
        ),
        "These are the two ends of the dial: K = 1 pulls all clients toward one model, K = N is nearly learning alone. "
        "K = 1 is not one model for all: each client keeps its own, so it ends above the line of one FedAvg model. "
        "Compare with λ in the previous story.",
    )


def _choosing() -> Scene:
    answers = "In nearly all draws", "In about half", "In few"
    few = min((guesses for guesses in example().guesses[1:] if guesses.noise == NOISE), key=lambda g: g.hits)
    share = few.hits / len(few.K_hats)
    first = example().guesses[0]
    return Scene(
        "Choosing K",
        {"clusters": HEUR},
        _heuristic_text(),
        f"The heuristic is right in {first.hits} of {len(first.K_hats)} draws with {first.training_samples} samples a "
        f"client, and in {few.hits} with {few.training_samples} (noise {NOISE:g}).",
        Choice(
            f"The heuristic estimates K from the first models. How often is it right with only {few.training_samples} "
            "samples per client?",
            answers,
            answers[0 if share > 0.8 else 1 if share > 0.35 else 2],
        ),
        "In practice nobody tells us K. The heuristic costs no extra training, but it needs first models that reflect "
        "the contexts more than noise. A failure worth showing.",
    )


def _exercises() -> Sequence[Exercise]:
    better = [K for K in CLUSTERS if _side(K, example().alone) > 0]
    best = example().best_K
    pooled = NUM_CLIENTS // NUM_CONTEXTS * TRAINING_SAMPLES
    return [
        Exercise(
            "For which numbers of clusters is CGPFL clearly better than learning alone?",
            f"For K = {', '.join(map(str, better))}: {meaning(DRAWS)}." if better else "For none.",
        ),
        Exercise(
            "Which mistake costs more here, half as many clusters as contexts, or more than twice as many?",
            f"K = {best} reaches {_goal(best)}; half as many, K = {best // 2}, {_goal(best // 2)}; K = 10, "
            f"{_goal(10)}. Mixing contexts costs more than splitting them."
            if example().goal(best // 2) < example().goal(10)
            else "Splitting contexts costs more than mixing them here.",
        ),
        Exercise(
            f"Why can K = {best} beat learning alone although no client gets new data?",
            f"The clients of a cluster have the same task: {NUM_CLIENTS // NUM_CONTEXTS} clients with "
            f"{TRAINING_SAMPLES} samples each train a model on {pooled}.",
        ),
    ]


def _side(K: int, other: np.ndarray) -> int:
    """Whether K clusters are ahead of another method, over all draws."""
    return side(_accuracies(K), other)


def _accuracies(K: int) -> np.ndarray:
    return np.asarray(example().accuracies[CLUSTERS.index(K)])


def _K(stop: Stop) -> str:
    return "The heuristic" if isinstance(stop, str) else f"K = {stop}"


def _goal(stop: Stop) -> str:
    return _pm(example().heuristic if isinstance(stop, str) else _accuracies(stop))


def _alone() -> str:
    return _pm(example().alone)


def _pm(draws: np.ndarray) -> str:
    return percent_pm(float(draws.mean()), float(draws.std(ddof=1)), samples=TEST_SAMPLES)


def _read(place: Place) -> Stop:
    return stops()[place["clusters"]]


def _now(stop: Stop, run: "ContextRun | None") -> str:
    """The state of the run."""
    setting = "heuristic" if isinstance(stop, str) else f"K = {stop}"
    if run is None:
        return f"This run: {setting} · press Play"
    accuracy = percent(run.value, samples=TEST_SAMPLES)
    return f"This run, round {run.round}: {setting} · accuracy {accuracy}, n = {NUM_CLIENTS}"


def _models(run: "ContextRun | None") -> pd.DataFrame:
    """The clients' models as they are; before training, all are the same."""
    if run is None:
        start = np.zeros((NUM_CLIENTS, 2))
        unknown = np.full(NUM_CLIENTS, np.nan)
        return context_plane.data(start, start, np.zeros(NUM_CLIENTS, int), unknown, NUM_CONTEXTS)
    now = run.now
    return context_plane.data(now.places, now.centers, now.clusters, now.accuracies, NUM_CONTEXTS)


def _most(places: Places) -> int | None:
    """The largest number of clusters that may be shown; None if all may, and the heuristic's choice."""
    return None if places is None else max((int(place["clusters"]) for place in places), default=0)


def _alt(up_to: int | None, accuracies: Sequence[float]) -> str:
    there = example()
    shown = sorted(K for K in {1, there.best_K, up_to or NUM_CLIENTS} if up_to is None or up_to >= K)
    ends = ", ".join(f"{_goal(K)} with {K}" for K in shown)
    chosen = f"; the heuristic chooses K = {there.K_hat} for {NUM_CONTEXTS} true contexts" if up_to is None else ""
    run = f"; this run is at {percent(accuracies[-1], samples=TEST_SAMPLES)}" if accuracies else ""
    return f"Accuracy by number of clusters: {ends}{chosen}{run}"


def _count(place: Place, run: "ContextRun | None", marks: Sequence[Mark]) -> Picture:
    stop, accuracies = _read(place), [step.value for step in run.steps] if run else []
    ends = [(example().K_of(_read(mark.place)), mark.value) for mark in marks]
    up_to = _most(asked(STORY, place))
    return Picture(
        _still_count(up_to),
        context_count.moving(example().K_of(stop), accuracies, ends),
        key="count_figure",
        alt=_alt(up_to, accuracies),
        name="accuracy-over-clusters",
        title=BY_CLUSTERS,
        now=_now(stop, run),
    )


def _plane(run: "ContextRun | None") -> Picture:
    df = _models(run)
    return Picture(
        _still_plane(),
        context_plane.moving(df, EXTENT),
        key="context_figure",
        alt=context_plane.finding(df),
        name="clients-and-clusters",
        title="Client models (letter: assigned cluster; shape: context)",
    )


@still
def _still_count(up_to: int | None) -> go.Figure:
    return context_count.figure(context_count.data(example()), up_to)


@still
def _still_plane() -> go.Figure:
    return context_plane.figure(NUM_CONTEXTS, EXTENT)


@still
def _still_chosen() -> go.Figure:
    return chosen_clusters.figure(chosen_clusters.data(example().guesses))
