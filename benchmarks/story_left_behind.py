"""Computes the numbers of the story on clients left behind: ``python -m benchmarks.story_left_behind``, some minutes.

FedAvg and FedSAM with every radius on ten draws of the story's clients; and for comparison, FedAvg with as many
gradients, with a larger step, and on clients that differ less: assets/examples/story_left_behind.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.stories import left_behind as story
from app.stories import sharpness_curve as curve
from app.stories.sharpness_run import global_model, section
from engine.config.schema import parse_experiment
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation

COMMAND = "python -m benchmarks.story_left_behind"
DRAWS = range(story.SEED, story.SEED + 10)


@dataclass(frozen=True)
class Ended:
    """A run after its last round."""

    simulation: Simulation
    result: RoundResult


def main() -> None:
    ended = [[run(story.experiment(story.method(rho), seed=seed)) for seed in DRAWS] for rho in curve.RADII]
    shown = [runs[0] for runs in ended]
    summary = shown[0].simulation.task.data.summary
    result: dict[str, Any] = {
        "title": "Accuracy of the clients by sharpness radius: example results, shipped with the product",
        "command": COMMAND,
        "config": {**story.experiment(*map(story.method, curve.RADII)), "seeds": [*DRAWS]},
        "radii": [*curve.RADII],
        **{name: [values(runs, name) for runs in ended] for name in ("mean", "lowest5")},
        "accuracies": [rounded(one.result.arrays["personalized.accuracy"]) for one in shown],
        "sections": [rounded(section(one.simulation.task, global_model(one.simulation))) for one in shown],
        "train_sizes": [*summary.train_sizes],
        "digits": ["".join(str(c) for c, n in enumerate(counts) if n) for counts in summary.class_counts],
        "checks": {name: check(config) for name, config in story.checks().items()},
    }
    text = json.dumps(result, ensure_ascii=False, indent=1)
    curve.EXAMPLE.write_text(text + "\n", encoding="utf-8")


def check(config: Mapping[str, Any]) -> dict[str, list[float]]:
    runs = [run({**config, "seeds": [seed]}) for seed in DRAWS]
    return {name: values(runs, name) for name in ("mean", "lowest5")}


def run(config: Mapping[str, Any]) -> Ended:
    """A configuration of one run, trained."""
    simulation = Simulation(parse_experiment(config).runs()[0])
    return Ended(simulation, [*simulation.rounds()][-1])


def values(runs: list[Ended], name: str) -> list[float]:
    return rounded([one.result.scalars[f"personalized.{name}"] for one in runs])


def rounded(numbers: Any) -> Any:
    """Rounds to more decimals than a figure shows."""
    return np.asarray(numbers, dtype=float).round(5).tolist()


if __name__ == "__main__":
    main()
