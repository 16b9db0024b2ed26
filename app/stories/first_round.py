"""What is federated learning? One round, phase by phase: send the model, train on each client, return, average.

Every client has 30 images of its own. The dial is the number of clients: with each, the shared model learns from
more images, although none of them leaves its client.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Picture, moving_figure, still
from app.stories import round_phases
from app.stories.asked import Places, stops_up_to
from app.stories.dial_example import DialExample, load
from app.stories.figures import accuracy_by_round, dial_curve, round_picture
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm, plural, size_bytes

if TYPE_CHECKING:
    from app.stories.first_round_run import FirstRoundRun, PhaseStep

DIGITS = 1797
IMAGES = 30  # training images of every client
ROUNDS = 15
CLIENTS = ("1", "2", "5", "10")
TOGETHER, ALONE = "Together", "Alone"
METHODS = {"fedavg": TOGETHER, "local_train": ALONE}


class FirstRound:
    order = 2
    slug = "first-round"
    short = "Federated learning?"
    kicker = f"Digits · {IMAGES} training images per client · linear model"
    title = "What is federated learning?"
    lead = (
        "Several clients (phones, hospitals) train one model together without pooling their data: a server sends the "
        "model, each client trains a copy on its own images and returns it, and the server averages the copies."
    )
    ending = "You have seen how clients train one model together while their data stays where it is."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_one_client(), _one_round(), _more_clients()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("clients", "Clients", {n: n for n in CLIENTS})]

    def steps(self, place: Place) -> Iterator["PhaseStep"]:
        from app.stories.first_round_run import steps

        return steps(config(place["clients"], "fedavg"))

    def pace(self, round: int) -> float:
        """Phases per second: slow in the first rounds; later a whole round at a time."""
        return 4 if round < 4 else 16

    def draw(self, place: Place, run: "FirstRoundRun | None", marks: Sequence[Mark]) -> None:
        clients, picture = place["clients"], self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            st.header("Accuracy of the shared model", anchor=False)
            ends = [(ROUNDS, mark.value) for mark in marks]
            curve = accuracy_by_round.moving(_accuracies(run) if run else [], ends)
            moving_figure(_still_curve(clients), curve, key="dial_figure", alt=finding(clients), name="first-rounds")
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "FirstRoundRun | None" = None, marks: Sequence[Mark] = ()) -> Picture:
        clients = place["clients"]
        moves = round_picture.untrained(int(clients))
        if run:
            moves = round_picture.moving(run.now.phase, run.now.shared, run.now.copies, run.now.num_clients)
        return Picture(
            _still_picture(clients),
            moves,
            key="round_figure",
            alt=f"A server above, {plural(int(clients), 'client')} with images below. {finding(clients)}",
            name="one-round",
            title="The server, and the clients with their images",
            now=standing(clients, run),
        )

    def finding(self, place: Place) -> str:
        return finding(place["clients"])

    def config(self, place: Place) -> Mapping[str, Any]:
        """The run, and each client alone."""
        return config(place["clients"], *METHODS)

    def setup_label(self, place: Place) -> str:
        return f"{plural(int(place['clients']), 'client')}, together and alone"

    def table(self, places: Places = None) -> pd.DataFrame:
        (dial,) = self.dials({})
        return dial_curve.data(example(), stops_up_to(dial, places))

    @property
    def caption(self) -> str:
        return (
            "The run is trained live on real digits of 8 x 8 pixels; images not used for training are "
            f"used for testing. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "The squares are the 64 weights of the model that look for a 0: blue pixels count for it, red "
            "ones against it. Bytes count all parameters, 4 bytes each, without compression. References "
            f"are example results on real digits that ship with Fedscape: means over {example().over}, "
            f"computed by `{example().command}`."
        )


STORY = FirstRound()


def config(clients: str, *methods: str) -> Mapping[str, Any]:
    """An experiment with so many clients of ``IMAGES`` training images each."""
    N = int(clients)
    return {
        "name": f"First rounds, {plural(N, 'client')}",
        "dataset": {"name": "digits"},
        "partition": {"name": "iid", "num_clients": N, "test_fraction": round(1 - IMAGES * N / DIGITS, 4)},
        "model": {"name": "mlr", "init": "zeros"},
        "training": {"rounds": ROUNDS, "local_steps": 5, "batch_size": "full", "lr": 0.5},
        "algorithms": [{"name": name, "label": METHODS[name]} for name in methods],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("first_round")


def finding(clients: str) -> str:
    """The result with this number of clients, in a sentence."""
    if clients == "1":
        return (
            f"A single client gains nothing: it recognizes {_pm(ALONE, clients)} of the test images either way "
            f"({example().over})."
        )
    return (
        f"{clients} clients together recognize {_pm(TOGETHER, clients)} of the test images; alone they "
        f"reach {_pm(ALONE, clients)} on average ({example().over})."
    )


def model_bytes() -> int:
    """The size of one model: 10 digits with a bias and 64 weights, one per pixel, 4 bytes each."""
    return (64 + 1) * 10 * 4


def _one_client() -> Scene:
    answers = ("Nothing", "A better model", "A smaller model")
    return Scene(
        "One client",
        {"clients": "1"},
        "The server sends the client an untrained model, the client trains a copy and returns it. With one client the "
        "average is that copy, so nothing is gained by sending it.",
        finding("1"),
        Choice("A single client trains together with a server. What does it gain?", answers, answers[0]),
        "Name the parts: server, client, its images, its copy of the model. Step through one round before you press "
        "Play: send, train, return, average.",
    )


def _one_round() -> Scene:
    model, images = size_bytes(model_bytes()), size_bytes(64 * IMAGES)
    answers = ("More bytes than its images have", "As many", "Fewer")
    right = answers[0] if model_bytes() > 64 * IMAGES else answers[2]
    return Scene(
        "One round",
        {"clients": "5"},
        "A model is 650 numbers of 4 bytes. The images of a client, a byte for "
        f"each pixel, are {images}: the benefit is not less traffic, but that the images stay with the client.",
        f"Only models travel: {model} to each client and {model} back in each round; a client's images take {images}.",
        Choice(
            f"A client has {IMAGES} images of 64 bytes each; the model is 650 numbers of 4 bytes. What does the client "
            "send in a round?",
            answers,
            right,
        ),
        "Ask what leaves the client before you step to phase 3. The squares show the part of the model that looks for "
        "a 0; each copy differs, and their average is smoother.",
        beside="Press Step to see one phase at a time.",
    )


def _more_clients() -> Scene:
    return Scene(
        "More clients",
        {"clients": "10"},
        f"The shared model learns from 300 images, although no client ever sees more than its own {IMAGES}, and the "
        "server none.",
        finding("10"),
        Estimate(
            f"Alone, ten clients recognize {_pm(ALONE, '10')} on average. How much do they reach together?",
            example().values_at(TOGETHER, "10"),
            example().over,
            lambda run: float(run.value),
        ),
        "The gain comes from data that nobody shares. The next story asks whether the updates reveal that data.",
    )


def _exercises() -> Sequence[Exercise]:
    total = ROUNDS * 10 * model_bytes()
    two, five, ten = (example().at(TOGETHER, clients)[0] for clients in ("2", "5", "10"))
    return [
        Exercise(
            f"How many bytes do ten clients return in {ROUNDS} rounds, and how many would their images take?",
            f"{size_bytes(total)} of models against {size_bytes(10 * 64 * IMAGES)} of images, a byte for each pixel.",
        ),
        Exercise(
            "What helps more: to go from 2 clients to 5, or from 5 to 10?",
            f"From 2 to 5: two clients reach {percent(two, 0)}, five {percent(five, 0)} and ten {percent(ten, 0)}.",
        ),
        Exercise(
            "Why does each client not simply train its own model alone?",
            f"It would learn from {IMAGES} images only. Alone, clients reach {_pm(ALONE, '10')}; the average of ten "
            f"reaches {_pm(TOGETHER, '10')}.",
        ),
    ]


def _pm(name: str, clients: str) -> str:
    return percent_pm(*example().at(name, clients), samples=100)


def _accuracies(run: "FirstRoundRun") -> list[float]:
    """The shared model's accuracy after every complete round so far."""
    return [step.value for step in run.steps if step.phase == round_phases.AVERAGE]


def standing(clients: str, run: "FirstRoundRun | None") -> str:
    """``This run, round 1: phase 2 of 4, ... · 13 kB down, 13 kB up · accuracy 61 %``."""
    if run is None:
        return "This run: press Play"
    now = run.now
    sent = f"{size_bytes(now.bytes_down)} down, {size_bytes(now.bytes_up)} up"
    phase = f"phase {now.phase + 1} of 4, {round_phases.in_words(now.phase, int(clients))}"
    return f"This run, round {run.round}: {phase} · {sent} · accuracy {percent(run.value, 0)}"


@still
def _still_picture(clients: str) -> go.Figure:
    ended = f"after {ROUNDS} rounds,<br>mean of {example().over}: {percent(example().at(TOGETHER, clients)[0], 0)}"
    return round_picture.figure(example().pictures[clients].reshape(int(clients), 4, 8, 8), ended)


@still
def _still_curve(clients: str) -> go.Figure:
    names = (ALONE,) if clients == "1" else (TOGETHER, ALONE)
    return accuracy_by_round.figure(
        {name: example().at(name, clients)[0] for name in names}, ROUNDS, len(example().seeds)
    )
