"""Seconds per round of FedAvg and pFedMe by backend, interleaved in one process.

    .venv/bin/python benchmarks/backends.py [--rounds 20] [--clients 40] [--threads 1] [--repeats 5]

N clients with MNIST-shaped random data of 300 to 1,500 samples (as in the main MNIST experiment), local_steps 10, batch
20, inner_steps 5, without evaluation. Prints the median over the repeats and the speedup over the loop.
"""

import argparse
import statistics
import time

import numpy as np
import torch

from engine.config.schema import parse_experiment
from engine.core.devices import set_threads
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

BACKENDS = ("fused", "batched", "loop")


def federation(clients: int) -> Federation:
    rng = np.random.default_rng(0)
    sizes = rng.integers(300, 1500, clients)
    total = int(sizes.sum())
    pool = Pool(rng.integers(0, 256, (total, 1, 28, 28), np.uint8), rng.integers(0, 10, total), 10, scale=1 / 255)
    parts = tuple(np.split(np.arange(total), np.cumsum(sizes)[:-1]))
    train, test = tuple(p[: len(p) * 3 // 4] for p in parts), tuple(p[len(p) * 3 // 4 :] for p in parts)
    empty = tuple(np.zeros(0, np.int64) for _ in parts)
    return lay_out(pool, Partition(train, empty, test, None), torch.float32, torch.device("cpu"))


def seconds(model: str, algorithm: str, backend: str, rounds: int, data: Federation) -> float:
    """Median seconds of training and aggregation per round, after one warm-up round."""
    entry = {"name": algorithm} | ({"lam": 12, "inner_steps": 5, "personal_lr": 0.005} if algorithm == "pfedme" else {})
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": model,
        "device": "cpu",
        "algorithms": [entry],
        "backend": backend,
        "training": {"rounds": rounds + 1, "local_steps": 10, "batch_size": 20, "lr": 0.005},
    }
    run = Simulation(parse_experiment(raw).runs()[0], data=data)
    taken = []
    for number in range(1, rounds + 2):
        cohort_started = time.perf_counter()
        cohort = run.task.cohort(number)
        run.state, _ = run.algorithm.round(run.state, cohort, run.task)
        taken.append(time.perf_counter() - cohort_started)
    return statistics.median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 10), ("clients", 40), ("threads", 1), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    set_threads(options.threads)
    data = federation(options.clients)
    repeats = f"median of {options.repeats} x {options.rounds} rounds"
    print(f"N={options.clients}, {options.threads} thread(s), torch {torch.__version__}, {repeats}")
    print(f"{'model':6}{'method':9}" + "".join(f"{b + ' ms':>12}" for b in BACKENDS) + "  batched/loop  fused/loop")
    for model in ("mlr", "dnn"):
        for algorithm in ("fedavg", "pfedme"):
            taken: dict[str, list[float]] = {b: [] for b in BACKENDS}
            for _ in range(options.repeats):
                for backend in BACKENDS:
                    taken[backend].append(seconds(model, algorithm, backend, options.rounds, data))
            middle = {b: statistics.median(t) for b, t in taken.items()}
            ratios = [
                statistics.median(x / y for x, y in zip(taken["loop"], taken[b], strict=True))
                for b in ("batched", "fused")
            ]
            row = "".join(f"{1000 * middle[b]:12.1f}" for b in BACKENDS)
            print(f"{model:6}{algorithm:9}{row}{ratios[0]:13.2f}x{ratios[1]:11.2f}x", flush=True)


if __name__ == "__main__":
    main()
