"""Who is left behind? Clients with unequal data, one model for all, and the radius in which its loss must stay low.

Forty clients have two digits each and 4 to 35 training images; half of them participate in a round. FedAvg's model
fits some and fails others. FedSAM follows the gradient at the worst point within rho, so that the loss is flat around
the model. At rho = 0 it is FedAvg.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import Moves, Picture, are_results_hidden, still
from app.statistics.intervals import ROUNDING
from app.stories.asked import Places, asked
from app.stories.compared import meaning, side, side_of_two, word
from app.stories.figures import cross_section, left_behind, radius
from app.stories.questions import Choice, Estimate, Exercise
from app.stories.sharpness_curve import NUM_CLIENTS, NUM_LEFT_BEHIND, RADII, SAMPLES, STEPS, Standing, example
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm, points

if TYPE_CHECKING:
    from app.stories.sharpness_run import SharpnessRun, SharpnessStep

SEED = 0
ROUNDS = 60
LR, LARGER_LR = 0.1, 0.4
OF_ADDRESS = {f"{rho:g}": rho for rho in RADII}
DRAWS = f"{example().num_draws} draws"
FIRST_DRAW = f"first of {DRAWS}"
BY_RADIUS = "Mean and lowest 5 %, by ρ"
BASIN = "0.15"  # where the scene is about the loss
REFERENCES = {  # where the scene is about a control run: its lowest 5 %, mean over the draws
    "0.2": {},
    "0.25": {"FedAvg, twice the rounds": "fedavg, twice the rounds"},
    "0.3": {f"FedAvg, learning rate {LARGER_LR:g}": "fedavg, larger step"},
}


class LeftBehind:
    order = 50
    slug = "left-behind"
    short = "Who is left behind?"
    kicker = f"Digits · {NUM_CLIENTS} clients, half of them in each round · 2 digits each · 4 to 35 training images"
    title = "Who is left behind?"
    lead = (
        "A good mean can hide clients for which the model fails. Sharpness-aware training (FedSAM) tries to "
        "keep the loss low within a radius ρ around the model, not only at it. The hope is that one client's updates "
        "then hurt the others less."
    )
    ending = (
        "You have seen that a mean can hide the clients that it fails, and that only a fair comparison shows a gain."
    )

    @cached_property
    def scenes(self) -> Sequence[Scene]:
        return [_hidden(), _lifted(), _wider(), _alike(), _twice(), _larger_step(), _too_far()]

    @cached_property
    def exercises(self) -> Sequence[Exercise]:
        return _exercises()

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {stop: stop for stop in OF_ADDRESS} | {"0": "0, FedAvg"}
        return [Dial("rho", "Radius in which the loss must stay low (ρ)", titles)]

    def steps(self, place: Place) -> Iterator["SharpnessStep"]:
        from app.stories.sharpness_run import steps

        return steps(self.config(place))

    def pace(self, round: int) -> float:
        return 10 + round / 4

    def draw(self, place: Place, run: "SharpnessRun | None", marks: Sequence[Mark]) -> None:
        picture = self.picture(place, run, marks)
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header(picture.title, anchor=False)
            picture.draw()
        with side:
            beside = _clients if place["rho"] in REFERENCES else _radius
            other = beside(OF_ADDRESS[place["rho"]], run, marks, height=300)
            st.header(other.title, anchor=False)
            other.draw()
            reading(self, place, picture.now)

    def picture(self, place: Place, run: "SharpnessRun | None", marks: Sequence[Mark]) -> Picture:
        """The loss where the scene is about it, the dial where it is about a control run, and else the clients."""
        rho = place["rho"]
        draw = _section if rho == BASIN else _radius if rho in REFERENCES else _clients
        return draw(OF_ADDRESS[rho], run, marks, height=430)

    @property
    def curve(self) -> Picture:
        return Picture(
            _still_radius("", RADII[-1], 430),
            {},
            key="curve",
            alt=_radius_alt(RADII[-1]),
            name="accuracy-over-rho",
            title=BY_RADIUS,
        )

    def finding(self, place: Place) -> str:
        return finding(OF_ADDRESS[place["rho"]])

    def config(self, place: Place) -> Mapping[str, Any]:
        """FedAvg and the reader's radius."""
        return experiment(*map(method, dict.fromkeys((0.0, OF_ADDRESS[place["rho"]]))))

    def setup_label(self, place: Place) -> str:
        return "FedAvg on these clients" if place["rho"] == "0" else f"FedAvg and FedSAM with ρ = {place['rho']}"

    def table(self, places: Places = None) -> pd.DataFrame:
        return radius.data(example(), _furthest(places))

    @property
    def caption(self) -> str:
        return (
            f"FedAvg and FedSAM are trained live on the same batches, on the clients of the first of {DRAWS}, and need "
            f"not end on the curves. {self.source}"
        )

    @property
    def source(self) -> str:
        return (
            "The curves are example results that ship with Fedscape: mean ± standard deviation over "
            f"{DRAWS} of such clients, {ROUNDS} rounds, n = {NUM_CLIENTS} clients with 4 to {SAMPLES} test images "
            f"each, so the lowest 5 % are {NUM_LEFT_BEHIND} clients. Shipped results of single clients, and of the "
            "loss, are from the first draw. The loss is the mean over all training samples, along one random "
            f"direction, scaled to the weights of each unit. Computed by `{example().command}`."
        )


STORY = LeftBehind()


def method(rho: float) -> dict[str, Any]:
    """The configuration entry for a stop of the dial."""
    return {"name": "fedsam", "rho": rho, "label": f"ρ = {rho:g}"} if rho else {"name": "fedavg", "label": "FedAvg"}


def experiment(*methods: Mapping[str, Any], seed: int = SEED, **training: Any) -> dict[str, Any]:
    """These methods on the story's clients."""
    settings = {"rounds": ROUNDS, "local_steps": 10, "batch_size": "full", "lr": LR, "participation": 0.5}
    return {
        "name": "Who is left behind?",
        "dataset": {"name": "digits"},
        "partition": {
            "name": "classes_per_client",
            "num_clients": NUM_CLIENTS,
            "classes_per_client": 2,
            "sizes": [10, 80],
            "test_fraction": 0.5,
        },
        "model": {"name": "dnn", "hidden": 32},
        "training": settings | training,
        "algorithms": [dict(method) for method in methods],
        "seeds": [seed],
        "device": "cpu",
    }


def checks() -> dict[str, dict[str, Any]]:
    """The controls for a gain: as many gradients, a larger step, clients that differ less."""
    alike = {"name": "dirichlet", "alpha": 0.3, "num_clients": NUM_CLIENTS, "min_samples": 4, "test_fraction": 0.5}
    return {
        "fedavg, twice the rounds": experiment(method(0.0), rounds=2 * ROUNDS),
        "fedavg, larger step": experiment(method(0.0), lr=LARGER_LR),
        "rho = 0.2, larger step": experiment(method(0.2), lr=LARGER_LR),
        "fedavg, clients alike": {**experiment(method(0.0)), "partition": alike},
        "rho = 0.2, clients alike": {**experiment(method(0.2)), "partition": alike},
    }


def finding(rho: float) -> str:
    """The result at this radius, compared with FedAvg."""
    return (
        f"At ρ = {rho:g}, the lowest 5 % end at {_lowest(rho)} and the mean at {_mean(rho)}; with FedAvg at "
        f"{_lowest(0.0)} and {_mean(0.0)} ({DRAWS})."
    )


def _hidden() -> Scene:
    there = example()
    worst = there.accuracies[0].argsort()[:NUM_LEFT_BEHIND]
    who = " and ".join(f"one with {there.train_sizes[i]} images of {_digits(i)}" for i in worst)
    return Scene(
        "FedAvg",
        {"rho": "0"},
        f"The lowest 5 % are two of the {NUM_CLIENTS} clients, here {who}. Half of the clients have at most "
        f"{np.median(there.train_sizes):g} images; small markers are those with few.",
        f"FedAvg ends at {_mean(0.0)} on average, and at {_lowest(0.0)} for the lowest 5 % of its clients ({DRAWS}).",
        Estimate(
            f"FedAvg reaches {_mean(0.0)} on average over {NUM_CLIENTS} clients. What does it reach for the lowest 5 "
            "%?",
            there.lowest5[0],
            DRAWS,
            lambda run: run.value,
        ),
        "Everything looks fine until the clients are sorted. Ask who is responsible for the two on the left: nobody "
        "who reports only a mean.",
    )


def _lifted() -> Scene:
    rho, answers = 0.1, ("They rise", "No clear change", "They fall")
    gap = side(_lowest_of(rho), _lowest_of(0.0))
    return Scene(
        "Small radius",
        {"rho": f"{rho:g}"},
        "Each local step first moves uphill by ρ and takes the gradient from there. Dots are clients trained this "
        f"way, rings those of FedAvg. {_gain_text(rho)}",
        f"With ρ = {rho:g}, the lowest 5 % {word(gap, ('rise', 'hardly change', 'fall'))}: {_lowest(rho)} against "
        f"{_lowest(0.0)} with FedAvg ({DRAWS}).",
        Choice(
            f"FedSAM keeps the loss low within ρ = {rho:g} around the model. What happens to the lowest 5 %?",
            answers,
            word(gap, answers),
        ),
        "Walk through one step: uphill by ρ, take the gradient there, apply it from where you were. Follow single "
        "clients by their lines.",
    )


def _wider() -> Scene:
    rho, answers = float(BASIN), ("FedAvg's", "FedSAM's", "Neither")
    left, right = (example().sections[:, edge] - example().sections[:, len(STEPS) // 2] for edge in (0, -1))
    at = RADII.index(rho)
    ours, theirs = float(right[at]), float(right[0])
    gap = side_of_two(ours, theirs)
    return Scene(
        "Around the model",
        {"rho": BASIN},
        "The curves show the mean loss of all clients while the model is moved along one fixed direction. A model in a "
        "wide basin tolerates changes, such as other clients' updates. At the left edge of the plot, the loss rises by "
        f"{left[at]:.2f} with ρ = {rho:g} and by {left[0]:.2f} with FedAvg.",
        f"At the right edge the loss rises by {ours:.2f} with ρ = {rho:g} and by {theirs:.2f} with FedAvg: the "
        f"basin is {word(gap, ('narrower', 'as wide', 'wider'))}.",
        Choice(
            "Both models are moved in the same direction, in proportion to their own weights. Whose loss rises more?",
            answers,
            word(gap, (answers[1], answers[2], answers[0])),
        ),
        "One direction out of thousands: a picture, not a proof. Inside a run has the whole landscape around a model.",
    )


def _alike() -> Scene:
    rho, answers = 0.2, ("Larger", "About the same", "Smaller")
    gains = example().gains(rho)
    alike = example().checks["rho = 0.2, clients alike"].lowest5 - example().checks["fedavg, clients alike"].lowest5
    gap = side(alike, gains)
    return Scene(
        "More similar clients",
        {"rho": f"{rho:g}"},
        f"{_gain_text(rho)} The control run has clients that differ less: each digit is divided among all clients in "
        "shares drawn from a Dirichlet distribution with α = 0.3, so most clients have several digits instead of two. "
        "Their numbers of images differ in another way, too.",
        f"With ρ = {rho:g}, the lowest 5 % {_moved(float(gains.mean()))} here; where clients differ less, they "
        f"{_moved(float(alike.mean()))} ({DRAWS}).",
        Choice(
            f"With ρ = {rho:g}, the lowest 5 % {_moved(float(gains.mean()))} here. Where clients differ less, the gain "
            "is …",
            answers,
            word(gap, answers),
        ),
        "A gain belongs to a setting. Differences between draws are large, so ask whether the two gains differ at all.",
    )


def _twice() -> Scene:
    rho, there = 0.25, example().checks["fedavg, twice the rounds"].lowest5
    gap = side(_lowest_of(rho), there)
    return Scene(
        "Same cost",
        {"rho": f"{rho:g}"},
        "A fair comparison: FedSAM takes two gradients per step. FedAvg with twice the rounds computes as many. The "
        "dotted line is where its lowest 5 % end.",
        f"For as many gradients, ρ = {rho:g} {word(gap)} FedAvg with twice the rounds: {_lowest(rho)} against "
        f"{_pm(there)} ({DRAWS}).",
        Choice.between(
            "FedSAM computes two gradients per step. If FedAvg gets twice the rounds, whose lowest 5 % are higher?",
            "FedAvg, twice the rounds",
            f"FedSAM, ρ = {rho:g}",
            -gap,
        ),
        "Whenever a method wins, ask what it cost. Here the extra gradients explain the gain about as well as "
        "flatness.",
    )


def _larger_step() -> Scene:
    rho, there = 0.3, example().checks["fedavg, larger step"].lowest5
    both, gap = example().checks["rho = 0.2, larger step"].lowest5, side(_lowest_of(rho), there)
    change = float((both - there).mean())
    return Scene(
        "Larger step",
        {"rho": f"{rho:g}"},
        f"The control is FedAvg with a learning rate of {LARGER_LR:g} instead of {LR:g}, at no extra cost. On top of "
        f"that, ρ = 0.2 {'adds' if change >= 0 else 'costs'} {points(abs(change), SAMPLES)}. These numbers do not show "
        "that flatness is the cause.",
        f"FedSAM with ρ = {rho:g} {word(gap)} plain FedAvg with a larger learning rate: {_lowest(rho)} against "
        f"{_pm(there)} ({DRAWS}).",
        Choice.between(
            f"Plain FedAvg now takes larger steps, {LARGER_LR:g} instead of {LR:g}. Whose lowest 5 % are higher?",
            "FedAvg, larger step",
            f"FedSAM, ρ = {rho:g}",
            -gap,
        ),
        "The baseline deserves tuning, too. A method that beats an untuned baseline has not shown much.",
    )


def _too_far() -> Scene:
    rho = 0.5
    return Scene(
        "Large radius",
        {"rho": f"{rho:g}"},
        "Taken this far away, the gradient says little about the model, and training fails. Any hyper-parameter can be "
        "set too high.",
        f"With ρ = {rho:g}, clients end at {_mean(rho)} on average and the lowest 5 % at {_lowest(rho)} ({DRAWS}).",
        Estimate(
            f"At ρ = 0.3 the mean is {_mean(0.3)}. What is it at ρ = {rho:g}?",
            example().mean[RADII.index(rho)],
            DRAWS,
            lambda run: float(run.now.scores[0]),
        ),
        "Close with the whole curve: a broad plateau, then a cliff. Ask how one would find the plateau without test "
        "data.",
    )


def _exercises() -> Sequence[Exercise]:
    better = [rho for rho in RADII[1:] if side(_lowest_of(rho), _lowest_of(0.0)) > 0]
    ups = (example().gains(0.1) > ROUNDING).sum()
    smallest = [rho for rho in RADII[1:] if side(example().mean[RADII.index(rho)], example().mean[0]) < 0]
    return [
        Exercise(
            "For which ρ on the dial are the lowest 5 % clearly higher than with FedAvg?",
            f"For ρ = {', '.join(f'{rho:g}' for rho in better)}: {meaning(DRAWS)}." if better else "For none.",
        ),
        Exercise(
            "Is a higher lowest 5 % always paid for by the mean? Compare both curves.",
            f"Here the mean falls clearly only at ρ = {', '.join(f'{rho:g}' for rho in smallest)}."
            if smallest
            else "Not here: the mean falls clearly at no ρ of the dial.",
        ),
        Exercise(
            f"The gain at ρ = 0.1 is a mean over {DRAWS}. In how many of them is it positive, and why look?",
            f"In {ups} of {example().num_draws}. Two clients decide each value, so a single draw may say anything.",
        ),
    ]


def _gain_text(rho: float) -> str:
    """``Over 10 draws of such clients, the lowest 5 % rise by 6 points on average: up in 9, down in 1.``"""
    gains = example().gains(rho)
    up, down, same = (int(found.sum()) for found in (gains > ROUNDING, gains < -ROUNDING, abs(gains) <= ROUNDING))
    unchanged = f", unchanged in {same}" if same else ""
    return (
        f"Over {len(gains)} draws of such clients, the lowest 5 % {_moved(float(gains.mean()))} on average: up in "
        f"{up}, down in {down}{unchanged}."
    )


def _moved(gain: float) -> str:
    """``rise by 6 points``"""
    return f"{'rise' if gain >= 0 else 'fall'} by {points(abs(gain), SAMPLES)}"


def _lowest_of(rho: float) -> np.ndarray:
    """[draws]"""
    return np.asarray(example().lowest5[RADII.index(rho)])


def _lowest(rho: float) -> str:
    return _pm(_lowest_of(rho))


def _mean(rho: float) -> str:
    return _pm(example().mean[RADII.index(rho)])


def _pm(draws: np.ndarray) -> str:
    return percent_pm(float(draws.mean()), float(draws.std(ddof=1)), samples=SAMPLES)


def _digits(client: int) -> str:
    return " and ".join(f"{digit}s" for digit in example().digits[client])


def _standing(rho: float, run: "SharpnessRun | None") -> Standing | None:
    """The run's current state; before it starts, the final one, unless the reader is to predict it."""
    if run:
        return run.now.standing()
    return None if are_results_hidden() else example().ended(rho)


def _now(rho: float, run: "SharpnessRun | None", standing: Standing | None) -> str:
    """The state of the run."""
    if standing is None:
        return f"This run: ρ = {rho:g} · press Play"
    mean, lowest5 = (percent(float(both[1]), 0) for both in (standing.mean, standing.lowest5))
    at = f"This run, round {run.round}" if run else f"Shipped result, {FIRST_DRAW}, round {ROUNDS}"
    return f"{at}: ρ = {rho:g} · mean {mean} · lowest 5 % {lowest5}, n = {NUM_CLIENTS}"


def _clients(rho: float, run: "SharpnessRun | None", marks: Sequence[Mark], *, height: int) -> Picture:
    there, standing = example(), _standing(rho, run)
    moves: Moves = {}
    alt = "Accuracy by client; this run has not started"
    if standing:
        df = left_behind.data(standing.accuracies, there.accuracies[0], there.train_sizes, there.digits)
        moves, alt = left_behind.moving(df, rho), left_behind.finding(df, rho)
    return Picture(
        _still_clients(rho, height),
        moves,
        key="tail_figure",
        alt=alt,
        name="clients-left-behind",
        title=f"Accuracy by client, sorted by FedAvg ({FIRST_DRAW})",
        now=_now(rho, run, standing),
    )


def _radius(rho: float, run: "SharpnessRun | None", marks: Sequence[Mark], *, height: int) -> Picture:
    ends = [(OF_ADDRESS[mark.place["rho"]], mark.value) for mark in marks]
    up_to = _furthest(asked(STORY, {"rho": f"{rho:g}"}))
    return Picture(
        _still_radius(f"{rho:g}", up_to, height),
        radius.moving(rho, run.now.scores if run else None, ends),
        key="radius_figure",
        alt=_radius_alt(up_to),
        name="accuracy-over-rho",
        title=BY_RADIUS,
        now=_now(rho, run, _standing(rho, run)),
    )


def _radius_alt(up_to: float) -> str:
    best = f", best on average at {example().best_rho:g}" if up_to == RADII[-1] else ""
    last = f", {_lowest(up_to)} at {up_to:g}" if up_to else ""
    return f"Lowest 5 % by rho: {_lowest(0.0)} for FedAvg{best}{last}"


def _furthest(places: Places) -> float:
    """The largest radius that may be shown; -1 if none may."""
    return RADII[-1] if places is None else max((OF_ADDRESS[place["rho"]] for place in places), default=-1.0)


def _section(rho: float, run: "SharpnessRun | None", marks: Sequence[Mark], *, height: int) -> Picture:
    standing = _standing(rho, run)
    moves: Moves = {}
    alt = "The loss around the model; this run has not started"
    if standing:
        df = cross_section.data(STEPS, standing.sections)
        moves, alt = cross_section.moving(df), cross_section.finding(df, rho)
    return Picture(
        _still_section(rho),
        moves,
        key="section_figure",
        alt=alt,
        name="loss-around-the-model",
        title=f"The loss around the model ({FIRST_DRAW})",
        now=_now(rho, run, standing),
    )


@still
def _still_clients(rho: float, height: int) -> go.Figure:
    return left_behind.figure(rho, height=height)


@still
def _still_radius(rho: str, up_to: float, height: int) -> go.Figure:
    references = {
        words: float(example().checks[name].lowest5.mean()) for words, name in REFERENCES.get(rho, {}).items()
    }
    return radius.figure(radius.data(example(), up_to), references, height=height)


@still
def _still_section(rho: float) -> go.Figure:
    return cross_section.figure(rho)
