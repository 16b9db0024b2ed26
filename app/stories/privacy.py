"""Private clients: one model for all pays for privacy; a personalized model pays less.

Forty clients with five digits each. Their updates are clipped and the server adds noise to the sum, so that the shared
models hide whether a client took part. One model (FedAvg), personalized models pulled toward it with three strengths
(Ditto), and learning alone, which sends nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from app.stories import method_changes, method_rows
from app.stories.compared import MIN_GAP, side, word
from app.stories.dial_example import DialExample, load
from app.stories.dial_story import DialStory
from app.stories.method_rows import LOWEST, MEAN
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Place, Scene
from app.wording import points
from engine.privacy import accounting

if TYPE_CHECKING:
    from app.stories.dial_run import DialRun

CLIENTS = 40
ROUNDS = 40
CLASSES = 5
CLIP, DELTA = 1.0, 0.01
MANY = 400  # clients of a larger federation
OPEN, FEDAVG, ALONE = "FedAvg without noise", "FedAvg", "Alone"
DITTO, WEAK, WEAKEST = "Ditto, λ = 1", "Ditto, λ = 0.3", "Ditto, λ = 0.1"
METHODS: Mapping[str, Mapping[str, Any]] = {
    OPEN: {"name": "fedavg"},
    FEDAVG: {"name": "fedavg"},
    DITTO: {"name": "ditto", "lam": 1.0},
    WEAK: {"name": "ditto", "lam": 0.3},
    WEAKEST: {"name": "ditto", "lam": 0.1},
    ALONE: {"name": "local_train"},
}
PULLED = DITTO, WEAK, WEAKEST
MNIST = "The preset dial-privacy makes the same comparison on MNIST with 100 clients."


@dataclass(frozen=True)
class Noise:
    """How much noise the server adds."""

    z: float  # its standard deviation, in units of C; 0 is no privacy at all: nothing is clipped either
    compared: tuple[str, str]  # the methods whose difference the scene is about

    @property
    def epsilon(self) -> float:
        """Epsilon after all rounds at ``DELTA``, if all clients take part in each."""
        return accounting.epsilon(1.0, self.z, ROUNDS, DELTA)

    @property
    def title(self) -> str:
        return f"z = {self.z:g}, {_said(self.epsilon)}" if self.z else "no privacy"


NOISES = {
    "off": Noise(0, (DITTO, ALONE)),
    "1": Noise(1, (FEDAVG, OPEN)),
    "2": Noise(2, (WEAK, DITTO)),
    "4": Noise(4, (FEDAVG, OPEN)),
    "8": Noise(8, (WEAKEST, ALONE)),
}


class Privacy(DialStory):
    order = 65
    slug = "privacy"
    dial = "privacy"
    methods = tuple(METHODS)
    short = "Private clients"
    kicker = f"Digits · {CLIENTS} clients · {CLASSES} digits each · 13 to 27 training images · linear model"
    title = "Who pays for privacy?"
    lead = (
        "Noise on the sum of all updates hides whether a client took part: its standard deviation is z times the "
        "largest update that the server lets through. ε says how well it hides: the smaller, the better. A shared "
        "model contains this noise. A personalized model stays with its client and needs none, but Ditto pulls it "
        "toward the shared model, with strength λ."
    )
    ending = "You have seen what privacy costs, and that personalized models pay less for it."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_open(), _little(), _own(), _who_pays(), _alone()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {stop: noise.title for stop, noise in NOISES.items()}
        help = (
            "z: standard deviation of the noise, relative to the largest update that the server lets through. "
            "ε: how well the noise hides whether a client took part; smaller is better."
        )
        return [Dial("privacy", f"Noise (z), and ε after {ROUNDS} rounds", titles, help=help)]

    def pace(self, round: int) -> float:
        return 6 + round / 4

    def alt(self, stop: str) -> str:
        ours, theirs = NOISES[stop].compared
        return f"With {NOISES[stop].title}: {ours} ends at {_pm(ours, stop)}, {theirs} at {_pm(theirs, stop)}"

    def standing(self, stop: str, run: "DialRun | None") -> str:
        words = method_rows.standing(self.methods, NOISES[stop].compared, run)
        if run is None or not NOISES[stop].z:
            return words
        return f"{words} · {_said(run.now.epsilons[self.methods.index(FEDAVG)])} so far"

    def draw_clients(self, stop: str, run: "DialRun | None") -> None:
        method_changes.draw(self.slug, self.methods, NOISES[stop].compared, stop, run, CLIENTS)

    def config(self, place: Place) -> Mapping[str, Any]:
        return experiment(place["privacy"])

    def setup_label(self, place: Place) -> str:
        return f"these {len(METHODS)} methods, {NOISES[place['privacy']].title}"

    @property
    def caption(self) -> str:
        return (
            "The colored marks are trained live. The change for each client is from one seed: this run's "
            "or, before it starts, the shipped seed 0. ε covers the shared models of one method, but not "
            f"what this page shows about single clients. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            f"{method_rows.source(example(), ROUNDS)} "
            "Each client has 12 to 27 test images, and the lowest "
            f"5 % are two of {CLIENTS} clients. C = {CLIP:g}, δ = {DELTA:g}; all clients participate in "
            "every round."
        )


STORY = Privacy()


def experiment(
    stop: str, methods: Mapping[str, Mapping[str, Any]] = METHODS, population: int | None = None
) -> dict[str, Any]:
    """Methods with this noise; ``population``: with the noise of a federation of this many clients."""
    noise: dict[str, Any] = {"unit": "client", "clip": CLIP, "noise": NOISES[stop].z, "delta": DELTA}
    if population:
        noise["population"] = population
    privacy = {"privacy": noise} if NOISES[stop].z else {}
    return {
        "name": f"Private clients: {NOISES[stop].title}",
        "dataset": {"name": "digits"},
        "partition": {
            "name": "classes_per_client",
            "num_clients": CLIENTS,
            "classes_per_client": CLASSES,
            "sizes": [30, 58],
            "test_fraction": 0.5,
        },
        "model": {"name": "mlr"},
        "training": {"rounds": ROUNDS, "local_steps": 10, "batch_size": 10, "lr": 0.1},
        "algorithms": [
            {**entry, **({} if label == OPEN else privacy), "label": label} for label, entry in methods.items()
        ],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("privacy")


def larger() -> DialExample:
    """FedAvg with the most noise, in a federation of ``MANY`` clients."""
    return load("privacy_population")


def _open() -> Scene:
    return Scene(
        "No privacy",
        {"privacy": "off"},
        f"One model serves these clients better than learning alone ({_pm(FEDAVG, 'off')} against "
        f"{_pm(ALONE, 'off')}), and a personalized model beside it is better still. But everyone sees the shared "
        "model, and it depends on every client's data. Learning alone reveals nothing, because it sends nothing: ε = "
        "0.",
        f"Without privacy, Ditto with λ = 1 ends at {_pm(DITTO, 'off')}, learning alone at {_pm(ALONE, 'off')} "
        f"({example().over}).",
        Estimate(
            f"Nobody adds noise. Alone, clients reach {_pm(ALONE, 'off')}. What does Ditto with λ = 1 reach?",
            _values(DITTO, "off"),
            example().over,
            _measured(DITTO),
        ),
        "The baseline. Ask what a client gives away by taking part: the story on leaks rebuilds images from an update. "
        f"The row without noise stays the same in all scenes, and so does Alone. {MNIST}",
    )


def _little() -> Scene:
    epsilon = NOISES["1"].epsilon
    return Scene(
        "A little noise",
        {"privacy": "1"},
        f"Each update is scaled down to a norm of at most C = {CLIP:g}, and the server adds noise with standard "
        f"deviation z C to their sum. ε bounds what the shared models reveal: apart from a chance of δ = {DELTA:g}, "
        "no outcome is more than eᵋ times as likely with a client as without it. "
        f"With {_said(epsilon)} this factor is about 10{_raised(epsilon / np.log(10))}, a very weak guarantee.",
        f"With z = 1 ({_said(epsilon)}), FedAvg ends at {_pm(FEDAVG, '1')}; without noise, at {_pm(OPEN, '1')} "
        f"({example().over}).",
        Estimate(
            f"The server adds noise with z = 1 in every round. Without noise, FedAvg reached {_pm(OPEN, '1')}. And "
            "now?",
            _values(FEDAVG, "1"),
            example().over,
            _measured(FEDAVG),
        ),
        "Cheap, and weak. ε grows with every round, because every round reveals something: watch it while it trains. "
        "ε covers all data of a client, against everyone who sees the shared models. It does not protect against the "
        "server, which sees each update before it adds the noise. Nor does it cover λ and the learning rate, which we "
        "chose by looking at results.",
    )


def _own() -> Scene:
    gap = side(_values(WEAK, "2"), _values(DITTO, "2"))
    return Scene(
        "A personalized model",
        {"privacy": "2"},
        f"Compared with no privacy, {_said(NOISES['2'].epsilon)} costs FedAvg {_loss(FEDAVG, '2')} and Ditto (λ = 0.3) "
        f"{_loss(WEAK, '2')}. The personalized model never leaves its client, so it is trained without noise; what it "
        "takes from the others comes through the pull, noise included.",
        f"With {_said(NOISES['2'].epsilon)}, Ditto ends at {_pm(WEAK, '2')} with λ = 0.3 and at "
        f"{_pm(DITTO, '2')} with λ = 1 ({example().over}).",
        Choice.between(
            f"Twice the noise: {_said(NOISES['2'].epsilon)}. Which pull of Ditto serves the clients better?",
            "λ = 0.3",
            "λ = 1",
            gap,
        ),
        "Look at the bars: who gains from the weaker pull? ε is the same for FedAvg and Ditto, because both send "
        "the same thing. What stays with its client costs no privacy.",
    )


def _who_pays() -> Scene:
    answers = ("They lose more than the mean", "About as much", "They lose less")
    return Scene(
        "Who pays",
        {"privacy": "4"},
        f"Reaching {_said(NOISES['4'].epsilon)} takes {_loss(FEDAVG, '4')} from FedAvg's mean and "
        f"{_loss(FEDAVG, '4', LOWEST)} from its lowest 5 %. Ditto with λ = 0.1 loses {_loss(WEAKEST, '4')} of its mean "
        f"and {_loss(WEAKEST, '4', LOWEST)} of its lowest 5 %. Of these pulls, the best is now {_best('4')}; without "
        f"privacy, {_best('off')}.",
        f"With {_said(NOISES['4'].epsilon)}, FedAvg's lowest 5 % fall from {_pm(OPEN, '4', LOWEST)} to "
        f"{_pm(FEDAVG, '4', LOWEST)} ({example().over}).",
        Choice(
            f"With {_said(NOISES['4'].epsilon)}, FedAvg's mean loses {_loss(FEDAVG, '4')}. What happens to its lowest "
            "5 %?",
            answers,
            word(side(_losses(FEDAVG, "4", LOWEST), _losses(FEDAVG, "4")), answers),
        ),
        "The noise is the same for everyone; its cost is not. The bars compare FedAvg with and without noise, client "
        "by client. Two clients decide each lowest 5 %, so one seed says little.",
    )


def _alone() -> Scene:
    gap = side(_values(WEAKEST, "8"), _values(ALONE, "8"))
    return Scene(
        "More noise",
        {"privacy": "8"},
        f"{_said(NOISES['8'].epsilon)} is a meaningful promise: no outcome is more than "
        f"{np.exp(NOISES['8'].epsilon):.1f} times as likely with a client as without it (δ = {DELTA:g}). With "
        f"{CLIENTS} clients it costs more than sharing gains: the weaker the pull, the better, and the weakest is "
        "λ = 0, learning alone.",
        f"With {_said(NOISES['8'].epsilon)}, Ditto with λ = 0.1 ends at {_pm(WEAKEST, '8')}, learning alone at "
        f"{_pm(ALONE, '8')} ({example().over}).",
        Choice.between(
            f"More noise still: {_said(NOISES['8'].epsilon)}. Which serves the clients better?",
            "Ditto with λ = 0.1",
            "Learning alone",
            gap,
        ),
        f"Privacy depends on how many take part: the noise is added once, to the sum. With {MANY} clients the mean has "
        "a tenth of it, at the same ε. The second exercise has the numbers.",
    )


def _exercises() -> Sequence[Exercise]:
    best = "; ".join(f"{noise.title}: {_best(stop)}" for stop, noise in NOISES.items())
    many = method_rows.pm(larger(), FEDAVG, str(MANY), MEAN)
    return [
        Exercise(
            "Count learning alone as λ = 0. Which of λ = 1, 0.3, 0.1 and 0 come within a point of the highest mean at "
            "each noise level?",
            f"{best}. The more noise, the less a client should rely on the others.",
        ),
        Exercise(
            f"The same z = 8 with {MANY} clients instead of {CLIENTS}: what happens to the noise in the mean, to ε at "
            "this δ, and to FedAvg?",
            f"The noise in the mean is a tenth, and ε stays {NOISES['8'].epsilon:.1f}. FedAvg ends at {many} instead "
            f"of {_pm(FEDAVG, '8')}: these {CLIENTS} clients with the noise of {MANY} (`population: {MANY}`), "
            f"{larger().over}.",
        ),
        Exercise(
            "A clinic asks whether ε protects it from the server. Does it?",
            "No. The server sees each update before it adds the noise. ε covers those who see the shared models. "
            "Secure aggregation would hide single updates from the server.",
        ),
    ]


def _measured(method: str) -> Any:
    """The value of a question in the reader's run: the mean of a method."""
    at = list(METHODS).index(method)
    return lambda run: run.now.scores[at][0]


def _values(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    return method_rows.values(example(), method, stop, what)


def _pm(method: str, stop: str, what: str = MEAN) -> str:
    return method_rows.pm(example(), method, stop, what)


def _losses(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    """[seeds]: the loss compared with the same method without privacy."""
    return np.asarray(_values(method, "off", what) - _values(method, stop, what))


def _loss(method: str, stop: str, what: str = MEAN) -> str:
    """``23 points``"""
    return points(float(_losses(method, stop, what).mean()), samples=100)


def _best(stop: str) -> str:
    """``λ = 1 or 0.3``: the pulls within a point of the highest mean, learning alone being 0."""
    means = {method: float(_values(method, stop).mean()) for method in (*PULLED, ALONE)}
    near = [method for method, mean in means.items() if mean > max(means.values()) - MIN_GAP]
    *others, last = ["0 (alone)" if method == ALONE else method.removeprefix("Ditto, λ = ") for method in near]
    return f"λ = {', '.join(others)} or {last}" if others else f"λ = {last}"


def _raised(power: float) -> str:
    """``¹⁵``"""
    return f"{power:.0f}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _said(epsilon: float) -> str:
    """``ε = 34``, ``ε = 1.7``"""
    return f"ε = {epsilon:.0f}" if epsilon >= 10 else f"ε = {epsilon:.1f}"
