"""Computes the curves of the story on λ: ``python -m benchmarks.lambda_dial``, some minutes on one core.

For every spread R of the clients and every lambda, the joint minimizer of one-stage FedProx on the story's data, found
by Newton's method, and its mean squared distance to the clients' true models: assets/examples/lambda_dial.json.
"""

import json
from itertools import islice
from typing import Any

import numpy as np

from app.stories import lambda_curves as curves
from app.stories import lambda_dial as story
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation
from engine.task import Task
from engine.training import statistical_error

COMMAND = "python -m benchmarks.lambda_dial"
LAMBDAS = sorted({*curves.LAMBDAS, 0.0014, 0.0032, 0.007, 0.014, 0.032, 0.07, 0.14, 0.32, 0.7, 1.4, 3.2, 5.0, 10.0})
ONE_MODEL = 1e4  # from here on the rounded error no longer changes


def main() -> None:
    drawn = prepared(1.0).task.data.truth or {}
    result = {
        "title": "Distance from the true model by lambda: example results, shipped with the product",
        "command": COMMAND,
        "config": story.config(1.0, curves.ALONE, curves.ADAPTIVE, curves.TOGETHER),
        "lambdas": LAMBDAS,
        "curves": [curve(R) for R in curves.SPREADS],
        "center": rounded(drawn["center"]),
        "directions": rounded(drawn["weights"] - drawn["center"]),
    }
    curves.EXAMPLE.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def prepared(R: float) -> Simulation:
    """The story's data at one spread, with the adaptive method before training."""
    return Simulation(parse_experiment(story.config(R, curves.ADAPTIVE)).runs()[0])


def curve(R: float) -> dict[str, Any]:
    """The errors at one spread: for each lambda, at both extremes, and for the adaptive choice."""
    simulation = prepared(R)
    _, first = islice(simulation.rounds(), 2)
    chosen = first.scalars["diagnostics.lam"]
    alone, *errors, together, adaptive = rounded(
        [error(simulation.task, lam) for lam in (0.0, *LAMBDAS, ONE_MODEL, chosen)]
    )
    return {
        "R": R,
        "errors": errors,
        "alone": alone,
        "together": together,
        "adaptive_lam": chosen,
        "adaptive": adaptive,
    }


def error(task: Task, lam: float) -> float:
    """The error of the converged solution; raises ValueError if there is none."""
    found = statistical_error.statistical_error(task, lam)
    if found is None:
        raise ValueError(f"lambda {lam:g} has no finite solution on these clients; choose another seed for the story")
    return found[0]


def rounded(values: Any) -> Any:
    """Rounds to four decimals, more than a figure shows."""
    return np.asarray(values, dtype=float).round(4).tolist()


if __name__ == "__main__":
    main()
