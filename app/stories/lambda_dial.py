"""Finding the middle: how much should clients share?

Ten clients, ten true models, R apart. One-stage FedProx trains a model for each and pulls it toward the shared one
with strength lambda: at one end every client learns alone, at the other all share one model.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Picture, are_results_hidden, moving_figure, still
from app.stories.asked import Places, asked
from app.stories.compared import side_of_two, word
from app.stories.figures import client_plane, lambda_dial
from app.stories.lambda_curves import ADAPTIVE, ALONE, LAMBDAS, SPREADS, TOGETHER, Stop, example, text, untrained
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading

if TYPE_CHECKING:
    from app.stories.lambda_run import LambdaRun, LambdaStep

SEED = 3
ROUNDS = 1500
EXACT = "the exact solution"
R_HELP = "R: how far the clients' true models typically lie from their common center; 0 is one true model for all"
OF_SPREAD = {f"{R:g}": R for R in SPREADS}


class LambdaDial:
    order = 30
    slug = "dial"
    short = "Finding the middle: λ"
    kicker = "Synthetic · 10 clients · 200 samples each · logistic regression"
    title = "How much should clients share?"
    lead = (
        "Each client has its own true model and too little data to find it. R is how far the true models typically lie "
        "from their center. λ pulls each client's model toward the shared one: "
        "at one end every client learns alone, at the other all use one model."
    )
    ending = "You have seen that the best model can lie between learning alone and sharing one model."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_alike_alone(), _alike_together(), _different(), _between(), _adaptive()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        R = OF_SPREAD.get(place.get("spread", ""), 1.0)
        titles = {stop: stop for stop in stops(R)} | {ADAPTIVE: "★ adaptive"}
        return [
            Dial("spread", "Difference between clients (R)", {stop: stop for stop in OF_SPREAD}, help=R_HELP),
            Dial("share", "How much they share (λ)", titles),
        ]

    def steps(self, place: Place) -> Iterator["LambdaStep"]:
        from app.stories.lambda_run import steps

        R, stop = _read(place)
        return steps(config(R, stop), R)

    def pace(self, round: int) -> float:
        return 12 + round / 4

    def draw(self, place: Place, run: "LambdaRun | None", marks: Sequence[Mark]) -> None:
        R, stop = _read(place)
        standing, picture = run.now.standing if run else untrained(R), self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            st.header("Ten clients: ○ true model, ● trained model, + shared model", anchor=False)
            moves = client_plane.moving(
                client_plane.data(example(), R, standing.models),
                None if standing.shared is None else example().in_plane(R, standing.shared),
            )
            alt = f"Each client's true and trained model in a plane; the mean squared distance is {standing.error:.2f}"
            moving_figure(_still_clients(R), moves, key="client_figure", alt=alt, name="clients-and-truths")
            reading(self, place, picture.now, finding(R, stop))

    def picture(self, place: Place, run: "LambdaRun | None", marks: Sequence[Mark]) -> Picture:
        R, stop = _read(place)
        errors = [step.value for step in run.steps] if run else [untrained(R).error]
        ends = [
            (example().lam_of(R, _read(mark.place)[1]), mark.value)
            for mark in marks
            if mark.place["spread"] == place["spread"]
        ]
        shown = _marks(R, asked(STORY, place))
        return Picture(
            _still_dial(R, shown),
            lambda_dial.moving(example().lam_of(R, stop), errors, ends),
            key="dial_figure",
            alt=_alt(R, shown, errors[-1] if run else None),
            name="lambda-dial",
            title=f"Squared distance from the true model, by λ (in color: R = {R:g})",
            now=_now(R, stop, run),
        )

    def finding(self, place: Place) -> str:
        R, stop = _read(place)
        lam, goal, best = example().lam_of(R, stop), example().goal(R, stop), example().curve(R).best
        setting = "one model for all" if lam is None else f"λ = {lam:.2g}"
        return f"At R = {R:g}, {setting} ends near an error of {goal:.2f}; the best λ on this curve reaches {best:.2f}."

    def config(self, place: Place) -> Mapping[str, Any]:
        """The same question as an experiment: both ends, the adaptive choice and the reader's."""
        R, stop = _read(place)
        return config(R, *dict.fromkeys((ALONE, stop, ADAPTIVE, TOGETHER)), every=10)

    def setup_label(self, place: Place) -> str:
        return f"both ends, adaptive and this λ at R = {place['spread']}"

    def table(self, places: Places = None) -> pd.DataFrame:
        df = lambda_dial.data(example())
        shown = {(R, mark) for R in SPREADS for mark in _marks(R, places)}
        marks = df["mark"].replace("", "best")  # the rest of the curve
        return df[[pair in shown for pair in zip(df["R"], marks, strict=True)]]

    @property
    def caption(self) -> str:
        return (
            f"The dots are trained live, by up to {ROUNDS:,} rounds of gradient descent, and need not end "
            f"on the curves, least of all with a large λ. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "The curves are example results that ship with Fedscape: the exact minimizers on the same "
            f"data, computed by `{example().command}`. A new draw of clients moves the curves up or down "
            "but keeps their shape. The adaptive λ is computed from the true models; on other data their "
            "distance is estimated."
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
        f"A run with this setting ends near {example().goal(R, stop):.2f}. At R = {R:g}, learning alone ends at "
        f"{curve.alone:.2f}, one model for all at {curve.together:.2f}, and the best λ, {curve.best_lam:g}, at "
        f"{curve.best:.2f}."
    )


def _alike_alone() -> Scene:
    curve = example().curve(0.0)
    answers = "Yes, on the true model", "Yes, but elsewhere", "No, each fits its own noise"
    return Scene(
        "Alike, alone",
        _place(0.0, ALONE),
        "All ten clients have the same true model, and each learns from its own 200 samples. Every model fits the "
        "noise of its own data: the error, the mean squared distance of a model from its true model in all ten "
        f"dimensions, stays at {curve.alone:.2f}.",
        f"Ten equal clients, each alone with 200 samples, end at an error of {curve.alone:.2f}: each fits its own "
        "noise.",
        Choice(
            "Ten clients with the same true model learn alone, from 200 samples each. Will their models agree?",
            answers,
            answers[2 if side_of_two(curve.alone, curve.together) > 0 else 0],
        ),
        "Explain the plane first: a ring is the model that would be right, a dot the one that was trained. The "
        "error on the left is the mean of their squared distances in all ten dimensions, on a logarithmic axis.",
        beside="The one ring is the true model. The plane shows two of the ten dimensions.",
    )


def _alike_together() -> Scene:
    curve = example().curve(0.0)
    gain = word(
        side_of_two(curve.alone, curve.together),
        ("is closer to the truth than", "is about as close to the truth as", "is further from the truth than"),
    )
    return Scene(
        "Alike, together",
        _place(0.0, TOGETHER),
        f"The same clients share one model. The noise averages out over 2,000 samples: {curve.together:.2f} instead of "
        f"{curve.alone:.2f}.",
        f"If clients are alike, one shared model {gain} ten separate ones: an error of {curve.together:.2f} "
        f"against {curve.alone:.2f}.",
        Estimate(
            f"The same clients share one model. Alone, the error was {curve.alone:.2f}. What is it now?",
            np.array([curve.together]),
            EXACT,
            lambda run: run.value,
            tuple(i / 4 for i in range(21)),
            _error,
        ),
        "Ten times the samples, and the noise of one client cancels that of another. This is the case for federated "
        "averaging at its strongest.",
    )


def _different() -> Scene:
    curve = example().curve(3.0)
    better = word(side_of_two(curve.together, curve.alone), ("worse than", "about as good as", "better than"))
    return Scene(
        "Different, together",
        _place(3.0, TOGETHER),
        "Now the true models are far apart. One model for all sits in their middle and fits none of them: "
        f"{curve.together:.2f}, against {curve.alone:.2f} of learning alone.",
        f"At R = 3, one model for all is {better} learning alone: an error of {curve.together:.2f} against "
        f"{curve.alone:.2f}.",
        Choice.between(
            "Now the true models lie far apart (R = 3). Which ends with the smaller error?",
            "Alone",
            "Together",
            side_of_two(curve.together, curve.alone),
        ),
        "Nothing about the algorithm has changed, only the clients. More data does not help a model that answers the "
        "wrong question.",
    )


def _between() -> Scene:
    R, lam = 1.0, 0.1
    curve, goal, answers = example().curve(R), example().goal(R, lam), ("λ = 0, alone", "In between", "λ → ∞, together")
    ends = dict(zip(answers, (curve.alone, curve.best, curve.together), strict=True))
    is_below = side_of_two(goal, min(curve.alone, curve.together)) < 0
    return Scene(
        "Somewhat different",
        _place(R, lam),
        "Moderately different clients do best in between, pulled toward the shared model but not onto it: "
        f"{goal:.2f}, against {curve.alone:.2f} alone and {curve.together:.2f} together.",
        f"At R = 1, λ = {lam:g} {'beats' if is_below else 'does not beat'} both ends: {goal:.2f} against "
        f"{curve.alone:.2f} alone and {curve.together:.2f} together.",
        Choice(
            "Clients differ moderately (R = 1). Where on the dial is the error smallest?",
            answers,
            min(ends, key=ends.__getitem__),
        ),
        "This curve is the idea of many personalized methods: a dial between variance on the left and bias on the "
        "right. Let the class name methods they know and place them on it.",
    )


def _adaptive() -> Scene:
    R, answers = 3.0, ("Smaller", "The same", "Larger")
    curve, other = example().curve(R), example().curve(1.0)
    best_end = min(curve.alone, curve.together)
    is_below = side_of_two(curve.adaptive, best_end) < 0
    return Scene(
        "Adaptive",
        _place(R, ADAPTIVE),
        "The best λ is not known in advance. The adaptive choice computes a λ from the number of samples and the "
        f"distance between the clients' true models, which no server has. Here it is {curve.adaptive_lam:.2g} and "
        f"{'beats' if is_below else 'does not beat'} both ends: {curve.adaptive:.2f} against {curve.alone:.2f} alone "
        f"and {curve.together:.2f} together. It need not be the best: λ = {curve.best_lam:g} reaches {curve.best:.2f}.",
        f"At R = {R:g}, the best λ is {curve.best_lam:g}; at R = 1, {other.best_lam:g}. Here the adaptive λ ends "
        f"at an error of {curve.adaptive:.2f}, the best at {curve.best:.2f}.",
        Choice(
            "Clients differ more now (R = 3 instead of 1). The best λ is …",
            answers,
            word(side_of_two(curve.best_lam, other.best_lam), (answers[2], answers[1], answers[0])),
        ),
        "The formula needs the distance between the true models. On other data it is estimated from clients that "
        "train alone; where clients are alike, the estimate is mostly noise and the λ too small. Ask what it would "
        "cost to find λ by trying all values instead.",
        beside="Move R and compare the star with the minimum.",
    )


def _exercises() -> Sequence[Exercise]:
    apart = [R for R in SPREADS if side_of_two(example().curve(R).together, example().curve(R).alone) > 0]
    best = ", ".join(f"{example().curve(R).best_lam:g} at R = {R:g}" for R in (0.5, 1.0, 2.0, 3.0))
    worst = max(SPREADS, key=lambda R: example().curve(R).adaptive / example().curve(R).best)
    ratio = example().curve(worst).adaptive / example().curve(worst).best
    return [
        Exercise(
            "Find the smallest R on the dial at which sharing one model is worse than learning alone.",
            f"R = {min(apart):g}." if apart else "There is none on this dial.",
        ),
        Exercise(
            "How does the best λ change as clients become more different? Read it off the curves for four values of R.",
            f"The minimum lies at λ = {best}. Larger differences call for a weaker pull.",
        ),
        Exercise(
            "Where is the adaptive choice furthest from the best λ, and how much does that cost?",
            f"At R = {worst:g}: its error is {ratio:.2f} times that of the best λ on the curve.",
        ),
    ]


def _place(R: float, stop: Stop) -> Place:
    return {"spread": f"{R:g}", "share": text(stop)}


def _error(value: float, pm: float | None = None) -> str:
    return f"{value:.2f}"


def _read(place: Place) -> tuple[float, Stop]:
    R = OF_SPREAD[place["spread"]]
    return R, stops(R)[place["share"]]


def _now(R: float, stop: Stop, run: "LambdaRun | None") -> str:
    """The state of the run."""
    lam, standing = example().lam_of(R, stop), run.now.standing if run else untrained(R)
    setting = "one model for all" if lam is None else f"λ = {lam:.2g}"
    if stop == ADAPTIVE and are_results_hidden():
        setting = "adaptive λ"
    return f"This run, round {standing.round}: {setting} · error {standing.error:.2f}"


def _marks(R: float, places: Places) -> tuple[str, ...]:
    """What may be shown of a spread: each end, the curve with its best λ, and the adaptive λ."""
    if places is None:
        return lambda_dial.MARKS
    there = {place["share"] for place in places if place["spread"] == f"{R:g}"}
    if there - {ALONE, TOGETHER}:
        return ("alone", "together", "best")
    return ("alone", "together") if TOGETHER in there else ("alone",) if there else ()


def _alt(R: float, marks: Sequence[str], error: float | None) -> str:
    curve = example().curve(R)
    words = {
        "alone": f"alone {curve.alone:.2f}",
        "best": f"best {curve.best:.2f} at lambda {curve.best_lam:g}",
        "together": f"together {curve.together:.2f}",
        "adaptive": f"adaptive {curve.adaptive:.2f}",
    }
    run = "" if error is None else f"; this run is at {error:.2f}"
    ends = ", ".join(text for mark, text in words.items() if mark in marks)
    return f"Error by lambda at R = {R:g}: {ends}{run}"


@still
def _still_dial(R: float, marks: Sequence[str]) -> go.Figure:
    return lambda_dial.figure(lambda_dial.data(example()), R, marks)


@still
def _still_clients(R: float) -> go.Figure:
    return client_plane.figure(client_plane.data(example(), R, untrained(R).models))
