"""Finding the middle: how much should clients share?

Ten clients, ten true models, R apart. One-stage FedProx trains a model for each and pulls it towards the shared one
with strength lambda: at one end every client learns alone, at the other all share one model.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import moving_figure, still
from app.stories.figures import client_plane, lambda_dial
from app.stories.lambda_curves import ADAPTIVE, ALONE, LAMBDAS, SPREADS, TOGETHER, Stop, example, text, untrained
from app.stories.story import Dial, Mark, Place, Scene, reading

if TYPE_CHECKING:
    from app.stories.lambda_run import LambdaRun

SEED = 3
ROUNDS = 1500
OF_SPREAD = {f"{R:g}": R for R in SPREADS}


class LambdaDial:
    order = 30
    slug = "dial"
    short = "Finding the middle: λ"
    kicker = "Synthetic · 10 clients · 200 samples each · logistic regression"
    title = "How much should clients share?"
    lead = (
        "Each client has its own true model and too little data to find it. λ pulls its model towards the shared one: "
        "at one end every client learns alone, at the other all use one model."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            _scene(
                "Alike, alone",
                0.0,
                ALONE,
                "All ten clients have the same true model, the one ring, and each learns from its own 200 samples. The "
                "dots overshoot it: every model fits the noise of its own data, and the error stays at {goal}.",
            ),
            _scene(
                "Alike, together",
                0.0,
                TOGETHER,
                "The same clients share one model. The noise averages out over 2,000 samples: {goal} instead of "
                "{alone}.",
            ),
            _scene(
                "Different, together",
                3.0,
                TOGETHER,
                "Now the true models are far apart. One model for all sits in their middle and fits none of them: "
                "{goal}, worse than the {alone} of learning alone.",
            ),
            _scene(
                "In between",
                1.0,
                0.1,
                "Moderately different clients do best in between, pulled towards the shared model but not onto it: "
                "{goal}, against {alone} alone and {together} together.",
            ),
            _scene(
                "Adaptive",
                3.0,
                ADAPTIVE,
                "The best λ is not known in advance. The adaptive choice estimates it from the number of samples and "
                "the distance between clients: {goal} here. Move R and watch the star follow the minimum.",
            ),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        R = OF_SPREAD.get(place.get("spread", ""), 1.0)
        titles = {stop: stop for stop in stops(R)} | {ADAPTIVE: f"★ adaptive: {example().curve(R).adaptive_lam:.2g}"}
        return [
            Dial("spread", "Difference between clients (R)", {stop: stop for stop in OF_SPREAD}, "1"),
            Dial("share", "How much they share (λ)", titles, ADAPTIVE),
        ]

    def start(self, place: Place) -> "LambdaRun":
        from app.stories.lambda_run import LambdaRun

        R, stop = _read(place)
        return LambdaRun(config(R, stop), R)

    def pace(self, round: int) -> float:
        return 12 + round / 4

    def draw(self, place: Place, run: "LambdaRun | None", marks: Sequence[Mark]) -> None:
        R, stop = _read(place)
        standing, errors = (run.standing, run.errors) if run else (untrained(R), [untrained(R).error])
        ends = [
            (example().lam_of(R, _read(mark.place)[1]), mark.value)
            for mark in marks
            if mark.place["spread"] == place["spread"]
        ]
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header("Distance from the true model, by λ", anchor=False)
            _dial_figure(R, stop, errors, ends)
        with side:
            st.header("Ten clients: ○ true model ● trained model + shared model", anchor=False)
            moves = client_plane.moving(
                client_plane.data(example(), R, standing.models),
                None if standing.shared is None else example().in_plane(R, standing.shared),
            )
            alt = f"Each client's true and trained model in a plane; the mean squared distance is {standing.error:.2f}"
            moving_figure(_still_clients(R), moves, key="client_figure", alt=alt, name="clients-and-truths")
            lam = example().lam_of(R, stop)
            setting = "one model for all" if lam is None else f"λ = {lam:.2g}"
            now = f"Round {standing.round} · {setting} · error {standing.error:.2f}"
            reading(self, place, now, finding(R, stop))

    def config(self, place: Place) -> Mapping[str, Any]:
        """The same question as an experiment: both ends, the adaptive choice and the reader's."""
        R, stop = _read(place)
        return config(R, *dict.fromkeys((ALONE, stop, ADAPTIVE, TOGETHER)), every=10)

    def setup_label(self, place: Place) -> str:
        return f"both ends, adaptive and this λ at R = {place['spread']}"

    def table(self) -> pd.DataFrame:
        return lambda_dial.data(example())

    @property
    def caption(self) -> str:
        return (
            "The dots are trained live, by gradient descent. The curves are example results that ship with Fedscape: "
            f"the exact minimizers on the same data, computed by `{example().command}`. A new draw of clients moves "
            "the curves up or down but keeps their shape."
        )


STORY = LambdaDial()


def stops(R: float) -> dict[str, Stop]:
    """All stops of the dial in order, by their text; the adaptive one at its value for ``R``."""
    adaptive = example().curve(R).adaptive_lam
    below = [lam for lam in LAMBDAS if lam < adaptive]
    places: tuple[Stop, ...] = (ALONE, *below, ADAPTIVE, *LAMBDAS[len(below) :], TOGETHER)
    return {text(place): place for place in places}


def config(R: float, *dial: Stop, every: int = ROUNDS) -> Mapping[str, Any]:
    """An experiment over these stops of the dial."""
    return {
        "name": f"The λ dial, R = {R:g}",
        "dataset": {"name": "synthetic", "num_clients": 10, "samples_per_client": 250, "dim": 10, "R": R},
        "partition": {"name": "natural", "test_fraction": 0.2},
        "model": {"name": "logistic", "init": "zeros"},
        "training": {"rounds": ROUNDS, "local_steps": 10, "batch_size": "full", "lr": 0.15, "momentum": 0.9},
        "algorithms": [method(stop) for stop in dial],
        "seeds": [SEED],
        "evaluation": {"every": every},
        "device": "cpu",
    }


def method(stop: Stop) -> dict[str, Any]:
    """The configuration entry for a stop of the dial."""
    if stop == ALONE:
        return {"name": "local_train", "label": "Alone"}
    if stop == TOGETHER:
        return {"name": "fedavg", "label": "Together"}
    if stop == ADAPTIVE:
        return {"name": "fedprox_onestage", "label": "Adaptive λ"}
    return {"name": "fedprox_onestage", "lam": stop, "label": f"λ = {stop:g}"}


def finding(R: float, stop: Stop) -> str:
    """The result at this stop, compared with both ends and the best."""
    curve = example().curve(R)
    return (
        f"A run with this setting ends at {example().goal(R, stop):.2f}. At R = {R:g}, learning alone ends at "
        f"{curve.alone:.2f}, one model for all at {curve.together:.2f}, and the best λ, {curve.best_lam:g}, at "
        f"{curve.best:.2f}."
    )


def _scene(title: str, R: float, stop: Stop, words: str) -> Scene:
    """A scene whose text has the numbers {alone}, {together} and {goal} filled in."""
    curve = example().curve(R)
    numbers = {"alone": curve.alone, "together": curve.together, "goal": example().goal(R, stop)}
    filled = words.format(**{name: f"{value:.2f}" for name, value in numbers.items()})
    return Scene(title, {"spread": f"{R:g}", "share": text(stop)}, filled)


def _read(place: Place) -> tuple[float, Stop]:
    R = OF_SPREAD[place["spread"]]
    return R, stops(R)[place["share"]]


def _dial_figure(R: float, stop: Stop, errors: list[float], ends: list[tuple[float | None, float]]) -> None:
    curve = example().curve(R)
    alt = (
        f"Error by lambda at R = {R:g}: alone {curve.alone:.2f}, best {curve.best:.2f} at "
        f"lambda {curve.best_lam:g}, together {curve.together:.2f}, adaptive {curve.adaptive:.2f}; "
        f"your run is at {errors[-1]:.2f}"
    )
    moves = lambda_dial.moving(example().lam_of(R, stop), errors, ends)
    moving_figure(_still_dial(R), moves, key="dial_figure", alt=alt, name="lambda-dial")


@still
def _still_dial(R: float) -> go.Figure:
    return lambda_dial.figure(lambda_dial.data(example()), R)


@still
def _still_clients(R: float) -> go.Figure:
    return client_plane.figure(client_plane.data(example(), R, untrained(R).models))
