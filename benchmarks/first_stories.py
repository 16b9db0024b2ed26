"""Results of the first stories: ``python -m benchmarks.first_stories``, minutes on one core.

Writes first_round.json, leak.json, skews.json and drift.json in assets/examples for the Learn page: results of the last
round for every stop of a dial, by seed, and the images of some clients.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from app.stories import dial_example, drift, first_round, leak, leak_run, skews
from app.stories.figures import client_images
from app.stories.leak_attack import similarity
from benchmarks.story_dials import SEEDS, last_rounds, rounded
from engine.config.schema import parse_experiment
from engine.simulation.simulate import Simulation

COMMAND = "python -m benchmarks.first_stories"
IMAGES = 4  # of each client that are shown


def main() -> None:
    write("first_round", "Accuracy of one model by the number of clients", first_round.CLIENTS, *first_rounds())
    write("leak", "Similarity of recovered images by batch size", leak.BATCHES, *leaks())
    write("skews", "Accuracy together and alone by how clients differ", skews.STRENGTHS, *how_clients_differ())
    write("drift", "Accuracy of one model by local steps", drift.STEPS, drifts(), {})


def first_rounds() -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines and pictures: together and alone with every number of clients, and four images of each client."""
    configs = {n: first_round.config(n, *first_round.METHODS) for n in first_round.CLIENTS}
    ends = [last_rounds(config) for config in configs.values()]
    lines = {label: [rounded(at[label].mean(1)) for at in ends] for label in first_round.METHODS.values()}
    shown = {n: [p for client in images(config, IMAGES) for p in client] for n, config in configs.items()}
    return lines, shown


def leaks() -> tuple[dict[str, Any], dict[str, Any]]:
    """Mean correlations for every noise and batch size, what the mean digit reaches, and the first images."""
    first, lines = {}, {}
    for noise, line in leak.LINES.items():
        lines[line] = []
        for batch in leak.BATCHES:
            runs = [[*leak_run.steps(leak.experiment(int(batch), seed), float(noise))] for seed in SEEDS]
            first_leak = runs[0][1].leak
            assert first_leak is not None
            first[batch] = [packed(image.reshape(8, 8) * 16) for image in first_leak.images]
            lines[line].append(rounded(np.array([run[-1].value for run in runs])))
    lines[leak.REFERENCE] = [rounded(np.full(len(SEEDS), of_mean_digits()))] * len(leak.BATCHES)
    return lines, first


def how_clients_differ() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Lines together and alone for every skew, images of some clients, and how many they have."""
    lines: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    for skew in skews.SKEWS:
        configs = {strength: skews.experiment(skew, strength) for strength in skews.STRENGTHS}
        ends = [last_rounds(config) for config in configs.values()]
        for how, label in zip((skews.TOGETHER, skews.ALONE), skews.METHODS.values(), strict=True):
            lines[skews.line(skew, how)] = [rounded(np.nanmean(at[label], 1)) for at in ends]
        sizes[skew] = [train_sizes(config)[:: skews.EVERY] for config in configs.values()]
        for strength, config in configs.items():
            clients = images(config, client_images.COLUMNS)[:: skews.EVERY]
            shown |= {f"{skew} {strength} {client}": own for client, own in enumerate(clients)}
    return lines, shown, sizes


def drifts() -> dict[str, Any]:
    """Both methods' shared model on all test images of real clients, for every number of local steps."""
    lines: dict[str, Any] = {name: [] for name in drift.NAMES}
    for steps in drift.STEPS:
        config = {**drift.real_clients(steps), "seeds": list(SEEDS), "evaluation": {"every": 10_000}}
        runs = parse_experiment(config).runs()
        ends = [[*Simulation(run).rounds()][-1].scalars["global.weighted_mean"] for run in runs]
        for name, own in zip(drift.NAMES, (ends[: len(SEEDS)], ends[len(SEEDS) :]), strict=True):
            lines[name].append(rounded(np.array(own)))
    return lines


def train_sizes(config: Mapping[str, Any]) -> list[int]:
    """Of all clients, in the run of seed 0."""
    return [*Simulation(parse_experiment(config).runs()[0]).task.data.summary.train_sizes]


def of_mean_digits() -> float:
    """Correlation of an image with the mean of all images of its digit."""
    images, digits = load_digits(return_X_y=True)
    means = np.stack([images[digits == digit].mean(0) for digit in range(10)])
    return float(similarity(images, means[digits]).mean())


def images(config: Mapping[str, Any], count: int) -> list[list[str]]:
    """The first training images of every client as a run of seed 0 has them, in 16 shades of gray."""
    data = Simulation(parse_experiment(config).runs()[0]).task.data.train
    owned = data.rows.split(data.sizes.tolist())
    return [[packed(image) for image in data.pool.x[rows[:count], 0].numpy()] for rows in owned]


def packed(image: np.ndarray) -> str:
    """An image [8, 8] of pixels from 0 to 16 in 16 shades of gray."""
    return dial_example.pack(np.minimum(np.rint(image), 15).astype(int))


def write(
    name: str,
    title: str,
    stops: Sequence[str],
    lines: Mapping[str, Any],
    pictures: Mapping[str, Sequence[str]],
    clients: Mapping[str, Any] | None = None,
    command: str = COMMAND,
) -> None:
    """``lines``: name -> [stops, seeds]; ``clients``: name -> [stops, clients]; see ``dial_example``."""
    result = {
        "title": f"{title}: example results, shipped with the product",
        "command": command,
        "seeds": SEEDS,
        "stops": stops,
        "lines": lines,
        "clients": clients or {},
        "pictures": pictures,
    }
    text = json.dumps(result, ensure_ascii=False, indent=1)
    flat = re.sub(r"\[[\s\d.,]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    (dial_example.EXAMPLES / f"{name}.json").write_text(flat + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
