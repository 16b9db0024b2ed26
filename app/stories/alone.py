"""Alone? Each client by itself against one model for all, as the clients get more samples of their own.

The clients are those of a quarter turn in the story before. With a handful of pages each, the common model's mistakes
are small against those of a model that has seen nearly nothing; with many, they are all that is left.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import moving_figure, still
from app.stories import turned_pages
from app.stories.dial_example import DialExample, load
from app.stories.figures import dial_curve, turned_clients
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
ANGLES = turned_pages.angles(TURN, CLIENTS)


class Alone:
    slug = "alone"
    short = "Alone?"
    kicker = "Digits · 10 clients · turned over a quarter · linear model"
    title = "Would each client do better alone?"
    lead = (
        "The pages are turned over a quarter, where one model serves nobody quite. Alone, a client trains a model of "
        "its own, on its own pages at its own angle. Which way is better depends on how many pages it has."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            _scene(
                "Ten pages each",
                "10",
                "With ten pages each, a client has hardly seen every digit once and reaches {alone} alone. Together "
                "they have a hundred, and though these are turned, the common model reaches {together}.",
            ),
            _scene(
                "Forty",
                "40",
                "Around forty pages the two ways meet: {alone} alone, {together} together. Look at the hairlines: "
                "the clients in the middle still gain by sharing, those at the ends no longer do.",
            ),
            _scene(
                "A hundred and fifty",
                "150",
                "With many pages, learning alone wins: {alone} against {together}. More pages don't help the common "
                "model much: what it lacks is not data but a client's own angle.",
            ),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("samples", "Pages that each client learns from", {n: n for n in SAMPLES}, START)]

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
            st.header("Accuracy, for every number of pages", anchor=False)
            moves = dial_curve.moving(samples, {name: float(own.mean()) for name, own in now.items()})
            moving_figure(_still_curve(), moves, key="dial_figure", alt=finding(samples), name="alone")
        with side:
            st.header("Who gains by sharing? ● together, □ alone", anchor=False)
            moves = turned_clients.moving(turned_clients.data(now, ANGLES), NAMES)
            alt = f"Accuracy of {CLIENTS} clients alone and together; {_standing(run)}"
            moving_figure(_still_clients(samples), moves, key="client_figure", alt=alt, name="alone-clients")
            reading(self, place, _standing(run), finding(samples))

    def config(self, place: Place) -> Mapping[str, Any]:
        samples = int(place["samples"])
        return turned_pages.experiment(
            f"Alone or together, {samples} pages each",
            METHODS,
            turn=TURN,
            num_clients=CLIENTS,
            test_fraction=round(1 - samples / OWNED, 4),
        )

    def setup_label(self, place: Place) -> str:
        return f"alone and together, {place['samples']} pages each"

    def table(self) -> pd.DataFrame:
        return dial_curve.data(example())

    @property
    def caption(self) -> str:
        return (
            "The dots are trained by the engine in this page, on 1,797 real digits of 8 x 8 pixels; pages that are not "
            f"learned from are tested on. The curves are example results that ship with the product, "
            f"means of {len(example().seeds)} seeds, computed by `{example().command}`; the bands are ± one standard "
            "deviation over the seeds."
        )


STORY = Alone()


def example() -> DialExample:
    return load("alone")


def finding(samples: str) -> str:
    """What sharing is worth at this number of pages."""
    (together, t_pm), (alone, a_pm) = (example().at(name, samples) for name in NAMES)
    return (
        f"With {samples} pages each, clients alone reach {percent_pm(alone, a_pm)} on average, one model for all "
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
    return turned_clients.figure(ends, ANGLES, example().pictures[str(TURN)], height=300)


@still
def _still_curve() -> go.Figure:
    title, ticks = "pages that each client learns from", [5, 10, 20, 40, 80, 150]
    df = dial_curve.data(example())
    return dial_curve.figure(df, _lines(), title, ticks, height=420, is_log=True)
