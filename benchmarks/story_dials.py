"""Final results for every value of two stories' sliders: ``python -m benchmarks.story_dials``, minutes on one core.

Writes assets/examples/one_model.json and alone.json for the Learn page: accuracies of the last round for every value,
by seed and by client, and one digit with the rotations of ten clients.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from app.stories import alone, dial_example, one_model
from engine.config.schema import parse_experiment
from engine.partitioners.shifts import Levels, Rotation
from engine.simulation.simulate import Simulation

COMMAND = "python -m benchmarks.story_dials"
SEEDS = (0, 1, 2, 3, 4)
SAMPLE = 7  # the digit that is shown
PICTURES = 10
Ends = Mapping[str, np.ndarray]
"""Method label -> [seeds, N] accuracies of the last round."""


def main() -> None:
    write(
        "one_model",
        "Accuracy of one model by rotation between clients",
        {turn: last_rounds(one_model.config(turn, "fedavg", "local_train")) for turn in one_model.TURNS},
        one_model_lines,
        one_model.TURNS,
    )
    write(
        "alone",
        "Accuracy alone and together by number of samples per client",
        {samples: last_rounds(alone.STORY.config({"samples": samples})) for samples in alone.SAMPLES},
        lambda ends: {label: ends[label].mean(1) for label in alone.NAMES},
        [str(alone.TURN)],
    )


def one_model_lines(ends: Ends) -> dict[str, np.ndarray]:
    """Mean and lowest accuracy with one model, and the mean when learning alone; [seeds] each."""
    return {
        "mean": ends["One model"].mean(1),
        "lowest client": ends["One model"].min(1),
        "each alone": ends["Alone"].mean(1),
    }


def last_rounds(config: Mapping[str, Any]) -> Ends:
    """[seeds, N] accuracies of the last round, for every method."""
    runs = parse_experiment({**config, "seeds": list(SEEDS), "evaluation": {"every": 10_000}}).runs()
    ends = [[*Simulation(run).rounds()][-1].arrays["personalized.accuracy"] for run in runs]
    labels = list(dict.fromkeys(run.label for run in runs))
    return {label: np.stack(ends[i * len(SEEDS) :][: len(SEEDS)]) for i, label in enumerate(labels)}


def pictures(turn: str) -> list[str]:
    """One digit with the rotations of ten clients, in 16 shades of gray."""
    page = load_digits().images[SAMPLE].astype(np.uint8)[None, None]
    levels = Levels(0.0, 16.0)
    turned = [Rotation(int(turn) * i / PICTURES, levels)(page, np.zeros(1))[0, 0] for i in range(PICTURES)]
    return [dial_example.pack(np.minimum(picture, 15)) for picture in turned]


def write(
    name: str,
    title: str,
    ends: Mapping[str, Ends],
    lines_of: Callable[[Ends], dict[str, np.ndarray]],
    turns: Iterable[str],
) -> None:
    """``ends``: by the slider's value."""
    lines, methods = [lines_of(of_stop) for of_stop in ends.values()], next(iter(ends.values()))
    result = {
        "title": f"{title}: example results, shipped with the product",
        "command": COMMAND,
        "seeds": SEEDS,
        "stops": list(ends),
        "lines": {line: [rounded(values[line]) for values in lines] for line in lines[0]},
        "clients": {method: [rounded(of_stop[method].mean(0)) for of_stop in ends.values()] for method in methods},
        "pictures": {turn: pictures(turn) for turn in turns},
    }
    text = json.dumps(result, ensure_ascii=False, indent=1)
    flat = re.sub(r"\[[\s\d.,]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    (dial_example.EXAMPLES / f"{name}.json").write_text(flat + "\n", encoding="utf-8")


def rounded(values: np.ndarray) -> list[float]:
    """Rounds to five decimals, more than a figure shows."""
    rounded_to: list[float] = np.round(values.astype(float), 5).tolist()
    return rounded_to


if __name__ == "__main__":
    main()
