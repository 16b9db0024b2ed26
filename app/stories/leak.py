"""What leaves the client? A model update, from which a server may compute the images it was trained on.

The client takes one step of gradient descent on a batch of its images and returns the model. The server divides: for
a linear model and a batch of one image, the result is the image.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Picture, are_results_hidden, moving_figure, still
from app.stories import shared_run
from app.stories.asked import Places, asked, stops_up_to
from app.stories.compared import side_of_two, word
from app.stories.dial_example import DialExample, load
from app.stories.figures import leaked_images, similarity_curve
from app.stories.figures.mosaic import WHITE
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading

if TYPE_CHECKING:
    from app.stories.leak_run import Leak, LeakRun, LeakStep

ROUNDS = 20
BATCHES = ("1", "2", "4", "8", "16")
NOISES = {"0": "none", "0.3": "0.3 ×", "1": "1 ×", "3": "3 ×"}
REFERENCE = "mean digit"
EXACT = 1e-3  # the largest error of a pixel that nobody sees
NEAR = 0.01  # of two correlations, as a share of the larger
LINES = {"0": "no noise", "0.3": "noise 0.3", "1": "noise 1", "3": "noise 3"}


class LeakStory:
    order = 4
    slug = "leak"
    short = "What leaks?"
    kicker = "Digits · 10 clients · linear model · one local step"
    title = "What leaves the client?"
    lead = (
        "The images stay with the client, but its update leaves: the change of the model after training on a few "
        "images, a batch. Here a curious server tries to compute these images from the update of one client."
    )
    ending = "You have seen that an update can reveal the images behind it, and what makes that harder."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_one_image(), _four_images(), _sixteen(), _noise()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [
            Dial("noise", "Noise, relative to the update", NOISES),
            Dial("batch", "Images in the batch", {batch: batch for batch in BATCHES}),
        ]

    def steps(self, place: Place) -> Iterator["LeakStep"]:
        from app.stories.leak_run import steps

        return steps(self.config(place), float(place["noise"]))

    def pace(self, round: int) -> float:
        return 4

    def draw(self, place: Place, run: "LeakRun | None", marks: Sequence[Mark]) -> None:
        batch, noise, picture = place["batch"], place["noise"], self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            st.header("How similar, by batch size", anchor=False)
            ends = [(int(mark.place["batch"]), mark.value) for mark in marks if mark.place["noise"] == noise]
            curve = similarity_curve.moving(int(batch), run.value if run and run.now.leak else None, ends)
            shown = _still_curve(_shown(asked(STORY, place)))
            moving_figure(shown, curve, key="dial_figure", alt=finding(place), name="leak")
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "LeakRun | None" = None, marks: Sequence[Mark] = ()) -> Picture:
        leak = run.now.leak if run else None if are_results_hidden() else _first_round(place)
        return Picture(
            _still_images(place["noise"], place["batch"]),
            leaked_images.moving(
                leak.images if leak else _first_images(place["batch"]), leak.guesses if leak else None
            ),
            key="leak_figure",
            alt=f"Images of a batch beside what the server computes from the update. {finding(place)}",
            name="leak-images",
            title="What the client has, and what the server sees (seed 0)",
            now=standing(run),
        )

    @property
    def curve(self) -> Picture:
        ends = ", ".join(f"{at('0', batch):.2f} with {batch}" for batch in BATCHES)
        return Picture(
            _still_curve(_shown(None)),
            {},
            key="curve",
            alt=f"Correlation by images in the batch, without noise: {ends}; the {REFERENCE}: {_reference():.2f}",
            name="leak",
            title="How similar, by batch size",
        )

    def finding(self, place: Place) -> str:
        return finding(place)

    def config(self, place: Place) -> Mapping[str, Any]:
        return experiment(int(place["batch"]))

    def setup_label(self, place: Place) -> str:
        return f"FedAvg with one local step on batches of {place['batch']}, without noise"

    def table(self, places: Places = None) -> pd.DataFrame:
        return similarity_curve.data(example(), _shown(places))

    @property
    def caption(self) -> str:
        return (
            "The run is trained live; the server sees what one of ten clients sends. Without a run, the "
            f"images are those of the first round. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "We assume that the server knows which digit each image shows. Correlation compares the "
            "pixels of an image with those of the server's image: 1 is the same picture up to brightness "
            "and contrast, 0 unrelated. Noise is Gaussian, its standard deviation relative to the root "
            "mean square of the update, and is added to what this client sends only, so its cost in "
            "accuracy is not shown. Correlations are example results that ship with Fedscape: means over "
            f"{ROUNDS} rounds and {example().over}, computed by `{example().command}`."
        )


STORY = LeakStory()


def experiment(batch: int, seed: int = 0) -> dict[str, Any]:
    """One local step on ``batch`` images per round."""
    return {
        "name": f"One local step on {batch} images",
        "dataset": {"name": "digits"},
        "partition": {"name": "iid", "num_clients": 10},
        "model": {"name": "mlr"},
        "training": {"rounds": ROUNDS, "local_steps": 1, "batch_size": batch, "lr": 0.5},
        "algorithms": [{"name": "fedavg"}],
        "seeds": [seed],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("leak")


def at(noise: str, batch: str) -> float:
    """The shipped mean correlation at these stops."""
    return example().at(LINES[noise], batch)[0]


def finding(place: Place) -> str:
    """How similar the server's pictures are at this stop."""
    noise, batch = place["noise"], place["batch"]
    images, found = "one image" if batch == "1" else f"{batch} images", at(noise, batch)
    if found > 1 - EXACT:
        what = "the image" if batch == "1" else "them"
        return f"From the update of {images}, the server computes {what} exactly (correlation {found:.2f})."
    added = "" if noise == "0" else f"{noise} × noise"
    given = added if added and batch == "1" else " and ".join(filter(None, (images, added)))
    pictures, original = ("picture is", "the original") if batch == "1" else ("pictures are", "the originals")
    close = word(_against_mean(found), ("closer to {} than", "about as close to {} as", "further from {} than"))
    return (
        f"With {given}, the server's {pictures} {close.format(original)} the {REFERENCE} is "
        f"(correlation {found:.2f} vs {_reference():.2f})."
    )


def _against_mean(found: float) -> int:
    """Whether a correlation is above that of the mean image of the digit."""
    return side_of_two(found, _reference(), near=NEAR)


def _shown(places: Places) -> dict[str, tuple[str, ...]]:
    """The batches of each line that may be shown."""
    _, dial = STORY.dials({})
    if places is None:
        return dict.fromkeys((*LINES.values(), REFERENCE), BATCHES)
    shown = {
        line: stops_up_to(dial, [place for place in places if place["noise"] == noise]) for noise, line in LINES.items()
    }
    return {line: batches for line, batches in {**shown, REFERENCE: stops_up_to(dial, places)}.items() if batches}


def _reference() -> float:
    return example().at(REFERENCE, BATCHES[0])[0]


def _first_images(batch: str) -> np.ndarray:
    """[B, 64] of the first round, pixels from 0 to 1."""
    pictures = example().pictures[batch]
    return np.asarray(pictures.reshape(len(pictures), -1) / WHITE)


def _first_round(place: Place) -> "Leak | None":
    """What the server computes in the first round, for a reader who shows the result without a run."""
    run = shared_run.start(STORY, place)
    run.advance(1)
    return run.now.leak


def _one_image() -> Scene:
    place, answers = {"noise": "0", "batch": "1"}, ("Nothing", "Which digit it is", "The whole image")
    return Scene(
        "One image",
        place,
        "For each digit, the model has 64 weights, one per pixel, and a constant, the bias. Training on one image "
        "changes the weights by the image times a number, and the bias by that number: one division gives the image. "
        "Correlation compares it with the true one: 1 is the same picture up to brightness and contrast, 0 unrelated.",
        finding(place),
        Choice("A client trains one step on one image. What does its update tell the server?", answers, answers[2]),
        "Do the division on the board for one weight. It holds for every linear model with a bias.",
    )


def _four_images() -> Scene:
    place = {"noise": "0", "batch": "4"}
    return Scene(
        "Four images",
        place,
        "The update is an average over the four images, which mixes them. The digits are still easy to read: each "
        f"digit has weights of its own, so images of different digits hardly overlap. The {REFERENCE} needs no update: "
        "it is the average of all images of the same digit, which can be computed from any "
        "public set of digits.",
        finding(place),
        Estimate(
            "Now four images in one update. How similar are the server's images to them (1 is the same picture, 0 "
            "unrelated)?",
            example().values_at(LINES["0"], "4"),
            example().over,
            lambda run: float(run.value),
            say=_correlation,
        ),
        "Let the class name the digits on the right before you point to those on the left.",
        beside=f"The dotted line is the {REFERENCE}.",
    )


def _sixteen() -> Scene:
    place, answers = {"noise": "0", "batch": "16"}, ("Yes", "No")
    return Scene(
        "Sixteen",
        place,
        "Sixteen images blur into one another: images of the same digit come out as one. This is what the simple "
        "division gives. Stronger attacks (Zhu et al. 2019, Geiping et al. 2020) undo part of the mixing, so large "
        "batches alone are no protection.",
        finding(place),
        Choice(
            "Sixteen images in one update: are the server's images still closer to them than the mean digit is?",
            answers,
            answers[0] if _against_mean(at("0", "16")) > 0 else answers[1],
        ),
        "Real systems use larger batches and several steps, which mixes more, and secure aggregation, which shows the "
        "server only the sum over clients.",
    )


def _noise() -> Scene:
    place = {"noise": "3", "batch": "1"}
    return Scene(
        "Noise",
        place,
        f"The client adds random numbers to its update. If they are as large as the update, the correlation is still "
        f"{at('1', '1'):.2f}; three times as large, {at('3', '1'):.2f}. In the average over many clients, such noise "
        "partly cancels out. This is not differential privacy: a guarantee also needs a bound on what one image can "
        "change in an update, and a count of what all rounds reveal together.",
        finding(place),
        Estimate(
            "One image, and noise three times as large as the update: how similar is the server's image?",
            example().values_at(LINES["3"], "1"),
            example().over,
            lambda run: float(run.value),
            say=_correlation,
        ),
        "Stress the difference between hiding an image from one attack and a guarantee against all. The noise also "
        "costs accuracy, which this story does not measure.",
    )


def _exercises() -> Sequence[Exercise]:
    crossing = next(batch for batch in BATCHES if _against_mean(at("0", batch)) < 0)
    hides = word(side_of_two(at("0", "8"), at("1", "1"), near=NEAR), ("The noise", "Neither", "The seven others"))
    return [
        Exercise(
            "Without noise, from which batch size on is the server clearly worse than the mean digit?",
            f"From {crossing} images: {at('0', crossing):.2f} against {_reference():.2f} ({example().over}).",
        ),
        Exercise(
            "Which hides one image better: seven others in its batch, or noise as large as the update?",
            f"{hides}: the correlation is {at('0', '8'):.2f} with seven others, and {at('1', '1'):.2f} with the noise.",
        ),
        Exercise(
            "A model has no bias. Does the division still work?",
            "Not as it stands: the weights still change by the image times a number, which shows the image up to its "
            "brightness, but the number itself is not sent.",
        ),
    ]


def _correlation(value: float, pm: float | None = None) -> str:
    return f"{value:.2f}" if pm is None else f"{value:.2f} ± {pm:.2f}"


def standing(run: "LeakRun | None") -> str:
    if run is None:
        return "This run: press Play"
    leak = run.now.leak
    if leak is None:
        return "This run, round 0"
    now = f"This run, round {run.round}: correlation {leak.similarity.mean():.2f}, mean so far {run.value:.2f}"
    if leak.largest_error > EXACT:
        return now
    return f"{now} · all pixels equal to {math.floor(-math.log10(leak.largest_error))} decimals"


@still
def _still_images(noise: str, batch: str) -> go.Figure:
    return leaked_images.figure(int(batch), f"mean correlation {at(noise, batch):.2f} ({example().over})")


@still
def _still_curve(batches: Mapping[str, Sequence[str]]) -> go.Figure:
    return similarity_curve.figure(similarity_curve.data(example(), batches), REFERENCE, [int(n) for n in BATCHES])
