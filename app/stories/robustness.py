"""Malicious clients: what a robust rule costs, and why a personalized model does not protect without one.

Forty clients with five digits each; eight of them are malicious, or none, or eighteen. The server takes the mean of the
updates, their median, or multi-Krum's choice, for one model (FedAvg) or beneath personalized models (Ditto).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from app.stories import method_changes, method_rows
from app.stories.compared import meaning, side, word
from app.stories.dial_example import DialExample, load
from app.stories.dial_story import DialStory
from app.stories.method_rows import LOWEST, MEAN
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Place, Scene
from app.wording import capital, percent, points

if TYPE_CHECKING:
    from app.stories.dial_run import DialRun

CLIENTS, FEW, MANY = 40, 8, 18  # all, and how many of them are malicious
ROUNDS = 40
CLASSES = 5
DIFFERENT = ("10", "8", "5", "3")  # classes of a client, where nobody attacks
FEDAVG, MEDIAN, KRUM = "FedAvg", "FedAvg, median", "FedAvg, multi-Krum"
DITTO, SMALL, DITTO_MEDIAN, DITTO_KRUM = "Ditto", "Ditto, λ = 0.1", "Ditto, median", "Ditto, multi-Krum"
ALONE = "Alone"
METHODS: Mapping[str, Mapping[str, Any]] = {
    FEDAVG: {"name": "fedavg"},
    MEDIAN: {"name": "fedavg", "aggregator": "median"},
    KRUM: {"name": "fedavg", "aggregator": "multi_krum"},
    DITTO: {"name": "ditto", "lam": 1.0},
    SMALL: {"name": "ditto", "lam": 0.1},
    DITTO_MEDIAN: {"name": "ditto", "lam": 1.0, "aggregator": "median"},
    DITTO_KRUM: {"name": "ditto", "lam": 1.0, "aggregator": "multi_krum"},
    ALONE: {"name": "local_train"},
}
KEPT = "share of malicious clients in multi-Krum's update"
MNIST = "The preset dial-robust makes the same comparison on MNIST."


@dataclass(frozen=True)
class Attack:
    """What malicious clients do."""

    title: str  # on the dial
    num_malicious: int
    name: str
    options: Mapping[str, Any]
    compared: tuple[str, str]  # the methods whose difference the scene is about

    @property
    def config(self) -> dict[str, Any]:
        return {"name": self.name, "share": self.num_malicious / CLIENTS, **self.options}


ATTACKS = {  # weak to strong
    "none": Attack("nobody attacks", FEW, "sign_flip", {"scale": -1}, (MEDIAN, FEDAVG)),  # they send what they trained
    "labels": Attack(f"random labels ({FEW} of {CLIENTS})", FEW, "labels", {"how": "random"}, (DITTO_MEDIAN, MEDIAN)),
    "flip": Attack(f"flipped × 5 ({FEW} of {CLIENTS})", FEW, "sign_flip", {"scale": 5}, (DITTO, ALONE)),
    "replace": Attack(f"scaled × {CLIENTS} ({FEW} of {CLIENTS})", FEW, "replace", {"scale": "S"}, (DITTO_KRUM, ALONE)),
    "many": Attack(f"random labels ({MANY} of {CLIENTS})", MANY, "labels", {"how": "random"}, (KRUM, FEDAVG)),
}


class Robustness(DialStory):
    order = 70
    slug = "robustness"
    dial = "attack"
    methods = tuple(METHODS)
    short = "Malicious clients"
    kicker = f"Digits · {CLIENTS} clients · {CLASSES} digits each · 13 to 27 training images · linear model"
    title = "Does personalization protect against attacks?"
    lead = (
        "Some clients send harmful updates. The server can combine updates with a robust rule that a few cannot move "
        "far: the median, or multi-Krum, which keeps the updates that lie closest together. Or each client can keep a "
        "model of its own: Ditto pulls it toward the shared model, with strength λ."
    )
    ending = "You have seen what robust rules and personalized models protect against, and where a rule fails."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_nobody(), _labels(), _flipped(), _both(), _many()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("attack", "What malicious clients send", {stop: own.title for stop, own in ATTACKS.items()})]

    def pace(self, round: int) -> float:
        return 6 + round / 4

    def alt(self, stop: str) -> str:
        return _alt(stop)

    def standing(self, stop: str, run: "DialRun | None") -> str:
        return method_rows.standing(self.methods, ATTACKS[stop].compared, run)

    def draw_clients(self, stop: str, run: "DialRun | None") -> None:
        count = CLIENTS - ATTACKS[stop].num_malicious
        method_changes.draw(self.slug, self.methods, ATTACKS[stop].compared, stop, run, count)

    def config(self, place: Place) -> Mapping[str, Any]:
        return experiment(place["attack"])

    def setup_label(self, place: Place) -> str:
        return f"these {len(METHODS)} methods, {ATTACKS[place['attack']].title}"

    @property
    def caption(self) -> str:
        return (
            "The colored marks are trained live. The change for each client is from one seed: this run's "
            f"or, before it starts, the shipped seed 0. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            f"{method_rows.source(example(), ROUNDS)} "
            f"Malicious clients are left out: n = {CLIENTS - FEW} "
            f"clients, also where nobody attacks; with {MANY} malicious clients, n = {CLIENTS - MANY}. "
            "Each has 12 to 27 test images; the lowest 5 % are one or two clients. Multi-Krum knows how "
            "many clients are malicious."
        )


STORY = Robustness()


def experiment(stop: str, methods: Mapping[str, Mapping[str, Any]] = METHODS, classes: int = CLASSES) -> dict[str, Any]:
    """Methods under an attack."""
    return {
        "name": f"Malicious clients: {ATTACKS[stop].title}",
        "dataset": {"name": "digits"},
        "partition": {
            "name": "classes_per_client",
            "num_clients": CLIENTS,
            "classes_per_client": classes,
            "sizes": [30, 58],
            "test_fraction": 0.5,
        },
        "model": {"name": "mlr"},
        "training": {"rounds": ROUNDS, "local_steps": 10, "batch_size": 10, "lr": 0.1},
        "attack": ATTACKS[stop].config,
        "algorithms": [{**entry, "label": label} for label, entry in methods.items()],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("robustness")


def different() -> DialExample:
    """Where nobody attacks, by the number of classes of a client."""
    return load("robustness_classes")


def _nobody() -> Scene:
    answers = ("They rise", "No clear change", "They fall")
    gap = side(_values(MEDIAN, "none", LOWEST), _values(FEDAVG, "none", LOWEST))
    return Scene(
        "Nobody attacks",
        {"attack": "none"},
        "For each weight of the model, the median takes the middle value of all updates. Where half of the "
        "clients or more lack a digit, the middle value is mostly that of clients without it. The more clients differ, "
        "the more this costs: with "
        f"{_listed(DIFFERENT)} digits per client, the median takes {_costs(MEAN)} points from FedAvg's mean and "
        f"{_costs(LOWEST)} from its lowest 5 %.",
        f"Nobody attacks: FedAvg's lowest 5 % end at {_pm(MEDIAN, 'none', LOWEST)} with the median, at "
        f"{_pm(FEDAVG, 'none', LOWEST)} with the mean ({example().over}).",
        Choice(
            "Nobody attacks. The server takes the median of all updates, not their mean. What happens to FedAvg's "
            "lowest 5 %?",
            answers,
            word(gap, answers),
        ),
        "Protection has a price, and not everyone pays the same. Ask which clients a median ignores: those whose "
        f"updates are unlike the others'. {MNIST}",
    )


def _labels() -> Scene:
    return Scene(
        "Random labels",
        {"attack": "labels"},
        f"{FEW} of {CLIENTS} clients train on random labels. The mean hardly suffers ({_pm(FEDAVG, 'labels')}). The "
        f"median costs FedAvg {_loss(MEDIAN, FEDAVG, 'labels')}, but Ditto only "
        f"{_loss(DITTO_MEDIAN, DITTO, 'labels')}: a personalized model still learns what the median removed. Where "
        f"nobody attacks, these costs are {_loss(MEDIAN, FEDAVG, 'none')} and {_loss(DITTO_MEDIAN, DITTO, 'none')}.",
        "A personalized model recovers more than half of the median's cost: Ditto ends at "
        f"{_pm(DITTO_MEDIAN, 'labels')}, FedAvg at {_pm(MEDIAN, 'labels')} ({example().over}).",
        Estimate(
            f"{FEW} clients have random labels. Under the median, FedAvg reaches {_pm(MEDIAN, 'labels')}. And personal "
            "models (Ditto)?",
            _values(DITTO_MEDIAN, "labels"),
            example().over,
            _measured(DITTO_MEDIAN),
        ),
        "A weak attack: the robust rule does more harm than the attack, and the personalized model makes up for much "
        "of it. Look at the bars: which clients gain most?",
    )


def _flipped() -> Scene:
    return Scene(
        "No protection",
        {"attack": "flip"},
        f"{FEW} clients send their update backwards, five times as large. The shared model is driven away from "
        "everyone's data, and the personalized models are pulled after it. A weaker pull helps: λ = 0.1 "
        f"ends at {_pm(SMALL, 'flip')}, which is still below learning alone.",
        f"Flipped updates take Ditto from {_pm(DITTO, 'none')} to {_pm(DITTO, 'flip')}; learning alone reaches "
        f"{_pm(ALONE, 'flip')} ({example().over}).",
        Estimate(
            f"{FEW} clients send their update backwards, five times as large. Alone, clients reach "
            f"{_pm(ALONE, 'flip')}. What does Ditto reach?",
            _values(DITTO, "flip"),
            example().over,
            _measured(DITTO),
        ),
        "The turning point of the story. A personalized model is only as safe as what it is pulled toward. Ask what λ "
        "= 0 would do: it is learning alone.",
    )


def _both() -> Scene:
    return Scene(
        "Rule and model",
        {"attack": "replace"},
        f"Now {FEW} clients train on random labels and send {CLIENTS} times their update. Multi-Krum keeps the updates "
        f"that lie closest together, and these are not among them. With this rule, FedAvg ends at "
        f"{_pm(KRUM, 'replace')}; a personalized model then adapts to its client.",
        f"With multi-Krum, Ditto ends at {_pm(DITTO_KRUM, 'replace')}, without an attack at "
        f"{_pm(DITTO_KRUM, 'none')}; learning alone reaches {_pm(ALONE, 'replace')} ({example().over}).",
        Choice.between(
            f"{FEW} clients send {CLIENTS} times their update. Which ends higher: Ditto with multi-Krum, or learning "
            "alone?",
            "Ditto, multi-Krum",
            "Learning alone",
            side(_values(DITTO_KRUM, "replace"), _values(ALONE, "replace")),
        ),
        "The two do different things: the rule keeps attackers out of the shared model, and the personalized model "
        "serves unusual clients. Neither replaces the other.",
    )


def _many() -> Scene:
    share = float(example().values_at(KEPT, "many").mean())
    return Scene(
        "Nearly half",
        {"attack": "many"},
        f"Multi-Krum knows how many clients are malicious, here {MANY} of {CLIENTS}. It keeps updates that are "
        "close together, and updates from random labels resemble one another more than those of clients with different "
        f"digits do: {percent(share, 0)} of what it keeps is malicious. The mean contains "
        f"{percent(MANY / CLIENTS, 0)}.",
        f"{MANY} of {CLIENTS} clients train on random labels: FedAvg ends at {_pm(KRUM, 'many')} with multi-Krum, "
        f"at {_pm(FEDAVG, 'many')} with the mean ({example().over}).",
        Choice.between(
            f"{MANY} of {CLIENTS} clients have random labels, and multi-Krum knows how many. Which rule serves the "
            "others better?",
            "The mean",
            "Multi-Krum",
            side(_values(FEDAVG, "many"), _values(KRUM, "many")),
        ),
        "A rule that looks for agreement finds the attackers when they agree more than benign clients do. Every robust "
        "rule assumes something about benign clients; ask what this one assumes.",
    )


def _exercises() -> Sequence[Exercise]:
    attacks = [stop for stop in ATTACKS if stop != "none"]
    better = [ATTACKS[stop].title for stop in attacks if side(_values(KRUM, stop), _values(FEDAVG, stop)) > 0]
    fewest, most = DIFFERENT[-1], DIFFERENT[0]
    return [
        Exercise(
            f"Where nobody attacks, what does the median cost the lowest 5 % with {most} and with {fewest} digits a "
            "client? Why does it depend on that?",
            f"{_cost(most, LOWEST)} and {_cost(fewest, LOWEST)} points. With few digits per client, the weights of a "
            "digit are raised by a minority, and the median follows the majority, which lowers them or hardly moves "
            "them.",
        ),
        Exercise(
            "Under which attacks is multi-Krum clearly better than the mean for one model?",
            f"{capital('; '.join(better)) or 'None'}: {meaning(example().over)}.",
        ),
        Exercise(
            "Which λ is safer under flipped updates, 1 or 0.1, and what does it cost where nobody attacks?",
            f"0.1: {_pm(SMALL, 'flip')} against {_pm(DITTO, 'flip')}. Where nobody attacks, it ends at "
            f"{_pm(SMALL, 'none')} against {_pm(DITTO, 'none')}.",
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


def _loss(method: str, before: str, stop: str) -> str:
    """``23 points``: how far a method's mean is below another's."""
    return points(float((_values(before, stop) - _values(method, stop)).mean()), samples=100)


def _cost(classes: str, what: str) -> str:
    """Points that the median takes from FedAvg where nobody attacks."""
    mean, median = (method_rows.values(different(), method, classes, what) for method in (FEDAVG, MEDIAN))
    return f"{100 * float((mean - median).mean()):.0f}"


def _costs(what: str) -> str:
    return _listed([_cost(classes, what) for classes in DIFFERENT])


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _alt(stop: str) -> str:
    ours, theirs = ATTACKS[stop].compared
    return f"{capital(ATTACKS[stop].title)}: {ours} ends at {_pm(ours, stop)}, {theirs} at {_pm(theirs, stop)}"
