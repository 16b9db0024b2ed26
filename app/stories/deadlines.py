"""Deadlines: who is left out if the server does not wait, and when that matters.

Forty clients with three digits each and simulated devices. The server waits for all of them or for a second; chance
decides who is slow, or the digits of the clients do. One model (FedAvg), the same fine-tuned by each client, personal
models that are trained beside it (Ditto), and learning alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import Moves, are_results_hidden, moving_figure, still
from app.stories import method_rows
from app.stories.compared import side, word
from app.stories.dial_example import DialExample, load
from app.stories.dial_story import DialStory
from app.stories.figures import used_clients
from app.stories.method_rows import LOWEST, MEAN
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.story import Dial, Place, Scene
from app.wording import percent, points

if TYPE_CHECKING:
    from app.stories.dial_run import DialRun

CLIENTS = 40
ROUNDS = 40
CLASSES = 3
DEADLINE_S = 1.2
WAITED, TWICE = f"{DEADLINE_S:g} s", f"{2 * DEADLINE_S:g} s"
FEDAVG, TUNED, DITTO, ALONE = "FedAvg", "FedAvg, fine-tuned", "Ditto", "Alone"
METHODS: Mapping[str, Mapping[str, Any]] = {
    FEDAVG: {"name": "fedavg"},
    TUNED: {"name": "fedavg", "finetune_steps": 10},
    DITTO: {"name": "ditto", "lam": 0.3},
    ALONE: {"name": "local_train"},
}
DEVICES = {"compute_s": 0.0136, "compute_spread": 0.6, "up_mbit": 8, "down_mbit": 40}
USED, NEVER, SECONDS = "share of uploads used", "clients never used", "simulated seconds"
DIGIT = "mean digit"
MNIST = "The preset dial-deadline makes the same comparison on MNIST."


@dataclass(frozen=True)
class Wait:
    """How long the server waits, and what decides who is slow."""

    title: str  # on the dial
    system: Mapping[str, Any]


WAITS = {
    "wait": Wait("for everyone", {}),
    "chance": Wait(f"{WAITED}, slow by chance", {"deadline_s": DEADLINE_S}),
    "partly": Wait(f"{WAITED}, slow partly by digit", {"deadline_s": DEADLINE_S, "tie": "labels", "tie_strength": 0.7}),
    "digits": Wait(f"{WAITED}, slow by digit", {"deadline_s": DEADLINE_S, "tie": "labels"}),
    "longer": Wait(f"{TWICE}, slow by digit", {"deadline_s": 2 * DEADLINE_S, "tie": "labels"}),
}


class Deadlines(DialStory):
    order = 80
    slug = "deadlines"
    dial = "deadline"
    methods = tuple(METHODS)
    short = "Slow clients"
    kicker = f"Digits · {CLIENTS} clients · {CLASSES} digits each · 14 to 27 training images · linear model"
    title = "Can the server leave slow clients out?"
    lead = (
        "A round takes as long as its slowest client. With a deadline, the server goes on without the uploads that are "
        "late. Is that harmless? It depends on what slow clients have in common. Devices are simulated, and so are all "
        "seconds here."
    )
    ending = "You have seen that it matters which clients are slow, and that a personalized model helps those left out."

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_everyone(), _by_chance(), _in_common(), _never(), _twice()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        return [Dial("deadline", "How long the server waits", {stop: own.title for stop, own in WAITS.items()})]

    def pace(self, round: int) -> float:
        return 8 + round / 4

    def alt(self, stop: str) -> str:
        return _alt(stop)

    def standing(self, stop: str, run: "DialRun | None") -> str:
        return standing(stop, run)

    def draw_clients(self, stop: str, run: "DialRun | None") -> None:
        first, other = _compared(stop)
        seed = example().seeds[0]
        st.header(f"Each client: ● {first} (× if its uploads were never used), ◆ {other} (seed {seed})", anchor=False)
        df = _clients(stop, run)
        moves: Moves = {} if df is None else used_clients.moving(df)
        not_yet = "Accuracy of each client; this run has not started"
        alt = not_yet if df is None else used_clients.finding(df, first, other)
        moving_figure(_still_clients(first, other), moves, key="used_figure", alt=alt, name="deadlines-clients")

    def config(self, place: Place) -> Mapping[str, Any]:
        return experiment(place["deadline"])

    def setup_label(self, place: Place) -> str:
        return f"these {len(METHODS)} methods; the server waits {WAITS[place['deadline']].title}"

    @property
    def caption(self) -> str:
        return (
            "The colored marks are trained live. The clients at the right are from one seed: this run's "
            f"or, before it starts, the shipped seed 0. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            f"{method_rows.source(example(), ROUNDS)} "
            "Each client has 14 to 28 test images, and the lowest "
            f"5 % are two of {CLIENTS} clients. Computing times are FedScale's, log-normal with a median "
            f"of {DEVICES['compute_s']} s for the gradient of an image; they are simulated, not measured."
        )


STORY = Deadlines()


def experiment(stop: str) -> dict[str, Any]:
    """All methods where the server waits like this."""
    return {
        "name": f"The server waits {WAITS[stop].title}",
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
        "system": {**DEVICES, **WAITS[stop].system},
        "algorithms": [{**entry, "label": label} for label, entry in METHODS.items()],
        "seeds": [0],
        "device": "cpu",
    }


def example() -> DialExample:
    return load("deadlines")


def used_by(method: str) -> str:
    """The name of the shipped counts of rounds in which a client's upload was used."""
    return f"{method}, rounds used"


def _everyone() -> Scene:
    seconds = method_rows.values(example(), FEDAVG, "wait", SECONDS)
    return Scene(
        "Wait for everyone",
        {"deadline": "wait"},
        "Computers differ: one client in six takes 1.8 times the median or longer. Every round lasts until the slowest "
        f"has answered, and FedAvg ends at {_pm(FEDAVG, 'wait')}. Ditto trains a second model and takes twice as long: "
        f"{_seconds(DITTO, 'wait')}.",
        f"Waiting for the slowest client, {ROUNDS} rounds of FedAvg take {_seconds(FEDAVG, 'wait')}, simulated "
        f"({example().over}).",
        Estimate(
            f"The median client trains for about a second. How long do {ROUNDS} rounds take if the server waits for "
            f"all {CLIENTS}?",
            seconds,
            example().over,
            lambda run: float(run.now.seconds[0]),
            tuple(float(s) for s in range(0, 401, 20)),
            _in_seconds,
        ),
        "A maximum over 40 clients is far from the median. Ask what a service with a million phones would do: it "
        f"cannot wait. {MNIST}",
    )


def _by_chance() -> Scene:
    return Scene(
        "Late by chance",
        {"deadline": "chance"},
        f"{ROUNDS} rounds now take {_seconds(FEDAVG, 'chance')}. The same clients are late in nearly every round: the "
        f"server never uses an upload of {_never_used(FEDAVG, 'chance')}. But others have the same digits, "
        f"so the model learns most of these anyway. Fine-tuned by each client, it ends at {_either(TUNED)}.",
        f"By chance, {_late('chance')} of the uploads are late: FedAvg ends at {_either(FEDAVG)} ({example().over}).",
        Estimate(
            f"After {WAITED}, {_late('chance')} of the uploads are missing; chance decides whose. With waiting, FedAvg "
            f"reached {_pm(FEDAVG, 'wait')}. And now?",
            _values(FEDAVG, "chance"),
            example().over,
            _measured(FEDAVG),
        ),
        "Experiments often drop clients by chance, find little harm, and conclude that a method tolerates slow "
        "clients. This is the easy case.",
        beside="Crosses are clients whose uploads were never used.",
    )


def _in_common() -> Scene:
    answers = ("They rise", "No clear change", "They fall")
    gap = side(_values(FEDAVG, "partly", LOWEST), _values(FEDAVG, "chance", LOWEST))
    return Scene(
        "Something in common",
        {"deadline": "partly"},
        "About as many clients are slow as before, but those with high digits tend to be among them, as people with "
        f"old phones may have other habits. FedAvg's mean ends at {_pm(FEDAVG, 'partly')}; if chance decides, at "
        f"{_pm(FEDAVG, 'chance')}.",
        f"FedAvg's lowest 5 % end at {_pm(FEDAVG, 'partly', LOWEST)} if slow clients tend to have high digits; if "
        f"chance decides, at {_pm(FEDAVG, 'chance', LOWEST)} ({example().over}).",
        Choice(
            "About as many are late, but clients with high digits tend to be slow. What happens to FedAvg's lowest 5 "
            "%?",
            answers,
            word(gap, answers),
        ),
        "Nothing changed but who is slow. The mean shows less of it than the lowest 5 % do. Look at the crosses at the "
        "right of the second figure. Two clients decide each lowest 5 %, so one seed says little.",
    )


def _never() -> Scene:
    return Scene(
        "Never heard from",
        {"deadline": "digits"},
        f"The server never uses an upload of {_never_used(FEDAVG, 'digits')}, and they have the high digits: the "
        "shared model hardly learns these. Ten steps of fine-tuning make up for it, also for the lowest 5 %: "
        f"{_pm(TUNED, 'digits', LOWEST)} instead of {_pm(FEDAVG, 'digits', LOWEST)}. Learning alone reaches "
        f"{_pm(ALONE, 'digits')} on average.",
        f"Fine-tuned, the clients reach {_pm(TUNED, 'digits')} on average; FedAvg reaches {_pm(FEDAVG, 'digits')} "
        f"({example().over}).",
        Estimate(
            f"Now clients with high digits are slow: FedAvg's mean falls to {_pm(FEDAVG, 'digits')}. Each client "
            "fine-tunes the model. What do they reach?",
            _values(TUNED, "digits"),
            example().over,
            _measured(TUNED),
        ),
        "The deadline left out the very clients that the model needed most. Personalization still helps them, "
        "because it happens on the client and needs no upload.",
    )


def _twice() -> Scene:
    gap = side(_values(DITTO, "digits"), _values(ALONE, "digits"))
    return Scene(
        "Twice the time",
        {"deadline": "longer"},
        "Ditto trains the shared model and a personal one, so its clients need twice the time. After "
        f"{WAITED}, {_late('digits', DITTO)} of its uploads were missing; after {TWICE}, {_late('longer', DITTO)}. "
        f"With the deadline that suits FedAvg, it {word(gap)} learning alone ({_pm(ALONE, 'digits')}).",
        f"Ditto trains two models: with {WAITED} it ends at {_pm(DITTO, 'digits')}, with {TWICE} at "
        f"{_pm(DITTO, 'longer')} ({example().over}).",
        Estimate(
            f"Ditto trains two models per round. With a deadline of {WAITED} it ends at {_pm(DITTO, 'digits')}. And "
            f"with {TWICE}?",
            _values(DITTO, "longer"),
            example().over,
            _measured(DITTO),
        ),
        "Personalized models are not free: clients that train two are late more often. Compare methods at the same "
        "deadline, not only at the same number of rounds.",
    )


def _exercises() -> Sequence[Exercise]:
    gap = side(_values(DITTO, "digits"), _values(ALONE, "digits"))
    losses = {method: float((_values(method, "wait") - _values(method, "digits")).mean()) for method in METHODS}
    least = min((method for method in METHODS if method != ALONE), key=losses.__getitem__)
    return [
        Exercise(
            f"From waiting for everyone to {WAITED} with slow clients by digit: which of the methods that send "
            "something loses least on average?",
            f"{least}: {points(losses[least], 100)}. {_others(losses, least)}.",
        ),
        Exercise(
            f"With a deadline of {WAITED} and slow clients by digit, is Ditto better than learning alone? Why?",
            f"It {word(gap)} learning alone, {_pm(DITTO, 'digits')} against {_pm(ALONE, 'digits')}: the server never "
            f"uses an upload of {_never_used(DITTO, 'digits')}, and all personalized models are pulled toward what the "
            "few others share.",
        ),
        Exercise(
            "You can wait twice as long, or ask more clients and use the first that answer. Which helps if slow "
            "clients have something in common?",
            f"Waiting: with {TWICE} FedAvg's lowest 5 % end at {_pm(FEDAVG, 'longer', LOWEST)} instead of "
            f"{_pm(FEDAVG, 'digits', LOWEST)}. The first to answer are the fast ones, who have the same digits.",
        ),
    ]


def _others(losses: Mapping[str, float], least: str) -> str:
    return "; ".join(
        f"{method}: {points(loss, 100)}" for method, loss in losses.items() if method not in (least, ALONE)
    )


def _measured(method: str) -> Any:
    """The value of a question in the reader's run: the mean of a method."""
    at = list(METHODS).index(method)
    return lambda run: run.now.scores[at][0]


def _values(method: str, stop: str, what: str = MEAN) -> np.ndarray:
    return method_rows.values(example(), method, stop, what)


def _pm(method: str, stop: str, what: str = MEAN) -> str:
    return method_rows.pm(example(), method, stop, what)


def _either(method: str) -> str:
    """``91 ± 2 %; if the server waits, at 92 ± 1 %``, or ``96 ± 1 % either way``."""
    chance, wait = (_pm(method, stop) for stop in ("chance", "wait"))
    return f"{chance} either way" if chance == wait else f"{chance}; if the server waits, at {wait}"


def _in_seconds(value: float, pm: float | None = None) -> str:
    return f"{value:.0f} s" if not pm else f"{value:.0f} ± {pm:.0f} s"


def _seconds(method: str, stop: str) -> str:
    return _in_seconds(*example().at(method_rows.line(method, SECONDS), stop))


def _late(stop: str, method: str = FEDAVG) -> str:
    """``46 %``: the uploads that were not used."""
    return percent(1 - float(method_rows.values(example(), method, stop, USED).mean()), 0)


def _never_used(method: str, stop: str) -> str:
    """``19 of 40 clients``, on average over the seeds."""
    return f"{method_rows.values(example(), method, stop, NEVER).mean():.0f} of {CLIENTS} clients"


def _compared(stop: str) -> tuple[str, str]:
    """The two methods that the scene is about."""
    return (DITTO, ALONE) if stop == "longer" else (FEDAVG, TUNED)


def _alt(stop: str) -> str:
    first, other = _compared(stop)
    return (
        f"The server waits {WAITS[stop].title}: {first} {_pm(first, stop)}, its lowest 5 % {_pm(first, stop, LOWEST)}; "
        f"{other} {_pm(other, stop)}"
    )


def standing(stop: str, run: "DialRun | None") -> str:
    """The methods' means so far, and the simulated time."""
    words = method_rows.standing(list(METHODS), _compared(stop), run)
    if run is None:
        return words
    seconds = run.now.seconds[list(METHODS).index(_compared(stop)[0])]
    return f"{words} · {seconds:.0f} simulated seconds"


def _clients(stop: str, run: "DialRun | None") -> pd.DataFrame | None:
    """The clients in this run; before it starts the shipped ones, unless they are to be predicted."""
    shipped, methods, (first, other) = example().clients_at(stop), list(METHODS), _compared(stop)
    if run:
        now, at = run.now, methods.index(first)
        used = now.used[at] if now.round else np.ones(CLIENTS)
        return used_clients.data(shipped[DIGIT], now.accuracies[at], now.accuracies[methods.index(other)], used)
    if are_results_hidden():
        return None
    return used_clients.data(shipped[DIGIT], shipped[first], shipped[other], shipped[used_by(first)])


@still
def _still_clients(first: str, other: str) -> go.Figure:
    return used_clients.figure(first, other, palette.color(palette.style_of(str(METHODS[first]["name"]))))
