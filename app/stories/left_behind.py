"""Who is left behind? Clients with unequal data, one model for all, and the radius in which its loss must stay low.

Forty clients have two digits each and 4 to 35 training images; half of them participate in a round. FedAvg's model
fits some and fails others. FedSAM follows the gradient at the worst point within rho, so that the loss is flat around
the model. At rho = 0 it is FedAvg.
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
    order = 50
    slug = "left-behind"
    short = "Who is left behind?"
    kicker = f"Digits · {NUM_CLIENTS} clients · 2 digits each · 4 to 35 training images · C = 50 %"
    title = "Who is left behind?"
    lead = (
        "A good mean can hide clients for which the model fails. Sharpness-aware training keeps the loss low within ρ "
        "around the model, not only at it, so one client's updates hurt others less."
    )

    @property
    def scenes(self) -> Sequence[Scene]:
        return [
            Scene("The mean hides them", {"rho": "0"}, _hidden_text()),
            Scene("A small radius", {"rho": "0.1"}, _around_text(0.1)),
            Scene("A larger one", {"rho": "0.2"}, _further_text(0.2)),
            Scene("Is it the flatness?", {"rho": "0.3"}, _checked_text(0.3)),
            Scene("Too large", {"rho": "0.5"}, _too_far_text(0.5)),
        ]

    def dials(self, place: Place) -> Sequence[Dial]:
        titles = {stop: stop for stop in OF_ADDRESS} | {"0": "0, FedAvg"}
        return [Dial("rho", "Radius in which the loss must stay low (ρ)", titles, "0")]

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
            st.header("Accuracy by client, sorted by FedAvg", anchor=False)
            _client_figure(rho, standing.accuracies)
            reading(self, place, _now(rho, run, standing), finding(rho))
        with side:
            st.header("Mean and lowest 5 %, by ρ", anchor=False)
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
            "Before a run starts, the clients and the loss show final results; then FedAvg and FedSAM are trained live "
            "on the same batches. The curves are example results on the same clients that ship with Fedscape: "
            f"{ROUNDS} rounds, n = {NUM_CLIENTS} clients with 4 to 35 test images each, so the lowest 5 % are "
            f"{NUM_LEFT_BEHIND} clients. Bands: mean ± standard deviation over {example().num_draws} draws of such "
            "clients. The loss is the mean over all training samples, along one random direction, scaled to the "
            f"weights of each unit. Computed by `{example().command}`."
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
    there = example()
    at = RADII.index(rho)
    return (
        f"Runs with this ρ end at a lowest 5 % of {percent(float(there.lowest5[at, 0]))} and a mean of "
        f"{percent(float(there.mean[at, 0]))}; FedAvg at {percent(float(there.lowest5[0, 0]))} and "
        f"{percent(float(there.mean[0, 0]))}. {_gain_text(rho)}"
    )


def _hidden_text() -> str:
    there = example()
    worst = there.accuracies[0].argsort()[:NUM_LEFT_BEHIND]
    who = " and ".join(f"one with {there.train_sizes[i]} images of {_digits(i)}" for i in worst)
    return (
        f"FedAvg ends at {percent(float(there.mean[0, 0]))} on average, but the lowest 5 %, two of the {NUM_CLIENTS} "
        f"clients, reach only {percent(float(there.lowest5[0, 0]), 0)}: {who}. Half of the clients have at most "
        f"{np.median(there.train_sizes):g} images; small markers are those with few."
    )


def _around_text(rho: float) -> str:
    return (
        "Each local step first moves uphill by ρ and takes the gradient from there. Dots are clients trained this "
        f"way, rings those of FedAvg. {_gain_text(rho)} On the right, the loss is lower and the basin is wider."
    )


def _further_text(rho: float) -> str:
    there, at = example(), RADII.index(rho)
    rise = there.sections.max(1) - there.sections[:, len(STEPS) // 2]
    return (
        f"{_gain_text(rho)} At the edge of the plot the loss has risen by {rise[at]:.2f}, with FedAvg by "
        f"{rise[0]:.2f}. The mean also rises: {_mean_pm(rho)} against {_mean_pm(0.0)}."
    )


def _checked_text(rho: float) -> str:
    """The gain compared with control runs."""
    there = example()
    twice, larger = (there.checks[f"fedavg, {what}"] for what in ("twice the rounds", "larger step"))
    both = there.checks["rho = 0.2, larger step"]
    alike, alike_sam = (there.checks[f"{who}, clients alike"] for who in ("fedavg", "rho = 0.2"))
    added, alike_gain = (
        float((ours.lowest5 - theirs.lowest5).mean()) for ours, theirs in ((both, larger), (alike_sam, alike))
    )
    return (
        "A fair comparison: FedSAM takes two gradients per step; FedAvg with twice the rounds has a lowest 5 % of "
        f"{_pm(twice.lowest5)}, FedSAM here {_pm(there.lowest5[RADII.index(rho)])}. FedAvg with a learning rate of "
        f"{LARGER_LR:g} instead of {LR:g} has {_pm(larger.lowest5)}, to which ρ = 0.2 adds {signed_points(added)} "
        "points. So ρ saves rounds here, but a larger learning rate saves more; these numbers do not show that "
        "flatness is the cause. Where clients differ less (Dirichlet, α = 0.3), ρ = 0.2 changes the lowest 5 % by "
        f"{signed_points(alike_gain)} points."
    )


def _too_far_text(rho: float) -> str:
    at = RADII.index(rho)
    return (
        "Taken this far away, the gradient says little about the model, and training fails: over "
        f"{example().num_draws} draws, {_mean_pm(rho)} on average and {_pm(example().lowest5[at])} for the lowest 5 %. "
        "Any hyper-parameter can be set too high."
    )


def _gain_text(rho: float) -> str:
    """``Over 10 draws of such clients, the lowest 5 % changes by +6.00 points on average: up in 9, down in 1.``"""
    gains = example().gains(rho)
    up, down, same = (int(found.sum()) for found in (gains > ROUNDING, gains < -ROUNDING, abs(gains) <= ROUNDING))
    unchanged = f", unchanged in {same}" if same else ""
    return (
        f"Over {len(gains)} draws of such clients, the lowest 5 % changes by {signed_points(float(gains.mean()))} "
        f"points on average: up in {up}, down in {down}{unchanged}."
    )


def _mean_pm(rho: float) -> str:
    return _pm(example().mean[RADII.index(rho)])


def _pm(draws: np.ndarray) -> str:
    return percent_pm(float(draws.mean()), float(draws.std(ddof=1)))


def _digits(client: int) -> str:
    return " and ".join(f"{digit}s" for digit in example().digits[client])


def _now(rho: float, run: "SharpnessRun | None", standing: Standing) -> str:
    """The state of the run."""
    mean, lowest5 = (percent(float(both[1])) for both in (standing.mean, standing.lowest5))
    at = f"Round {run.round}" if run else f"Final results, round {ROUNDS}"
    return f"{at} · ρ = {rho:g} · mean {mean} · lowest 5 % {lowest5}, n = {NUM_CLIENTS}"


def _client_figure(rho: float, accuracies: np.ndarray) -> None:
    there = example()
    df = left_behind.data(accuracies, there.accuracies[0], there.train_sizes, there.digits)
    moves, alt = left_behind.moving(df, rho), left_behind.finding(df, rho)
    moving_figure(_still_clients(rho), moves, key="tail_figure", alt=alt, name="clients-left-behind")


def _radius_figure(rho: float, score: tuple[float, float] | None, ends: Sequence[tuple[float, float]]) -> None:
    there = example()
    alt = (
        f"Lowest 5 % by rho: {percent(float(there.lowest5[0, 0]))} for FedAvg, best on average at "
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
