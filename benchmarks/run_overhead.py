"""The overhead of a run: 300 tiny runs on warm workers, compared with computing them directly.

python -m benchmarks.run_overhead [--runs 300] [--slots 2]
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import torch

from engine.config.schema import RunConfig, parse_experiment
from engine.exchange.records import new_run
from engine.simulation.simulate import Simulation
from engine.worker import Dispatcher, LocalExecutor
from storage import Store

WARM_UP = 10


def configs(num_runs: int) -> tuple[RunConfig, ...]:
    return parse_experiment(
        {
            "name": "overhead",
            "dataset": "digits",
            "model": "mlr",
            "algorithms": ["fedavg"],
            "partition": {"name": "classes_per_client", "num_clients": 10, "classes_per_client": 3},
            "training": {"rounds": 5, "local_steps": 5},
            "seeds": list(range(num_runs)),
        }
    ).runs()


def seconds_computed_directly(runs: tuple[RunConfig, ...]) -> float:
    for run in runs[:WARM_UP]:
        list(Simulation(run).rounds())
    started = time.perf_counter()
    for run in runs:
        list(Simulation(run).rounds())
    return time.perf_counter() - started


def seconds_through_the_queue(store: Store, runs: tuple[RunConfig, ...], slots: int) -> float:
    with Dispatcher.acquire(store, LocalExecutor(slots, threads=1)) as dispatcher:
        for some in (runs[:WARM_UP], runs):
            store.experiments.create("overhead", {}, [new_run(run) for run in some])
            started = time.perf_counter()
            dispatcher.run(threading.Event(), until_idle=True)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--slots", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = configs(arguments.runs)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{Path(folder) / 'overhead.db'}")
        store.ensure_schema()
        queued = seconds_through_the_queue(store, runs, arguments.slots)
        store.close()
    direct = seconds_computed_directly(runs)
    print(f"{arguments.runs} runs on {arguments.slots} slots: {queued:.1f} s; computed directly: {direct:.1f} s")
    print(f"a run: {1e3 * direct / len(runs):.1f} ms of computing,", end=" ")
    print(f"{1e3 * (queued - direct / arguments.slots) / len(runs):.1f} ms more of wall-clock time through the queue")


if __name__ == "__main__":
    main()
