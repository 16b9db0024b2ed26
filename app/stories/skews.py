"""How do clients differ? Their labels, their images or how many they have, and what each costs one shared model.

Ten clients with digits, split in three ways: few digits each, rotated images, or unequal numbers of images. The dial is
how strongly they differ. Every client is tested on images like its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Picture, hidden_results, still
from app.stories.asked import Places, asked
from app.stories.compared import MIN_GAP, side, word
from app.stories.dial_example import DialExample, load
from app.stories.figures import client_images, dial_curve, row_ends
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm, points

if TYPE_CHECKING:
    from app.stories.accuracy_run import AccuracyRun, AccuracyStep

CLIENTS = 10
EVERY = 2  # how many clients there are for each whose images are shown
SHOWN = CLIENTS // EVERY
ROUNDS = 30
TEST = 0.7
HOW = TOGETHER, ALONE = "together", "alone"
METHODS = {"fedavg": "Together", "local_train": "Alone"}
STRENGTHS = ("none", "weak", "medium", "strong", "extreme")
OWN_TEST = "Every client is tested on images like its own."


@dataclass(frozen=True)
class Skew:
    """A way in which clients differ, from none to extreme."""

    title: str
    differs: str  # in a sentence
    partition: Mapping[str, Any]
    option: str
    values: tuple[float, ...]  # of the option, one for each strength
    words: tuple[str, ...]  # the same for readers

    def at(self, strength: str) -> Mapping[str, Any]:
        """The partition at a strength of this skew."""
        value = self.values[STRENGTHS.index(strength)]
        return {**self.partition, self.option: value, "num_clients": CLIENTS, "test_fraction": TEST}

    def in_words(self, strength: str) -> str:
        return self.words[STRENGTHS.index(strength)]


SKEWS = {
    "labels": Skew(
        "Labels",
        "labels",
        {"name": "classes_per_client", "assignment": "cyclic"},
        "classes_per_client",
        (10, 6, 4, 2, 1),
        ("all ten digits each", "six digits each", "four digits each", "two digits each", "one digit each"),
    ),
    "features": Skew(
        "Features",
        "features",
        {"name": "feature_shift", "kind": "rotation", "num_groups": CLIENTS},
        "strength",
        (0.0, 0.125, 0.25, 0.5, 1.0),
        ("all upright", "rotated across 45°", "rotated across 90°", "rotated across 180°", "rotated across 360°"),
    ),
    "quantity": Skew(
        "Quantity",
        "amounts of data",
        {"name": "quantity_skew", "law": "power", "min_samples": 6},
        "strength",
        (0.0, 0.5, 1.0, 1.5, 2.0),
        ("equally many", "somewhat unequal", "unequal", "very unequal", "one client has most"),
    ),
}


class Skews:
    order = 6
    slug = "skews"
    short = "How clients differ"
    kicker = f"Digits · {CLIENTS} clients · about 50 training images per client · linear model"
    title = "How do clients differ?"
    lead = (
        "Clients are rarely alike. They may have different digits (label skew), images that look different (feature "
        "skew), or more images than others (quantity skew). Each changes how much one shared model helps, compared "
        "with each client training alone."
    )
    ending = "You have seen three ways in which clients differ, and what each costs one shared model."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_alike(), _labels(), _features(), _quantity()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [
            Dial("skew", "What differs", {name: skew.title for name, skew in SKEWS.items()}),
            Dial("strength", "How strongly", {strength: strength for strength in STRENGTHS}),
        ]

    def steps(self, place: Place) -> Iterator["AccuracyStep"]:
        from app.stories.accuracy_run import steps

        return steps(self.config(place))

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def draw(self, place: Place, run: "AccuracyRun | None", marks: Sequence[Mark]) -> None:
        strength, picture = place["strength"], self.picture(place, run, marks)
        for column, name in zip(st.columns(3, gap="medium"), SKEWS, strict=True):
            with column:
                images = _images(name, strength)
                st.header(images.title, anchor=False)
                with hidden_results(False):  # the images are none
                    images.draw()
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "AccuracyRun | None" = None, marks: Sequence[Mark] = ()) -> Picture:
        now = (float(run.now.accuracies[0].mean()), float(run.now.accuracies[1].mean())) if run else None
        return Picture(
            _still_costs(place["strength"], _shown_at(place["strength"], asked(STORY, place))),
            row_ends.moving(HOW, {list(SKEWS).index(place["skew"]): now} if now else {}),
            key="dial_figure",
            alt=finding(place),
            name="skews",
            title="Mean accuracy of the clients",
            now=standing(place["skew"], run),
        )

    @property
    def curve(self) -> Picture:
        """The strongest differences, which no scene shows."""
        extreme = STRENGTHS[-1]
        return Picture(
            _still_costs(extreme, list(SKEWS)),
            {},
            key="curve",
            alt=" ".join(finding({"skew": skew, "strength": extreme}) for skew in SKEWS),
            name="skews",
            title=f"Mean accuracy of the clients, differences: {extreme}",
        )

    def motif(self, place: Place) -> Picture:
        return _images(place["skew"], place["strength"])

    def finding(self, place: Place) -> str:
        return finding(place)

    def config(self, place: Place) -> Mapping[str, Any]:
        return experiment(place["skew"], place["strength"])

    def setup_label(self, place: Place) -> str:
        strength = "no" if place["strength"] == "none" else place["strength"]
        return f"together and alone, {strength} differences in {SKEWS[place['skew']].differs}"

    def table(self, places: Places = None) -> pd.DataFrame:
        df = dial_curve.data(example())
        shown = {
            (line(skew, how), strength) for strength in STRENGTHS for skew in _shown_at(strength, places) for how in HOW
        }
        return df[[pair in shown for pair in zip(df["line"], df["stop"], strict=True)]]

    @property
    def caption(self) -> str:
        return (
            "The pictures are training images of five of the ten clients (seed 0). Clients with more data show "
            "more pictures; the number is each client's total. The colored marks are trained live on real "
            f"digits of 8 x 8 pixels: one shared model, and a model for each client alone. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "Models are tested on images of the client's own. Gray marks are example results that ship "
            f"with Fedscape: means over clients and {example().over}, computed by `{example().command}`; "
            "lines: ± one standard deviation over the seeds."
        )


STORY = Skews()


def experiment(skew: str, strength: str) -> dict[str, Any]:
    """One shared model and each client alone."""
    return {
        "name": f"Clients differ in {SKEWS[skew].differs}: {strength}",
        "dataset": {"name": "digits"},
        "partition": SKEWS[skew].at(strength),
        "model": {"name": "mlr"},
        "training": {"rounds": ROUNDS, "local_steps": 20, "batch_size": "full", "lr": 0.5},
        "algorithms": [{"name": name, "label": label} for name, label in METHODS.items()],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("skews")


def line(skew: str, how: str) -> str:
    """The name of the shipped results of a skew, together or alone."""
    return f"{skew} {how}"


def end(skew: str, how: str, strength: str) -> tuple[float, float]:
    """The shipped mean and standard deviation over seeds."""
    return example().at(line(skew, how), strength)


def finding(place: Place) -> str:
    """How sharing compares with training alone at this place."""
    skew, strength = place["skew"], place["strength"]
    beats = word(_side(skew, strength))
    together, alone = (_pm(skew, how, strength) for how in (TOGETHER, ALONE))
    what = "Clients that are alike" if strength == "none" else f"{SKEWS[skew].title}, {SKEWS[skew].in_words(strength)}"
    return f"{what}: one shared model {beats} training alone, {together} against {alone} ({example().over})."


def _side(skew: str, strength: str) -> int:
    """Whether sharing is ahead of training alone."""
    return side(*(example().values_at(line(skew, how), strength) for how in (TOGETHER, ALONE)))


def _alike() -> Scene:
    gains = [end(skew, TOGETHER, "none")[0] - end(skew, ALONE, "none")[0] for skew in SKEWS]
    least, most = (f"{100 * gain:.0f}" for gain in (min(gains), max(gains)))
    place = {"skew": "labels", "strength": "none"}
    return Scene(
        "Alike",
        place,
        f"Alone, a client has about 50 images; together they have over 500, and "
        f"all of these help everyone. In three random splits, the shared model is {least} to {most} points ahead.",
        finding(place),
        Choice.between(
            "Ten clients with about 50 images each, all alike. Which is better: one model together, or each alone?",
            "Together",
            "Alone",
            _side("labels", "none"),
        ),
        "The starting point: without differences there is no question whether to share. The three columns are three "
        "random splits of the same kind, so their numbers differ a little.",
        beside="Each row of images is a client's.",
    )


def _labels() -> Scene:
    place = {"skew": "labels", "strength": "strong"}
    return Scene(
        "Different labels",
        place,
        f"Compared with clients that are alike, the shared model {_change('labels', TOGETHER)}. Clients alone "
        f"{_change('labels', ALONE)}: telling two digits apart is easier than telling ten apart. {OWN_TEST}",
        finding(place),
        Estimate(
            "Each client now has only two digits, and is tested on these two. How accurate is a client that trains "
            "alone?",
            example().values_at(line("labels", ALONE), "strong"),
            example().over,
            lambda run: float(run.now.accuracies[1].mean()),
        ),
        "Ask what a model that has never seen a 7 does with one. Here no client is tested on digits it does not have; "
        "tested on all ten, a client that knows two could not reach much more than 20 %.",
    )


def _features() -> Scene:
    place = {"skew": "features", "strength": "strong"}
    return Scene(
        "Different features",
        place,
        f"Compared with clients that are alike, the shared model {_change('features', TOGETHER)}: the same digit looks "
        "different on every client, and one linear model cannot fit them all. Clients alone "
        f"{_change('features', ALONE)}: each sees one angle only. {OWN_TEST}",
        finding(place),
        Estimate(
            "Each client's images are rotated by a different angle. How accurate is one shared model?",
            example().values_at(line("features", TOGETHER), "strong"),
            example().over,
            lambda run: float(run.now.accuracies[0].mean()),
        ),
        "The next stories follow this one: the more the clients' images differ, the less one model fits.",
    )


def _quantity() -> Scene:
    place = {"skew": "quantity", "strength": "strong"}
    return Scene(
        "Different amounts",
        place,
        f"Compared with clients that have equally many, the shared model {_change('quantity', TOGETHER)}: it learns "
        f"from all images, whoever has them. Clients alone {_change('quantity', ALONE)} on average, because most of "
        f"them now have few. {OWN_TEST}",
        finding(place),
        Estimate(
            "A few clients have most of the images. How accurate are clients that train alone, on average?",
            example().values_at(line("quantity", ALONE), "strong"),
            example().over,
            lambda run: float(run.now.accuracies[1].mean()),
        ),
        "Who gains and who pays? The large client could do without the others, the small ones could not.",
    )


def _exercises() -> Sequence[Exercise]:
    costs = {skew: 100 * (end(skew, TOGETHER, "none")[0] - end(skew, TOGETHER, "extreme")[0]) for skew in SKEWS}
    worst = max(costs, key=costs.__getitem__)
    gap = end("quantity", TOGETHER, "extreme")[0] - end("quantity", ALONE, "extreme")[0]
    return [
        Exercise(
            "Which difference costs the shared model most when it is extreme?",
            f"Differences in {SKEWS[worst].differs}: {costs[worst]:.0f} points.",
        ),
        Exercise(
            "One digit each: how accurate are clients that train alone, and are these good models?",
            f"{_pm('labels', ALONE, 'extreme')} on their own images. But a model may always answer with its one digit, "
            "and is then wrong on every other.",
        ),
        Exercise(
            "How much is sharing worth when one client has most of the data?",
            f"{100 * gap:.0f} points on average, at the setting “extreme”.",
        ),
    ]


def _pm(skew: str, how: str, strength: str) -> str:
    return percent_pm(*end(skew, how, strength), samples=100)


def _change(skew: str, how: str) -> str:
    """What a strong difference changes, together or alone: ``loses 29 points (from 95 % to 66 %)``."""
    alike, strong = end(skew, how, "none")[0], end(skew, how, "strong")[0]
    gap = strong - alike
    if abs(gap) < MIN_GAP:
        return f"{'hardly changes' if how == TOGETHER else 'hardly change'} ({points(abs(gap), samples=100)})"
    verb = f"{'gain' if gap > 0 else 'lose'}{'s' if how == TOGETHER else ''}"
    return f"{verb} {points(abs(gap), samples=100)} (from {percent(alike, 0)} to {percent(strong, 0)})"


def standing(skew: str, run: "AccuracyRun | None") -> str:
    if run is None:
        return "This run: press Play"
    together, alone = (float(own.mean()) for own in run.now.accuracies)
    words = f"together {percent(together, 0)}, alone {percent(alone, 0)}"
    return f"This run, round {run.round}: {SKEWS[skew].title.lower()}, {words}"


def _images(name: str, strength: str) -> Picture:
    words = SKEWS[name].in_words(strength)
    return Picture(
        _still_images(name, strength),
        {},
        key=f"{name}_figure",
        alt=f"Training images of {SHOWN} of {CLIENTS} clients, {words}",
        name=f"skew-{name}",
        title=f"{SKEWS[name].title}: {words}",
    )


@still
def _still_images(skew: str, strength: str) -> go.Figure:
    at = STRENGTHS.index(strength)
    sizes = example().clients[skew][at].astype(int).tolist()
    clients = [list(example().pictures[f"{skew} {strength} {client}"]) for client in range(SHOWN)]
    return client_images.figure(clients, sizes)


def _shown_at(strength: str, places: Places) -> list[str]:
    """The skews whose results may be shown. Clients that are alike give no answer away to a later question."""
    if places is None or (strength == STRENGTHS[0] and places):
        return list(SKEWS)
    return [skew for skew in SKEWS if {"skew": skew, "strength": strength} in places]


@still
def _still_costs(strength: str, shown: Sequence[str]) -> go.Figure:
    hidden = (nan, nan)
    ends = {how: [end(skew, how, strength) if skew in shown else hidden for skew in SKEWS] for how in HOW}
    rows, seeds = [skew.title for skew in SKEWS.values()], len(example().seeds)
    return row_ends.figure(rows, ends, "accuracy on own images, %", seeds=seeds)
