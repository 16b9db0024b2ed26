"""Computes the numbers of the story on contexts: ``python -m benchmarks.story_contexts``, some minutes on one core.

CGPFL with every number of clusters, its heuristic and both references on ten draws of the story's clients, and the
number of contexts that the heuristic finds there and with fewer or noisier samples:
assets/examples/story_contexts.json.
"""

import json
from collections.abc import Mapping
from typing import Any

from app.stories import context_curve as curve
from app.stories import contexts as story
from engine.config.schema import parse_experiment
from engine.core.results import RoundResult
from engine.simulation.simulate import Simulation

COMMAND = "python -m benchmarks.story_contexts"
DRAWS = range(story.SEED, story.SEED + 10)
HARDER = ((10, story.NOISE), (6, story.NOISE), (story.TRAINING_SAMPLES, 3.0), (story.TRAINING_SAMPLES, 4.0))


def main() -> None:
    result = {
        "title": "Accuracy by number of clusters: example results, shipped with the product",
        "command": COMMAND,
        "config": {**story.experiment(story.ALONE, story.TOGETHER, story.method(curve.HEUR)), "seeds": [*DRAWS]},
        "clusters": [*curve.CLUSTERS],
        "accuracies": [means(story.method(K)) for K in curve.CLUSTERS],
        "alone": means(story.ALONE),
        "together": means(story.TOGETHER),
        "heuristic": means(story.method(curve.HEUR)),
        "guesses": [guesses(n, noise) for n, noise in ((story.TRAINING_SAMPLES, story.NOISE), *HARDER)],
    }
    text = json.dumps(result, ensure_ascii=False, indent=1)
    curve.EXAMPLE.write_text(text + "\n", encoding="utf-8")


def means(method: Mapping[str, Any]) -> list[float]:
    """Mean accuracy over the clients after the last round, for every draw."""
    ended = [last(story.experiment(method, seed=seed, every=story.ROUNDS)) for seed in DRAWS]
    return [round(result.scalars["personalized.mean"], 6) for result in ended]


def guesses(training_samples: int, noise: float) -> dict[str, Any]:
    """The number of clusters that the heuristic chooses after one round, for every draw."""
    drawn = [
        story.experiment(story.method(curve.HEUR), seed=seed, rounds=1, training_samples=training_samples, noise=noise)
        for seed in DRAWS
    ]
    taken = [int(last(config).scalars["diagnostics.K_hat"]) for config in drawn]
    return {"training_samples": training_samples, "noise": noise, "K_hats": taken}


def last(config: Mapping[str, Any]) -> RoundResult:
    """The last round of a configuration with one run."""
    return [*Simulation(parse_experiment(config).runs()[0]).rounds()][-1]


if __name__ == "__main__":
    main()
