"""Where runs end at every stop of two stories' dials: ``python -m benchmarks.story_dials``, minutes on one core.

Writes assets/examples/one_model.json and alone.json for the Learn page: accuracies of the last round for every stop and
five seeds, and a page of the digits as it looks to ten of the clients.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from app.stories import alone, dial_example, one_model
from engine.config import parse_experiment
from engine.partitioners.shifts import Levels, Rotation
from engine.simulate import Simulation

COMMAND = "python -m benchmarks.story_dials"
SEEDS = (0, 1, 2, 3, 4)
PAGE = 4  # the sample of the pool that is shown: a 4, which looks like no other digit when turned
PICTURES = 10


def main() -> None:
    write("one_model", "The one model's accuracy against how far the clients' pages are turned apart", one_model.TURNS,
          [one_model_lines(turn) for turn in one_model.TURNS], one_model.TURNS)  # fmt: skip
    write("alone", "Accuracy alone and together against the samples of a client", alone.SAMPLES,
          [alone_lines(samples) for samples in alone.SAMPLES], [str(alone.TURN)])  # fmt: skip


def one_model_lines(turn: str) -> dict[str, list[float]]:
    """The common model's mean and lowest client, and the mean of models that learn alone; a value a seed."""
    common, own = last_rounds(one_model.config(turn, "fedavg", "local_train"))
    return {
        "mean": [float(accuracy.mean()) for accuracy in common],
        "lowest client": [float(accuracy.min()) for accuracy in common],
        "each alone": [float(accuracy.mean()) for accuracy in own],
    }


def alone_lines(samples: str) -> dict[str, list[float]]:
    together, own = last_rounds(alone.STORY.config({"samples": samples}))
    return {
        "Together": [float(accuracy.mean()) for accuracy in together],
        "Alone": [float(accuracy.mean()) for accuracy in own],
    }


def last_rounds(config: Mapping[str, Any]) -> list[list[np.ndarray]]:
    """[N] accuracies of the last round, for every method and seed."""
    runs = parse_experiment({**config, "seeds": list(SEEDS), "evaluation": {"every": 10_000}}).runs()
    ends = [[*Simulation(run).rounds()][-1].arrays["personalized.accuracy"] for run in runs]
    return [ends[i : i + len(SEEDS)] for i in range(0, len(ends), len(SEEDS))]


def pictures(turn: str) -> list[str]:
    """The page as it looks to ten clients, in 16 greys."""
    page = load_digits().images[PAGE].astype(np.uint8)[None, None]
    levels = Levels(0.0, 16.0)
    turned = [Rotation(int(turn) * i / PICTURES, levels)(page, np.zeros(1))[0, 0] for i in range(PICTURES)]
    return [dial_example.pack(np.minimum(picture, 15)) for picture in turned]


def write(name: str, title: str, stops: Sequence[str], ends: Sequence[dict[str, list[float]]],
          turns: Iterable[str]) -> None:  # fmt: skip
    result = {
        "title": f"{title}: example results, shipped with the product",
        "command": COMMAND,
        "seeds": SEEDS,
        "stops": stops,
        "lines": {line: [np.round(end[line], 5).tolist() for end in ends] for line in ends[0]},
        "pictures": {turn: pictures(turn) for turn in turns},
    }
    path = dial_example.EXAMPLES / f"{name}.json"
    path.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
