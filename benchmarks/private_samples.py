"""Seconds per round of FedAvg with private samples: plain, norms without gradients, gradients of single samples.

    .venv/bin/python -m benchmarks.private_samples [--rounds 5] [--clients 20] [--threads 1] [--repeats 3]

N clients with MNIST-shaped random data of 300 to 1,500 samples, local_steps 10, batch 25, without evaluation. The same
data, model and steps; only the batches of private rounds are Poisson. Columns take turns; prints medians.
"""

import argparse
import statistics
import time

import torch

from benchmarks.backends import federation
from engine.config.schema import parse_experiment
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation

COLUMNS = {"plain": ("fused", None), "ghost norms": ("fused", 1.0), "single gradients": ("batched", 1.0)}


def seconds(model: str, backend: str, noise: float | None, rounds: int, data: Federation) -> float:
    """Median seconds of training and aggregation per round, after one warm-up round."""
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": model,
        "device": "cpu",
        "algorithms": [{"name": "fedavg"}],
        "backend": backend,
        "training": {"rounds": rounds + 1, "local_steps": 10, "batch_size": 25, "lr": 0.005},
    }
    if noise is not None:
        raw["privacy"] = {"unit": "sample", "noise": noise}
    run = Simulation(parse_experiment(raw).runs()[0], data=data)
    taken = []
    for number in range(1, rounds + 2):
        started = time.perf_counter()
        task, _ = run.prepare(number)
        run.state, _ = run.algorithm.round(run.state, task.cohort(number), task)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 5), ("clients", 20), ("threads", 1), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = federation(options.clients)
    print(f"N={options.clients}, {options.threads} thread(s), torch {torch.__version__}")
    print(f"{'model':6}" + "".join(f"{name + ' ms':>22}" for name in COLUMNS))
    for model in ("mlr", "dnn"):
        taken: dict[str, list[float]] = {name: [] for name in COLUMNS}
        for _ in range(options.repeats):
            for name, (backend, noise) in COLUMNS.items():
                taken[name].append(seconds(model, backend, noise, options.rounds, data))
        row = "".join(f"{1000 * statistics.median(values):22.1f}" for values in taken.values())
        print(f"{model:6}{row}", flush=True)


if __name__ == "__main__":
    main()
