"""Results of three stories on dials: ``python -m benchmarks.trade_off_stories``, minutes on one core.

Writes privacy.json, privacy_population.json, robustness.json, robustness_classes.json and deadlines.json in
assets/examples for the Learn page: mean and lowest 5 % after the last round of every method, for every stop of a dial
and every seed, and the clients of seed 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.stories import deadlines, privacy, robustness
from app.stories.dial_run import DialStep, counted, step_of
from app.stories.method_rows import WHAT, line
from benchmarks.first_stories import write
from benchmarks.story_dials import SEEDS, rounded
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation

COMMAND = "python -m benchmarks.trade_off_stories"
Stops = Mapping[str, Sequence[DialStep]]
"""Stop -> the last step with each seed."""


def main() -> None:
    noises()
    attacks()
    waits()


def noises() -> None:
    private = {stop: ended(privacy.experiment(stop)) for stop in privacy.NOISES}
    methods = list(privacy.METHODS)
    save("privacy", "Accuracy of clients by noise", lines(private, methods), private, clients(private, methods))
    only = {privacy.FEDAVG: privacy.METHODS[privacy.FEDAVG]}
    larger = {str(privacy.MANY): ended(privacy.experiment("8", only, privacy.MANY))}
    title = "Accuracy of clients with the noise of a larger population"
    save("privacy_population", title, lines(larger, list(only)), larger, {})


def attacks() -> None:
    under_attack = {stop: ended(robustness.experiment(stop)) for stop in robustness.ATTACKS}
    kept = [[malicious_share(robustness.experiment(stop), seed) for seed in SEEDS] for stop in robustness.ATTACKS]
    methods = list(robustness.METHODS)
    save(
        "robustness",
        "Accuracy of benign clients by attack",
        {**lines(under_attack, methods), robustness.KEPT: [rounded(np.array(shares)) for shares in kept]},
        under_attack,
        clients(under_attack, methods),
    )
    methods = [robustness.FEDAVG, robustness.MEDIAN, robustness.DITTO, robustness.DITTO_MEDIAN]
    of_these = {method: robustness.METHODS[method] for method in methods}
    different = {c: ended(robustness.experiment("none", of_these, int(c))) for c in robustness.DIFFERENT}
    save(
        "robustness_classes",
        "Accuracy of clients by their number of classes, without an attack",
        lines(different, methods),
        different,
        {},
    )


def waits() -> None:
    waiting = {stop: ended(deadlines.experiment(stop)) for stop in deadlines.WAITS}
    methods = list(deadlines.METHODS)
    save(
        "deadlines",
        "Accuracy of clients by deadline and by who is slow",
        {**lines(waiting, methods), **uploads(waiting, methods)},
        waiting,
        {**clients(waiting, methods), **used(waiting, methods)},
    )


def ended(config: Mapping[str, Any]) -> list[DialStep]:
    """The last step of all methods, with every seed."""
    at_the_end = {**config, "evaluation": {"every": config["training"]["rounds"]}}
    return [step_of(*[*counted({**at_the_end, "seeds": [seed]})][-1]) for seed in SEEDS]


def lines(stops: Stops, methods: Sequence[str]) -> dict[str, list[list[float]]]:
    """Mean and lowest 5 % of each method: [stops, seeds]."""
    return {
        line(method, what): [rounded(np.array([step.scores[at][which] for step in seeds])) for seeds in stops.values()]
        for at, method in enumerate(methods)
        for which, what in enumerate(WHAT)
    }


def clients(stops: Stops, methods: Sequence[str]) -> dict[str, list[list[float]]]:
    """Accuracies of the clients with the first seed, for each method: [stops, n]."""
    return {method: [rounded(seeds[0].accuracies[at]) for seeds in stops.values()] for at, method in enumerate(methods)}


def uploads(stops: Stops, methods: Sequence[str]) -> dict[str, list[list[float]]]:
    """The share of uploads that were used, the clients that never were, and the simulated seconds: [stops, seeds]."""
    found = {}
    for at, method in enumerate(methods):
        if method != deadlines.ALONE:
            counts = [[step.used[at] for step in seeds] for seeds in stops.values()]
            found[line(method, deadlines.USED)] = [
                rounded(np.array([used.mean() / deadlines.ROUNDS for used in seeds])) for seeds in counts
            ]
            found[line(method, deadlines.NEVER)] = [
                rounded(np.array([(used == 0).sum() for used in seeds])) for seeds in counts
            ]
            seconds = [np.array([step.seconds[at] for step in seeds]) for seeds in stops.values()]
            found[line(method, deadlines.SECONDS)] = [rounded(own) for own in seconds]
    return found


def used(stops: Stops, methods: Sequence[str]) -> dict[str, list[list[float]]]:
    """With the first seed: in how many rounds a client's upload was used, and its mean digit: [stops, N]."""
    simulation = Simulation(parse_experiment(deadlines.experiment("wait")).runs()[0])
    found = {
        deadlines.used_by(method): [rounded(seeds[0].used[at]) for seeds in stops.values()]
        for at, method in enumerate(methods)
        if method != deadlines.ALONE
    }
    return {**found, deadlines.DIGIT: [rounded(mean_digits(simulation))] * len(stops)}


def mean_digits(simulation: Simulation) -> np.ndarray:
    """[N] of the clients' training images."""
    counts = np.array(simulation.task.data.summary.class_counts, float)
    return np.asarray(counts @ np.arange(counts.shape[1]) / counts.sum(1))


def malicious_share(config: Mapping[str, Any], seed: int) -> float:
    """How much of multi-Krum's update is from malicious clients, on average over the rounds; 0 where nobody attacks."""
    only = {**config, "seeds": [seed], "algorithms": [{**robustness.METHODS[robustness.KRUM], "label": "multi-Krum"}]}
    simulation = Simulation(parse_experiment({**only, "evaluation": {"every": robustness.ROUNDS}}).runs()[0])
    weights = [result.arrays.get("diagnostics.aggregator.weight") for result in simulation.rounds()]
    malicious = simulation.task.data.malicious
    return float(np.mean([own[malicious].sum() for own in weights if own is not None]))


def save(name: str, title: str, found: Mapping[str, Any], stops: Stops, shown: Mapping[str, Any]) -> None:
    write(name, title, list(stops), found, {}, shown, command=COMMAND)


if __name__ == "__main__":
    main()
