"""Times rounds of several seeds that are trained together beside those of one.

    python -m benchmarks.seeds [--models mlr dnn] [--methods fedavg pfedme ditto] [--seeds 16] [--clients 100]
        [--cohorts 10 100] [--samples 100] [--rounds 10] [--repeats 5] [--cuda_graphs] [--device cuda]

The data of ``benchmarks.gpu``, drawn for each seed, with 20 test samples per client. One run and all seeds together
(``seeds_together``) take turns. With ``--device cpu`` it runs anywhere, for tests. A line of a Markdown table for each
model, method and cohort:

- one ms: median of a round of one run: training and aggregation, as in ``benchmarks.gpu``
- all ms: that of a round of all seeds together
- times: median of the second divided by the first; the number of seeds without any gain
- with evaluation: the same of whole rounds, with the evaluation of every client and the results of the round
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from benchmarks.gpu import BATCH, NETWORKS, STEPS, device_name, timed
from engine.config.schema import parse_experiment
from engine.core.lockstep import Lockstep
from engine.core.results import RoundResult
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

METHODS = ("fedavg", "pfedme", "ditto", "fedrep", "scaffold", "pfedhn", "plgu_lf")
TEST = 20


class Run:
    """A run whose rounds are computed a few at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation, self.number = simulation, 0
        self._results: Iterator[RoundResult] = simulation.rounds()

    def train(self, rounds: int) -> None:
        """Training and aggregation, without what follows."""
        run = self.simulation
        for _ in range(rounds):
            self.number += 1
            run.state, _ = run.algorithm.round(run.state, run.task.cohort(self.number), run.task)

    def whole(self, rounds: int) -> None:
        for _ in range(rounds):
            next(self._results)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=NETWORKS, default=["mlr", "dnn"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["fedavg", "pfedme", "ditto"])
    parser.add_argument("--cohorts", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--cuda_graphs", action="store_true", help="cuda_graphs: true")
    for name, default in (("seeds", 16), ("clients", 100), ("samples", 100), ("rounds", 10), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "benchmarks.seeds: PyTorch finds no GPU here; --device cpu runs without one\n")
    pool = samples(given.clients * (given.samples + TEST))
    data = [federation(pool, seed, given) for seed in range(given.seeds)]
    print(f"{device_name(given.device)}, {given.seeds} seeds, {given.clients} clients, torch {torch.__version__}\n")
    print("| model | method | cohort | one ms | all ms | times | with evaluation: one ms | all ms | times |")
    print("|---|---|" + "--:|" * 7)
    for model in given.models:
        for method in given.methods:
            for cohort in given.cohorts:
                cells = measured(model, method, cohort, data, given)
                print(f"| {model} | {method} | {cohort} | " + " | ".join(cells) + " |", flush=True)


def measured(model: str, method: str, cohort: int, data: Sequence[Federation], given: argparse.Namespace) -> list[str]:
    lockstep, cells = Lockstep(), list[str]()
    one = Run(simulation(model, method, cohort, 0, data[0], given, None))
    several = [Run(simulation(model, method, cohort, seed, own, given, lockstep)) for seed, own in enumerate(data)]
    for compute in (Run.train, Run.whole):

        def alone(rounds: int, compute: Callable[[Run, int], None] = compute) -> None:
            compute(one, rounds)

        def together(rounds: int, compute: Callable[[Run, int], None] = compute) -> None:
            lockstep.run([lambda run=run: compute(run, rounds) for run in several])  # type: ignore[misc]

        alone(2)
        together(2)
        seconds = [(timed_rounds(alone, given), timed_rounds(together, given)) for _ in range(given.repeats)]
        cells += [f"{1000 * statistics.median(s):.2f}" for s in zip(*seconds, strict=True)]
        cells.append(f"{statistics.median(b / a for a, b in seconds):.2f}")
    return cells


def timed_rounds(compute: Callable[[int], None], given: argparse.Namespace) -> float:
    """Seconds of a round."""
    return timed(lambda: compute(given.rounds), given.device) / float(given.rounds)


def simulation(
    model: str,
    method: str,
    cohort: int,
    seed: int,
    data: Federation,
    given: argparse.Namespace,
    lockstep: Lockstep | None,
) -> Simulation:
    training = {"rounds": 10_000, "local_steps": STEPS[model], "batch_size": BATCH, "lr": 0.01}
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": NETWORKS[model],
        "algorithms": [{"name": method}],
        "seeds": [seed],
        "device": given.device,
        "cuda_graphs": given.cuda_graphs,
        "training": training | {"participation": cohort / given.clients},
    }
    return Simulation(parse_experiment(raw).runs()[0], data=data, lockstep=lockstep)


def samples(count: int) -> Pool:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 1, 28, 28), np.uint8)
    return Pool(images, rng.integers(0, 10, count), 10, scale=1 / 255)


def federation(pool: Pool, seed: int, given: argparse.Namespace) -> Federation:
    """Clients with samples of the pool that are drawn by the seed."""
    parts = np.split(np.random.default_rng(seed).permutation(len(pool.y)), given.clients)
    train, test = tuple(part[TEST:] for part in parts), tuple(part[:TEST] for part in parts)
    none = tuple(np.zeros(0, np.int64) for _ in parts)
    return lay_out(pool, Partition(train, none, test, None), torch.float32, torch.device(given.device))


if __name__ == "__main__":
    main()
