"""Who is left behind? Clients with unequal data, one model for all, and the radius in which its loss must stay low.

Forty clients hold two digits each and 4 to 35 images to learn from; half of them take part in a round. FedAvg's model
fits some and fails others. FedSAM steps down the gradient of the worst point within rho, so that the loss is flat
around the model. At rho = 0 it is FedAvg.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.components.moving_figure import moving_figure, still
from app.stories.figures import cross_section, left_behind, radius
from app.stories.sharpness_curve import NUM_CLIENTS, NUM_LEFT_BEHIND, RADII, STEPS, Standing, example
from app.stories.story import Dial, Mark, Place, Scene, reading
from app.wording import percent, percent_pm, signed_points
from engine.core.statistics import ROUNDING

if TYPE_CHECKING:
    from app.stories.sharpness_run import SharpnessRun

SEED = 0
ROUNDS = 60
LR, LARGER_LR = 0.1, 0.4
OF_ADDRESS = {f"{rho:g}": rho for rho in RADII}


class LeftBehind:
    slug = "left-behind"
    short = "Who is left behind?"
    kicker = f"Digits · {NUM_CLIENTS} clients · 2 digits each · 4 to 35 training images · half take part"
    title = "Who is left behind?"
    lead = (
        "A good mean can hide clients for whom the model fails. Sharpness-aware training asks that the loss stays low "
        "within ρ around the model, not only at it, so that one client's steps spoil less for another."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            Scene("The mean hides them", {"rho": "0"}, _hidden_told()),
            Scene("Look around", {"rho": "0.1"}, _around_told(0.1)),
            Scene("Further", {"rho": "0.2"}, _further_told(0.2)),
            Scene("Is it the flatness?", {"rho": "0.3"}, _checked_told(0.3)),
            Scene("Too far", {"rho": "0.5"}, _too_far_told(0.5)),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {said: said for said in OF_ADDRESS} | {"0": "0, FedAvg"}
        return [Dial("rho", "ρ, radius in which the loss must stay low", titles, "0")]

    def start(self, place: Place) -> "SharpnessRun":
        from app.stories.sharpness_run import SharpnessRun

        return SharpnessRun(self.config(place))

    def pace(self, round: int) -> float:
        return 10 + round / 4

    def draw(self, place: Place, run: "SharpnessRun | None", marks: Sequence[Mark]) -> None:
        rho = OF_ADDRESS[place["rho"]]
        standing = run.standing() if run else example().ended(rho)
        ends = [(OF_ADDRESS[mark.place["rho"]], mark.value) for mark in marks]
        wide, side = st.columns([3, 2], gap="large")
        with wide:
            st.header("Each client's accuracy, in FedAvg's order", anchor=False)
            _client_figure(rho, standing.accuracies)
            reading(self, place, _now(rho, run, standing), finding(rho))
        with side:
            st.header("Mean and lowest 5 %, for every ρ", anchor=False)
            _radius_figure(rho, run.scores[-1] if run else None, ends)
            st.header("The loss around the model", anchor=False)
            _section_figure(rho, standing.sections)

    def config(self, place: Place) -> Mapping[str, Any]:
        """FedAvg and the reader's radius."""
        return experiment(*map(method, dict.fromkeys((0.0, OF_ADDRESS[place["rho"]]))))

    def setup_label(self, place: Place) -> str:
        return "FedAvg on these clients" if place["rho"] == "0" else f"FedAvg and FedSAM with ρ = {place['rho']}"

    def table(self) -> pd.DataFrame:
        return radius.data(example())

    @property
    def caption(self) -> str:
        return (
            "Until a run starts, the clients and the loss are shown as runs end; then both are trained by the engine "
            "in this page, FedAvg beside FedSAM, on the same batches. The curves are example results on the same "
            f"clients, which ship with the product: {ROUNDS} rounds, n = {NUM_CLIENTS} clients with 4 to 35 test "
            f"images each, so the lowest 5 % are {NUM_LEFT_BEHIND} clients. The bands are mean ± standard deviation of "
            f"{example().num_draws} draws of such clients. The loss is the mean over all training samples, along one "
            f"random direction, scaled to the weights of each unit. Computed by `{example().command}`."
        )


STORY = LeftBehind()


def method(rho: float) -> dict[str, Any]:
    """The entry of the configuration for a place of the dial."""
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
    """What a gain is to be held against: as many gradients, a larger step, clients who differ less."""
    alike = {"name": "dirichlet", "alpha": 0.3, "num_clients": NUM_CLIENTS, "min_samples": 4, "test_fraction": 0.5}
    return {
        "fedavg, twice the rounds": experiment(method(0.0), rounds=2 * ROUNDS),
        "fedavg, larger step": experiment(method(0.0), lr=LARGER_LR),
        "rho = 0.2, larger step": experiment(method(0.2), lr=LARGER_LR),
        "fedavg, clients alike": {**experiment(method(0.0)), "partition": alike},
        "rho = 0.2, clients alike": {**experiment(method(0.2)), "partition": alike},
    }


def finding(rho: float) -> str:
    """What this radius is worth, against FedAvg."""
    there = example()
    at = RADII.index(rho)
    return (
        f"Here runs end at a lowest 5 % of {percent(float(there.lowest5[at, 0]))} and a mean of "
        f"{percent(float(there.mean[at, 0]))}; FedAvg at {percent(float(there.lowest5[0, 0]))} and "
        f"{percent(float(there.mean[0, 0]))}. {_gain_told(rho)}"
    )


def _hidden_told() -> str:
    there = example()
    worst = there.accuracies[0].argsort()[:NUM_LEFT_BEHIND]
    who = " and ".join(f"one with {there.train_sizes[i]} images of {_digits(i)}" for i in worst)
    return (
        f"FedAvg ends at {percent(float(there.mean[0, 0]))} on average, but the lowest 5 %, two of the {NUM_CLIENTS} "
        f"clients, see only {percent(float(there.lowest5[0, 0]))}: {who}. Half of the clients have at most "
        f"{np.median(there.train_sizes):g} images; small marks are those with few."
    )


def _around_told(rho: float) -> str:
    return (
        "Each local step now looks uphill first, as far as ρ, and takes the gradient from there. Dots are clients "
        f"so trained, rings those of FedAvg. {_gain_told(rho)} Beside it, the loss is lower and its dish wider."
    )


def _further_told(rho: float) -> str:
    there, at = example(), RADII.index(rho)
    rise = there.sections.max(1) - there.sections[:, len(STEPS) // 2]
    return (
        f"{_gain_told(rho)} At the rim of the figure the loss has risen by {rise[at]:.2f}, with FedAvg by "
        f"{rise[0]:.2f}. The mean gains, too: {_mean_pm(rho)} against {_mean_pm(0.0)}."
    )


def _checked_told(rho: float) -> str:
    """The gain against runs that have no radius to thank."""
    there = example()
    twice, larger = (there.checks[f"fedavg, {what}"] for what in ("twice the rounds", "larger step"))
    both = there.checks["rho = 0.2, larger step"]
    alike, alike_sam = (there.checks[f"{who}, clients alike"] for who in ("fedavg", "rho = 0.2"))
    added, alike_gain = (
        float((ours.lowest5 - theirs.lowest5).mean()) for ours, theirs in ((both, larger), (alike_sam, alike))
    )
    return (
        f"Be fair. FedSAM takes two gradients a step; FedAvg with twice the rounds has a lowest 5 % of "
        f"{_pm(twice.lowest5)}, FedSAM here {_pm(there.lowest5[RADII.index(rho)])}. And FedAvg with a step of "
        f"{LARGER_LR:g} instead of {LR:g} has {_pm(larger.lowest5)}, to which ρ = 0.2 adds {signed_points(added)} "
        "points. So ρ saves rounds here, but a larger step saves more, and that flatness is the cause these numbers do "
        f"not show. Where clients differ less (Dirichlet, α = 0.3), ρ = 0.2 changes the lowest 5 % by "
        f"{signed_points(alike_gain)}."
    )


def _too_far_told(rho: float) -> str:
    at = RADII.index(rho)
    return (
        "Taken so far away, the gradient says little about the model, and training goes nowhere: over "
        f"{example().num_draws} draws, {_mean_pm(rho)} on average and {_pm(example().lowest5[at])} for the lowest 5 %. "
        "Every method has a dial that can be turned too far."
    )


def _gain_told(rho: float) -> str:
    """``Over 10 draws, the lowest 5 % change by +6.00 points, up in 9 and down in 1.``"""
    gains = example().gains(rho)
    up, down, same = (int(found.sum()) for found in (gains > ROUNDING, gains < -ROUNDING, abs(gains) <= ROUNDING))
    unchanged = f", unchanged in {same}" if same else ""
    return (
        f"Over {len(gains)} draws of such clients, the lowest 5 % change by {signed_points(float(gains.mean()))} "
        f"points on average: up in {up}, down in {down}{unchanged}."
    )


def _mean_pm(rho: float) -> str:
    return _pm(example().mean[RADII.index(rho)])


def _pm(draws: np.ndarray) -> str:
    return percent_pm(float(draws.mean()), float(draws.std(ddof=1)))


def _digits(client: int) -> str:
    return " and ".join(f"{digit}s" for digit in example().digits[client])


def _now(rho: float, run: "SharpnessRun | None", standing: Standing) -> str:
    """Where the run is."""
    mean, lowest5 = (percent(float(both[1])) for both in (standing.mean, standing.lowest5))
    at = f"Round {run.round}" if run else f"As runs end, round {ROUNDS}"
    return f"{at} · ρ = {rho:g} · mean {mean} · lowest 5 % {lowest5}, n = {NUM_CLIENTS}"


def _client_figure(rho: float, accuracies: np.ndarray) -> None:
    there = example()
    df = left_behind.data(accuracies, there.accuracies[0], there.train_sizes, there.digits)
    moves, alt = left_behind.moving(df, rho), left_behind.finding(df, rho)
    moving_figure(_still_clients(rho), moves, key="tail_figure", alt=alt, name="clients-left-behind")


def _radius_figure(rho: float, score: tuple[float, float] | None, ends: Sequence[tuple[float, float]]) -> None:
    there = example()
    alt = (
        f"Lowest 5 % against rho: {percent(float(there.lowest5[0, 0]))} for FedAvg, best on average at "
        f"{there.best_rho:g}, {percent(float(there.lowest5[-1, 0]))} at {RADII[-1]:g}"
    )
    moves = radius.moving(rho, score, ends)
    moving_figure(_still_radius(), moves, key="radius_figure", alt=alt, name="accuracy-over-rho")


def _section_figure(rho: float, sections: np.ndarray) -> None:
    df = cross_section.data(STEPS, sections)
    moves, alt = cross_section.moving(df), cross_section.finding(df, rho)
    moving_figure(_still_section(rho), moves, key="section_figure", alt=alt, name="loss-around-the-model")


@still
def _still_clients(rho: float) -> go.Figure:
    return left_behind.figure(rho)


@still
def _still_radius() -> go.Figure:
    return radius.figure(radius.data(example()))


@still
def _still_section(rho: float) -> go.Figure:
    return cross_section.figure(rho)
