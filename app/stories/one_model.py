"""One model for all? Federated averaging on clients with rotated images.

Client i of 20 has its digits rotated by i/20 of the dial. At 0 all clients are alike and the shared model fits
everyone; the larger the rotation range, the lower its mean and the wider the spread of the clients.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import moving_figure, still
from app.stories import rotated_digits
from app.stories.dial_example import DialExample, load
from app.stories.figures import dial_curve, rotated_clients
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm

if TYPE_CHECKING:
    from app.stories.accuracy_run import AccuracyRun

CLIENTS = 20
TURNS = ("0", "18", "36", "54", "72", "90", "135", "180", "270", "360")
START = "90"
LABELS = {"fedavg": "One model", "local_train": "Alone"}


class OneModel:
    order = 10
    slug = "one-model"
    short = "One model for all?"
    kicker = "Digits · 20 clients · 54 training images each · linear model"
    title = "Is one model enough for everyone?"
    lead = (
        "Each client trains a copy of the shared model on its own handwritten digits; a server averages the copies, "
        "round after round. No data leaves the client; model updates do, and these can leak. But what if every client "
        "has rotated images?"
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            _scene(
                "All upright",
                "0",
                "Every client has upright images. What one learns helps all others: the shared model recognizes "
                "{mean} of the test images, against {alone} for models that learn alone from 54 images.",
            ),
            _scene(
                "A quarter turn",
                "90",
                "From the first client to the last, rotation grows to almost 90°. The shared model is best for clients "
                "in the middle and worse towards both ends: {mean} on average, {lowest} for the least accurate client.",
            ),
            _scene(
                "Every angle",
                "360",
                "Now the images cover every angle, and a 6 of one client is a 9 of another. One linear model cannot "
                "recognize both: {mean} on average, while learning alone still gives {alone}.",
            ),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {turn: f"{turn}°" for turn in TURNS}
        return [Dial("turn", "Rotation between clients", titles, START)]

    def start(self, place: Place) -> "AccuracyRun":
        from app.stories.accuracy_run import AccuracyRun

        return AccuracyRun(config(place["turn"], "fedavg"))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> None:
        turn = place["turn"]
        df = rotated_clients.data({"One model": run.accuracies[0]} if run else {}, angles(turn))
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header("Accuracy of the shared model by client", anchor=False)
            moves = rotated_clients.moving(df, ["One model"], with_mean=True)
            alt = f"Accuracy of the shared model for each of {CLIENTS} clients; {standing(run)}"
            moving_figure(_still_clients(turn), moves, key="client_figure", alt=alt, name="one-model-clients")
        with side:
            st.header("What if we rotate more?", anchor=False)
            means = [(mark.place["turn"], mark.value) for mark in marks]
            now = {"mean": run.value, "lowest client": float(run.accuracies[0].min())} if run else {}
            moves = dial_curve.moving(turn, now, means)
            moving_figure(_still_curve(), moves, key="dial_figure", alt=finding(turn), name="one-model")
            reading(self, place, standing(run), finding(turn))

    def config(self, place: Place) -> Mapping[str, Any]:
        """The run, and each client alone on the same images."""
        return config(place["turn"], "fedavg", "local_train")

    def setup_label(self, place: Place) -> str:
        return f"one model and each alone, rotation range {place['turn']}°"

    def table(self) -> pd.DataFrame:
        return dial_curve.data(example())

    @property
    def caption(self) -> str:
        return (
            "The dots are trained live on 1,797 real digits of 8 x 8 pixels; every client is tested on 36 images of "
            "its own. The curves are example results that ship with Fedscape: means over "
            f"{len(example().seeds)} seeds, computed by `{example().command}`. Bands: ± one standard deviation over "
            "the seeds."
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
    one, lowest, alone = (percent_pm(*example().at(line, turn)) for line in ("mean", "lowest client", "each alone"))
    return (
        f"At a rotation range of {turn}°, the shared model ends at {one} on average and at {lowest} for the least "
        f"accurate client; models that learn alone reach {alone}. {example().scope}"
    )


def _scene(title: str, turn: str, words: str) -> Scene:
    names = {"mean": "mean", "lowest": "lowest client", "alone": "each alone"}
    numbers = {name: percent_pm(*example().at(line, turn)) for name, line in names.items()}
    return Scene(title, {"turn": turn}, f"{words.format(**numbers)} {example().scope}")


def standing(run: "AccuracyRun | None") -> str:
    if run is None:
        return "Untrained"
    accuracy = run.accuracies[0]
    lowest = percent(float(accuracy.min()))
    return f"Round {run.round} of this run · mean {percent(run.value)} · worst of {CLIENTS} clients {lowest}"


def _lines() -> dict[str, dial_curve.Line]:
    shade, alone = palette.ground(), palette.style_of("local_train")
    return {
        "mean": dial_curve.Line(shade.ink, "solid"),
        "lowest client": dial_curve.Line(shade.accent, "dash", "triangle-down"),
        "each alone": dial_curve.Line(palette.color(alone), alone.dash, alone.symbol),
    }


@still
def _still_clients(turn: str) -> go.Figure:
    ends = {"One model": example().clients_at(turn)["One model"]}
    return rotated_clients.figure(ends, angles(turn), example().pictures[turn], height=420, with_mean=True)


@still
def _still_curve() -> go.Figure:
    title, ticks = "rotation range", range(0, 361, 90)
    return dial_curve.figure(dial_curve.data(example()), _lines(), title, ticks, height=250, unit="°")
