"""Alone? Local training against one shared model, as each client gets more samples of its own.

The clients are those of the previous story at a rotation range of 90 degrees. With few images each, the shared model
beats a local model that has seen almost no data; with many, rotation is the shared model's only remaining error.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import moving_figure, still
from app.stories import rotated_digits
from app.stories.dial_example import DialExample, load
from app.stories.figures import dial_curve, rotated_clients
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm, signed_points

if TYPE_CHECKING:
    from app.stories.accuracy_run import AccuracyRun

CLIENTS = 10
TURN = 90
OWNED = 180  # samples of a client, to learn from and to be tested on
SAMPLES = ("5", "10", "20", "40", "60", "80", "120", "150")
START = "20"
METHODS = {"fedavg": "Together", "local_train": "Alone"}
NAMES = tuple(METHODS.values())
ANGLES = rotated_digits.angles(TURN, CLIENTS)


class Alone:
    order = 20
    slug = "alone"
    short = "Alone?"
    kicker = "Digits · 10 clients · rotated up to 90° · linear model"
    title = "Would each client do better alone?"
    lead = (
        "The clients' images are rotated across 90°, where one model fits no one well. Alone, each client trains its "
        "own model on its own images at its own angle. Which is better depends on how many images it has."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            _scene(
                "Ten images each",
                "10",
                "With ten images, a client has seen each digit about once and reaches {alone} alone. Together the "
                "clients have a hundred, and although these are rotated, the shared model reaches {together}.",
            ),
            _scene(
                "Forty",
                "40",
                "Around forty images the two curves meet: {alone} alone, {together} together. The thin lines show "
                "that clients in the middle still gain by sharing and those at the ends no longer do.",
            ),
            _scene(
                "A hundred and fifty",
                "150",
                "With many images, learning alone wins: {alone} against {together}. More images hardly help the "
                "shared model: it lacks not data but each client's own angle.",
            ),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("samples", "Training images per client", {n: n for n in SAMPLES}, START)]

    def start(self, place: Place) -> "AccuracyRun":
        from app.stories.accuracy_run import AccuracyRun

        return AccuracyRun(self.config(place))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> None:
        samples = place["samples"]
        now = dict(zip(NAMES, run.accuracies, strict=True)) if run else {}
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header("Accuracy by training images per client", anchor=False)
            moves = dial_curve.moving(samples, {name: float(own.mean()) for name, own in now.items()})
            moving_figure(_still_curve(), moves, key="dial_figure", alt=finding(samples), name="alone")
        with side:
            st.header("Who gains by sharing? ● together □ alone", anchor=False)
            moves = rotated_clients.moving(rotated_clients.data(now, ANGLES), NAMES)
            alt = f"Accuracy of {CLIENTS} clients alone and together; {_standing(run)}"
            moving_figure(_still_clients(samples), moves, key="client_figure", alt=alt, name="alone-clients")
            reading(self, place, _standing(run), finding(samples))

    def config(self, place: Place) -> Mapping[str, Any]:
        samples = int(place["samples"])
        return rotated_digits.experiment(
            f"Alone or together, {samples} images each",
            METHODS,
            turn=TURN,
            num_clients=CLIENTS,
            test_fraction=round(1 - samples / OWNED, 4),
        )

    def setup_label(self, place: Place) -> str:
        return f"alone and together, {place['samples']} images each"

    def table(self) -> pd.DataFrame:
        return dial_curve.data(example())

    @property
    def caption(self) -> str:
        return (
            "The dots are trained live on 1,797 real digits of 8 x 8 pixels; images not used for training are used for "
            "testing. The curves are example results that ship with Fedscape: means over "
            f"{len(example().seeds)} seeds, computed by `{example().command}`. Bands: ± one standard deviation over "
            "the seeds."
        )


STORY = Alone()


def example() -> DialExample:
    return load("alone")


def finding(samples: str) -> str:
    """What sharing is worth at this number of images."""
    (together, t_pm), (alone, a_pm) = (example().at(name, samples) for name in NAMES)
    return (
        f"With {samples} images each, clients alone reach {percent_pm(alone, a_pm)} on average, one model for all "
        f"{percent_pm(together, t_pm)}: sharing is worth {signed_points(together - alone)} points. {example().scope}"
    )


def _scene(title: str, samples: str, words: str) -> Scene:
    numbers = {name.lower(): percent_pm(*example().at(name, samples)) for name in NAMES}
    return Scene(title, {"samples": samples}, f"{words.format(**numbers)} {example().scope}")


def _standing(run: "AccuracyRun | None") -> str:
    if run is None:
        return "Untrained"
    together, alone = run.accuracies
    gain = int((together > alone).sum())
    means = f"alone {percent(float(alone.mean()))} · together {percent(float(together.mean()))}"
    return f"Round {run.round} of this run · {means} · {gain} of {len(alone)} clients gain by sharing"


def _lines() -> dict[str, dial_curve.Line]:
    styles = {label: palette.style_of(name) for name, label in METHODS.items()}
    return {label: dial_curve.Line(palette.color(style), style.dash, style.symbol) for label, style in styles.items()}


@still
def _still_clients(samples: str) -> go.Figure:
    ends = {name: example().clients_at(samples)[name] for name in NAMES}
    return rotated_clients.figure(ends, ANGLES, example().pictures[str(TURN)], height=300)


@still
def _still_curve() -> go.Figure:
    title, ticks = "training images per client", [5, 10, 20, 40, 80, 150]
    df = dial_curve.data(example())
    return dial_curve.figure(df, _lines(), title, ticks, height=420, is_log=True)
