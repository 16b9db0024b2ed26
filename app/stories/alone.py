"""Alone? Local training against one shared model, as each client gets more samples of its own.

The clients are those of the previous story at a rotation range of 90 degrees. With few images each, the shared model
beats a local model that has seen almost no data; with many, rotation is the shared model's only remaining error.
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
from app.wording import percent, percent_pm, points

if TYPE_CHECKING:
    from app.stories.accuracy_run import AccuracyRun, AccuracyStep

CLIENTS = 10
TURN = 90
OWNED = 180  # samples of a client, to learn from and to be tested on
SAMPLES = ("5", "10", "20", "40", "60", "80", "120", "150")
TEST_IMAGES = OWNED - int(SAMPLES[-1])  # of a client, at least
METHODS = {"fedavg": "Together", "local_train": "Alone"}
NAMES = TOGETHER, ALONE = tuple(METHODS.values())
ANGLES = rotated_digits.angles(TURN, CLIENTS)


class Alone:
    order = 20
    slug = "alone"
    short = "Alone?"
    kicker = f"Digits · {CLIENTS} clients · rotated up to 90° · linear model"
    title = "Would each client do better alone?"
    lead = (
        "The clients' images are rotated across 90°, where one model fits the least and the most rotated clients "
        "badly. Alone, each client trains its own model on its own images at its own angle. Which is better depends on "
        "how many images it has."
    )
    ending = "You have seen that sharing pays where data is scarce, and learning alone where it is plentiful."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_ten(), _forty(), _many()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("samples", "Training images per client", {n: n for n in SAMPLES})]

    def steps(self, place: Place) -> Iterator["AccuracyStep"]:
        from app.stories.accuracy_run import steps

        return steps(self.config(place))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> None:
        samples, picture = place["samples"], self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            st.header("Who gains by sharing? ● together □ alone", anchor=False)
            moves = rotated_clients.moving(rotated_clients.data(_by_name(run), ANGLES), NAMES)
            alt = f"Accuracy of {CLIENTS} clients alone and together; {standing(run)}"
            moving_figure(_still_clients(samples), moves, key="client_figure", alt=alt, name="alone-clients")
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> Picture:
        samples = place["samples"]
        return Picture(
            _still_curve(stops_up_to(self.dials(place)[0], asked(STORY, place))[-1]),
            dial_curve.moving(samples, {name: float(own.mean()) for name, own in _by_name(run).items()}),
            key="dial_figure",
            alt=finding(samples),
            name="alone",
            title="Accuracy by training images per client",
            now=standing(run),
        )

    def finding(self, place: Place) -> str:
        return finding(place["samples"])

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

    def table(self, places: Places = None) -> pd.DataFrame:
        (dial,) = self.dials({})
        return dial_curve.data(example(), stops_up_to(dial, places))

    @property
    def caption(self) -> str:
        return (
            "The dots come from live runs on 1,797 real digits of 8 x 8 pixels, divided into training and "
            f"test images. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "Images not used for training are used for testing. The curves are example results that ship "
            f"with Fedscape: means over {example().over}, computed by `{example().command}`. Bands: ± one "
            "standard deviation over the seeds."
        )


STORY = Alone()


def example() -> DialExample:
    return load("alone")


def finding(samples: str) -> str:
    """How sharing compares with learning alone at this number of images."""
    return (
        f"With {samples} images each, one model for all {_versus_alone(samples)} learning alone: "
        f"{_pm(TOGETHER, samples)} against {_pm(ALONE, samples)} ({example().over})."
    )


def _ten() -> Scene:
    samples = "10"
    return Scene(
        "Ten images each",
        {"samples": samples},
        f"With ten images, a client has seen each digit about once and reaches {_pm(ALONE, samples)} alone. Together "
        f"the clients have a hundred, and although these are rotated, the shared model reaches "
        f"{_pm(TOGETHER, samples)}. {example().scope}",
        finding(samples),
        Choice.between(
            "Ten rotated clients have ten images each. Who recognizes more of the client's own test images?",
            "Together",
            "Alone",
            _side(samples),
        ),
        "Recall the previous story: at 90° one model fits the clients at both ends badly. Ask whether ten images are "
        "enough to learn ten digits alone.",
    )


def _forty() -> Scene:
    samples = "40"
    gaining = _gaining(samples)
    return Scene(
        "Forty",
        {"samples": samples},
        f"At forty images, clients reach {_pm(ALONE, samples)} alone and {_pm(TOGETHER, samples)} together. The two "
        f"means hide who gains by sharing and who does not. {example().scope}",
        f"With 40 images each, sharing still helps {gaining} of {CLIENTS} clients; on average one model "
        f"{_versus_alone(samples)} learning alone ({example().over}).",
        Estimate(
            f"Now forty images each. How many of the {CLIENTS} clients are still better off together?",
            np.array([gaining]),
            f"mean of {example().over}",
            lambda run: float((run.now.accuracies[0] > run.now.accuracies[1]).sum()),
            tuple(range(CLIENTS + 1)),
            lambda count, pm=None: f"{count:g} of {CLIENTS}",
        ),
        "Clients in the middle of the rotation are close to the shared model, those at the ends are far from it. Who "
        "should decide whether to share: the average, or each client?",
        beside="Each thin line joins both results of a client.",
    )


def _many() -> Scene:
    samples = "150"
    return Scene(
        "A hundred and fifty",
        {"samples": samples},
        f"With many images, clients reach {_pm(ALONE, samples)} alone and {_pm(TOGETHER, samples)} together. More "
        "images hardly help the shared model: it is not short of data, but cannot fit every angle. "
        f"{example().scope}",
        finding(samples),
        Estimate(
            "With 150 images each, how accurate is a client that learns alone?",
            example().values_at(ALONE, samples),
            example().over,
            lambda run: float(run.now.accuracies[1].mean()),
        ),
        "Both ends of the dial are now known: share when data is scarce, learn alone when it is plentiful. Most "
        "clients are in between, where the story about λ begins.",
    )


def _exercises() -> Sequence[Exercise]:
    crossing = next((samples for samples in SAMPLES if _side(samples) < 0), None)
    where = f"{crossing} images" if crossing else "no number of images on this dial"
    first, last = (example().at(TOGETHER, samples)[0] for samples in ("40", SAMPLES[-1]))
    return [
        Exercise(
            "How many images does it take until learning alone is clearly better on average?",
            f"It first happens at {where}: {meaning(example().over)}.",
        ),
        Exercise(
            "How much does the shared model gain from 40 to 150 images each, and what keeps it from more?",
            f"{points(last - first, TEST_IMAGES)}. One linear model cannot fit all angles at once, however many images "
            "there are.",
        ),
        Exercise(
            "A hospital with 20 images asks whether to join nine others. What would you need to know first?",
            f"How different the others' data are. Here, at up to 90° apart and 20 images, sharing "
            f"{_worth('20')} on average and helps {_gaining('20')} of {CLIENTS} clients.",
        ),
    ]


def _side(samples: str) -> int:
    """Whether one model is ahead of learning alone."""
    return side(example().values_at(TOGETHER, samples), example().values_at(ALONE, samples))


def _versus_alone(samples: str) -> str:
    return word(_side(samples))


def _gaining(samples: str) -> int:
    """How many clients are better off together, on average over the seeds."""
    together, alone = (example().clients_at(samples)[name] for name in NAMES)
    return int((together > alone).sum())


def _worth(samples: str) -> str:
    """``gains 12 points``: what sharing changes on average, compared with learning alone."""
    gap = example().at(TOGETHER, samples)[0] - example().at(ALONE, samples)[0]
    return f"{'gains' if gap >= 0 else 'costs'} {points(abs(gap), TEST_IMAGES)}"


def _pm(name: str, samples: str) -> str:
    return percent_pm(*example().at(name, samples), samples=TEST_IMAGES)


def _by_name(run: "AccuracyRun | None") -> dict[str, np.ndarray]:
    return dict(zip(NAMES, run.now.accuracies, strict=True)) if run else {}


def standing(run: "AccuracyRun | None") -> str:
    if run is None:
        return "This run: press Play"
    together, alone = run.now.accuracies
    gain = int((together > alone).sum())
    means = f"alone {percent(float(alone.mean()), 0)} · together {percent(float(together.mean()), 0)}"
    gaining = f"{gain} of {len(alone)} clients {'gains' if gain == 1 else 'gain'} by sharing"
    return f"This run, round {run.round}: {means} · {gaining}"


def _lines() -> dict[str, dial_curve.Line]:
    styles = {label: palette.style_of(name) for name, label in METHODS.items()}
    return {label: dial_curve.Line(palette.color(style), style.dash, style.symbol) for label, style in styles.items()}


@still
def _still_clients(samples: str) -> go.Figure:
    ends = {name: example().clients_at(samples)[name] for name in NAMES}
    pictures, seeds = example().pictures[str(TURN)], len(example().seeds)
    return rotated_clients.figure(ends, ANGLES, pictures, height=300, seeds=seeds)


@still
def _still_curve(up_to: str) -> go.Figure:
    title, ticks = "training images per client", [5, 10, 20, 40, 80, 150]
    df = dial_curve.data(example())
    return dial_curve.figure(df, _lines(), title, ticks, height=420, samples=TEST_IMAGES, is_log=True, up_to=up_to)
