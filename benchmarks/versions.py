"""Seconds per round in this tree and in an older one, round by round in turns in one process.

    git worktree add ../before COMMIT
    .venv/bin/python -m benchmarks.versions --other ../before [--methods fedavg ditto] [--models mlr dnn]
        [--clients 20] [--repeats 40] [--rounds 6]

Each repeat builds both runs anew, so that they lie elsewhere in memory, and computes their rounds alternately: training
and aggregation, without evaluation. Prints the median over the repeats of here / other, with a 95 % interval from order
statistics. ``--other .`` compares the tree with itself, which shows the noise.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from math import comb
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from engine.core.devices import set_threads
from engine.core.paths import ROOT

PACKAGES = ("engine", "storage")


@dataclass
class Tree:
    """The packages of one working tree, imported apart from those of the other one."""

    root: Path
    modules: dict[str, ModuleType] = field(default_factory=dict)

    @contextmanager
    def imported(self) -> Iterator[None]:
        """Inside, ``import engine`` finds this tree."""
        outside = _take_modules()
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.root))
        try:
            yield
        finally:
            sys.path.remove(str(self.root))
            self.modules = _take_modules()
            sys.modules.update(outside)

    def run(self, method: str, model: str, clients: int, rounds: int) -> Callable[[int], float]:
        """A fresh run; the result computes a round and returns its seconds."""
        with self.imported():
            raw = {
                "dataset": "digits",
                "partition": "iid",
                "model": model,
                "device": "cpu",
                "algorithms": [method],
                "training": {"rounds": rounds, "local_steps": 20, "batch_size": 20, "lr": 0.005},
            }
            config = import_module("engine.config.schema").parse_experiment(raw).runs()[0]
            simulation = import_module("engine.simulation.simulate").Simulation(config, data=_federation(clients))

        def compute(number: int) -> float:
            with self.imported():
                started = time.perf_counter()
                cohort = simulation.task.cohort(number)
                simulation.state, _ = simulation.algorithm.round(simulation.state, cohort, simulation.task)
                return time.perf_counter() - started

        return compute


def ratio(here: Callable[[int], float], other: Callable[[int], float], rounds: int) -> tuple[float, float]:
    """Median seconds of a round here, and its ratio to the other's, after one round to warm up."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(1, rounds + 2):
        order = ((0, here), (1, other)) if number % 2 else ((1, other), (0, here))
        for place, compute in order:
            taken[place].append(compute(number))
    middle, others = (statistics.median(values[1:]) for values in taken)
    return middle, middle / others


def interval(values: list[float]) -> tuple[float, float]:
    """The narrowest pair of order statistics that holds the median with 95 % confidence."""
    ordered, n = sorted(values), len(values)
    below = 0.0
    for k in range(n // 2):
        below += comb(n, k) / 2**n
        if below > 0.025:
            return ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]
    return ordered[0], ordered[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, help="folder of the other working tree")
    parser.add_argument("--methods", nargs="+", default=["fedavg", "ditto", "pfedme", "scaffold", "ifca", "cgpfl"])
    parser.add_argument("--models", nargs="+", default=["mlr", "dnn"])
    for name, default in (("clients", 20), ("repeats", 40), ("rounds", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    set_threads(1)
    here, other = Tree(ROOT), Tree(options.other.resolve())
    print(f"N={options.clients}, 1 thread, torch {torch.__version__}, {options.repeats} x {options.rounds} rounds")
    print(f"{'model':6}{'method':18}{'ms here':>9}{'here / other':>14}   95 %")
    for model in options.models:
        for method in options.methods:
            found = []
            for repeat in range(options.repeats):
                trees = (here, other) if repeat % 2 else (other, here)
                runs = {id(tree): tree.run(method, model, options.clients, options.rounds + 1) for tree in trees}
                found.append(ratio(runs[id(here)], runs[id(other)], options.rounds))
            ratios = [one for _, one in found]
            low, high = interval(ratios)
            middle = 1000 * statistics.median(seconds for seconds, _ in found)
            print(f"{model:6}{method:18}{middle:9.2f}{statistics.median(ratios):14.3f}   {low:.3f} to {high:.3f}")


def _take_modules() -> dict[str, ModuleType]:
    """Removes the modules of our packages from those that are imported."""
    names = [name for name in sys.modules if name.split(".")[0] in PACKAGES]
    return {name: sys.modules.pop(name) for name in names}


def _federation(clients: int) -> Any:
    """Images of MNIST's shape with random pixels, 150 to 450 samples per client, of the tree that is imported."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(200, 600, clients)
    total = int(sizes.sum())
    pixels, labels = rng.integers(0, 256, (total, 1, 28, 28), np.uint8), rng.integers(0, 10, total)
    pool = import_module("engine.datasets").Pool(pixels, labels, 10, scale=1 / 255)
    parts = tuple(np.split(np.arange(total), np.cumsum(sizes)[:-1]))
    train, test = tuple(p[: len(p) * 3 // 4] for p in parts), tuple(p[len(p) * 3 // 4 :] for p in parts)
    empty = tuple(np.zeros(0, np.int64) for _ in parts)
    partition = import_module("engine.partitioners").Partition(train, empty, test, None)
    return import_module("engine.federation.clients").lay_out(pool, partition, torch.float32, torch.device("cpu"))


if __name__ == "__main__":
    main()
