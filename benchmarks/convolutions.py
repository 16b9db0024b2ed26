"""Milliseconds per step of convolutional networks: FedAvg in the engine against a plain PyTorch training loop.

    .venv/bin/python benchmarks/convolutions.py [--models cnn resnet18] [--clients 20] [--steps 10] [--threads 1]
        [--repeats 5]

Random 3x32x32 images, batch 20, the same batches for both, rounds interleaved. Measures processor time, which other
programs on the machine affect less than wall-clock time. The plain loop loads the global model into one module, calls
``backward`` and ``SGD.step``, and averages, as a simulation of one client after the other would.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from engine.config.schema import parse_experiment
from engine.datasets import Pool
from engine.federation.batches import Cohort
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

_SAMPLES = 200  # of each client


def federation(clients: int) -> Federation:
    rng = np.random.default_rng(0)
    total = clients * _SAMPLES
    pool = Pool(rng.integers(0, 256, (total, 3, 32, 32), np.uint8), rng.integers(0, 10, total), 10, scale=1 / 255)
    parts = tuple(np.split(np.arange(total), clients))
    empty = tuple(np.zeros(0, np.int64) for _ in parts)
    return lay_out(pool, Partition(parts, empty, empty, None), torch.float32, torch.device("cpu"))


def simulation(model: str, steps: int, data: Federation) -> Simulation:
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": model,
        "device": "cpu",
        "algorithms": ["fedavg"],
        "training": {"local_steps": steps, "batch_size": 20, "lr": 0.005},
    }
    return Simulation(parse_experiment(raw).runs()[0], data=data)


def engine_round(run: Simulation, cohort: Cohort) -> None:
    run.algorithm.round(run.state, cohort, run.task)


def plain_round(run: Simulation, cohort: Cohort) -> None:
    module, start = run.task.model.make(), run.state.global_params
    mean = {n: torch.zeros_like(p) for n, p in start.items()}
    for client in range(cohort.size):
        module.load_state_dict(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=run.task.training.lr)
        for batch in cohort.plan.part(client, client + 1).batches(run.task.data.train):
            optimizer.zero_grad()
            F.cross_entropy(module(batch.x[0]), batch.y[0]).backward()
            optimizer.step()
        for n, p in module.named_parameters():
            mean[n].add_(p.detach(), alpha=float(cohort.weights[client]))


def seconds(train: Callable[[Simulation, Cohort], None], run: Simulation, round: int) -> float:
    started = time.process_time()
    train(run, run.task.cohort(round))
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["cnn"])
    for name, default in (("clients", 20), ("steps", 10), ("threads", 1), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data, steps = federation(options.clients), options.clients * options.steps
    print(f"N={options.clients}, {options.steps} steps, {options.threads} thread(s), torch {torch.__version__}")
    print(f"{'model':12}{'engine ms':>12}{'plain ms':>12}{'engine/plain':>14}")
    for model in options.models:
        run = simulation(model, options.steps, data)
        taken = [[seconds(train, run, r) for train in (engine_round, plain_round)] for r in range(options.repeats + 1)]
        engine, plain = (1000 * statistics.median(column) / steps for column in zip(*taken[1:], strict=True))
        print(f"{model:12}{engine:12.2f}{plain:12.2f}{engine / plain:13.2f}x", flush=True)


if __name__ == "__main__":
    main()
