"""One model for all? Federated averaging on clients with rotated images.

Client i of 20 has its digits rotated by i/20 of the dial. At 0 all clients are alike and the shared model fits
everyone; the larger the rotation range, the lower its mean and the wider the spread of the clients.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import Picture, moving_figure, still
from app.stories import rotated_digits
from app.stories.asked import Places, asked, stops_up_to
from app.stories.compared import meaning, side, word
from app.stories.dial_example import DialExample, load
from app.stories.figures import dial_curve, rotated_clients
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm

if TYPE_CHECKING:
    from app.stories.accuracy_run import AccuracyRun, AccuracyStep

CLIENTS = 20
TURNS = ("0", "18", "36", "54", "72", "90", "135", "180", "270", "360")
QUARTER = "90"  # where the scene compares thirds of the clients
TRAINING_IMAGES, TEST_IMAGES = 54, 36  # of a client
LABELS = {"fedavg": "One model", "local_train": "Alone"}


class OneModel:
    order = 10
    slug = "one-model"
    short = "One model for all?"
    kicker = f"Digits · {CLIENTS} clients · {TRAINING_IMAGES} training images each · linear model"
    title = "Is one model enough for everyone?"
    lead = (
        "Each client trains a copy of the shared model on its own handwritten digits; a server averages the copies, "
        "round after round. No data leaves the client; model updates do, and these can leak. But what if each client's "
        "images are rotated by a different angle?"
    )
    ending = "You have seen that one model fails clients that differ too much."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_upright(), _quarter_turn(), _every_angle()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {turn: f"{turn}°" for turn in TURNS}
        return [Dial("turn", "Rotation range", titles)]

    def steps(self, place: Place) -> Iterator["AccuracyStep"]:
        from app.stories.accuracy_run import steps

        return steps(config(place["turn"], "fedavg"))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> None:
        turn, picture = place["turn"], self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            st.header("What if we rotate more?", anchor=False)
            means = [(mark.place["turn"], mark.value) for mark in marks]
            now = {"mean": run.value, "lowest client": float(run.now.accuracies[0].min())} if run else {}
            moves = dial_curve.moving(turn, now, means)
            moving_figure(self._curve_at(place), moves, key="dial_figure", alt=finding(turn), name="one-model")
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> Picture:
        turn, ends = place["turn"], standing(run) if run else finding(place["turn"])
        df = rotated_clients.data({"One model": run.now.accuracies[0]} if run else {}, angles(turn))
        return Picture(
            _still_clients(turn),
            rotated_clients.moving(df, ["One model"], with_mean=True),
            key="client_figure",
            alt=f"Accuracy of the shared model for each of {CLIENTS} clients. {ends}",
            name="one-model-clients",
            title="Accuracy of the shared model by client",
            now=standing(run),
        )

    @property
    def curve(self) -> Picture:
        ends = "; ".join(f"{_pm('mean', turn)} at {turn}°" for turn in (TURNS[0], QUARTER, TURNS[-1]))
        return Picture(
            _still_curve(TURNS[-1]),
            {},
            key="curve",
            alt=f"Accuracy by rotation range. Mean of one model: {ends}",
            name="one-model",
            title="Accuracy by rotation range",
        )

    def _curve_at(self, place: Place) -> dict[str, Any]:
        (dial,) = self.dials(place)
        return _still_curve(stops_up_to(dial, asked(STORY, place))[-1])

    def finding(self, place: Place) -> str:
        return finding(place["turn"])

    def config(self, place: Place) -> Mapping[str, Any]:
        """The run, and each client alone on the same images."""
        return config(place["turn"], "fedavg", "local_train")

    def setup_label(self, place: Place) -> str:
        return f"one model and each alone, rotation range {place['turn']}°"

    def table(self, places: Places = None) -> pd.DataFrame:
        (dial,) = self.dials({})
        return dial_curve.data(example(), stops_up_to(dial, places))

    @property
    def caption(self) -> str:
        return (
            "The dots come from live runs on 1,797 real digits of 8 x 8 pixels, divided into training and "
            f"test images. Curves have bands of ± one standard deviation over the seeds. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            f"Every client is tested on {TEST_IMAGES} images of its own. Curves and gray bars are example "
            f"results that ship with Fedscape: means over {example().over}, computed by "
            f"`{example().command}`."
        )


STORY = OneModel()


def example() -> DialExample:
    return load("one_model")


def config(turn: str, *methods: str) -> Mapping[str, Any]:
    """An experiment on clients whose images are rotated across ``turn`` degrees."""
    return rotated_digits.experiment(
        f"One model for all, {turn}°",
        {name: LABELS[name] for name in methods},
        turn=int(turn),
        num_clients=CLIENTS,
        test_fraction=0.4,
    )


def angles(turn: str) -> np.ndarray:
    """[N] rotation of each client's images in degrees."""
    return rotated_digits.angles(int(turn), CLIENTS)


def finding(turn: str) -> str:
    """The cost of this rotation, compared with models that learn alone."""
    return (
        f"At a rotation range of {turn}°, one model {_versus_alone(turn)} learning alone: {_pm('mean', turn)} against "
        f"{_pm('each alone', turn)}; its worst client has {_pm('lowest client', turn)} ({example().over})."
    )


def _upright() -> Scene:
    turn = "0"
    return Scene(
        "All upright",
        {"turn": turn},
        "Every client has upright images. What one learns helps all others: the shared model recognizes "
        f"{_pm('mean', turn)} of the test images, against {_pm('each alone', turn)} for models that learn alone from "
        f"{TRAINING_IMAGES} images. {example().scope}",
        f"With upright images, one model {_versus_alone(turn)} learning alone: {_pm('mean', turn)} against "
        f"{_pm('each alone', turn)} ({example().over}).",
        Choice.between(
            f"All images are upright, {TRAINING_IMAGES} for each client. Which recognizes more test images?",
            "One model for all",
            "Learning alone",
            _side(turn),
        ),
        "Start with what federated learning is good at. Ask who would share a model if everyone wrote alike. Each dot "
        "is a client; all dots rise together, because every client adds examples of the same task.",
    )


def _quarter_turn() -> Scene:
    turn, parts = QUARTER, ("The least rotated clients", "Those in the middle", "The most rotated clients")
    thirds = dict(zip(("least rotated", "middle", "most rotated"), _thirds(turn), strict=True))
    best = max(thirds, key=thirds.__getitem__)
    first, last = (f"the {part} reach {percent(mean, 0)}" for part, mean in thirds.items() if part != best)
    rest = f"{first}, {last.replace(' reach', '')}"
    return Scene(
        "A quarter turn",
        {"turn": turn},
        "From the first client to the last, rotation grows to almost 90°. The shared model reaches "
        f"{_pm('mean', turn)} on average and {_pm('lowest client', turn)} for the least accurate client. A mean hides "
        f"who pays. {example().scope}",
        f"At {turn}°, one model fits the {best} third best, {percent(thirds[best], 0)}; {rest} ({example().over}).",
        Choice(
            "Clients are now rotated from 0° to 90°. Which clients does one model fit best?",
            parts,
            parts[list(thirds).index(best)],
        ),
        "Let the class vote before you play. Averaging pulls the model toward the middle of the clients. Ask what the "
        "mean alone would have told us, and who would complain.",
    )


def _thirds(turn: str) -> list[float]:
    """Mean accuracies of the least rotated third of the clients, the middle one and the most rotated one."""
    accuracies = example().clients_at(turn)["One model"]
    return [float(third.mean()) for third in np.array_split(accuracies, 3)]


def _every_angle() -> Scene:
    turn = "360"
    return Scene(
        "Every angle",
        {"turn": turn},
        "Now the images cover every angle, and a 6 of one client is a 9 of another. One linear model must give both "
        f"the same answer: {_pm('mean', turn)} on average, while learning alone gives {_pm('each alone', turn)}. "
        f"{example().scope}",
        f"With every angle, one model {_versus_alone(turn)} learning alone: {_pm('mean', turn)} against "
        f"{_pm('each alone', turn)} ({example().over}).",
        Estimate(
            f"Now every angle occurs. Alone, clients reach {_pm('each alone', turn)}. What does one model reach?",
            example().values_at("mean", turn),
            example().over,
            lambda run: run.value,
        ),
        "Collect a few numbers from the room and set the slider to one of them. The gap to learning alone is the "
        "reason for personalized federated learning. The next story asks when learning alone is enough.",
    )


def _exercises() -> Sequence[Exercise]:
    crossing = next((turn for turn in TURNS if _side(turn) < 0), None)
    where = f"{crossing}°" if crossing else "no setting on this dial"
    worst = {turn: example().at("lowest client", turn)[0] for turn in TURNS}
    below = next((turn for turn in TURNS if worst[turn] < 0.5), None)
    return [
        Exercise(
            "At which rotation range would you first advise the clients to learn alone? Look at the means.",
            f"Learning alone first leads clearly at {where}: {meaning(example().over)}.",
        ),
        Exercise(
            "And if the worst client decided? Find the first setting at which it is wrong more often than right.",
            f"At {below}°: its mean accuracy there is {percent(worst[below], 0)}."
            if below
            else "At no setting on this dial.",
        ),
        Exercise(
            "Why does learning alone hardly change along the dial?",
            "Each client trains and tests at its own angle, so rotation costs it nothing. It is "
            f"{_pm('each alone', TURNS[0])} at 0° and {_pm('each alone', TURNS[-1])} at 360°.",
        ),
    ]


def _side(turn: str) -> int:
    """Whether one model is ahead of learning alone."""
    return side(example().values_at("mean", turn), example().values_at("each alone", turn))


def _versus_alone(turn: str) -> str:
    return word(_side(turn))


def _pm(line: str, turn: str) -> str:
    return percent_pm(*example().at(line, turn), samples=TEST_IMAGES)


def standing(run: "AccuracyRun | None") -> str:
    if run is None:
        return "This run: press Play"
    lowest = percent(float(run.now.accuracies[0].min()), 0)
    return f"This run, round {run.round}: mean {percent(run.value, 0)} · worst of {CLIENTS} clients {lowest}"


def _lines() -> dict[str, dial_curve.Line]:
    shade, alone = palette.theme(), palette.style_of("local_train")
    return {
        "mean": dial_curve.Line(shade.ink, "solid"),
        "lowest client": dial_curve.Line(shade.accent, "dash", "triangle-down"),
        "each alone": dial_curve.Line(palette.color(alone), alone.dash, alone.symbol),
    }


@still
def _still_clients(turn: str) -> go.Figure:
    ends = {"One model": example().clients_at(turn)["One model"]}
    pictures, seeds = example().pictures[turn], len(example().seeds)
    thirds = _thirds(turn) if turn == QUARTER else ()
    return rotated_clients.figure(ends, angles(turn), pictures, height=420, seeds=seeds, with_mean=True, thirds=thirds)


@still
def _still_curve(up_to: str) -> go.Figure:
    title, ticks = "rotation range", range(0, 361, 90)
    df = dial_curve.data(example())
    return dial_curve.figure(df, _lines(), title, ticks, height=250, samples=TEST_IMAGES, unit="°", up_to=up_to)
