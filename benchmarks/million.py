"""Many clients: seconds a round and resident memory over time, and whether a killed run resumes to the same rows.

python -m benchmarks.million [--case mlr|dnn] [--clients N] [--cohort S] [--rounds T] [--methods fedavg ditto]
python -m benchmarks.million --kill [...]       a run whose worker is killed at half of the rounds, and one undisturbed

mlr: 1,000,000 clients, MLR, cohort 1,000, 20 rounds, FedAvg and Ditto
dnn: 100,000 clients with a DNN each, cohort 100, 100 rounds, Ditto

Needs MNIST in DATA_DIR. Every client draws 20 samples of it, which others may have too.
"""

import argparse
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.processes import WORKER, Process, parts_of_app, process_tree
from engine.config.schema import RunConfig, parse_experiment
from engine.core.devices import set_threads
from engine.exchange.records import new_run
from engine.simulation.simulate import Simulation
from engine.worker import Dispatcher, LocalExecutor
from storage import RoundRecord, Store

CASES: dict[str, dict[str, Any]] = {
    "mlr": {"clients": 1_000_000, "cohort": 1000, "rounds": 20, "methods": ["fedavg", "ditto"]},
    "dnn": {"clients": 100_000, "cohort": 100, "rounds": 100, "methods": ["ditto"]},
}
EVALUATED = 2000
GIB = 2**30


def runs(arguments: argparse.Namespace) -> tuple[RunConfig, ...]:
    return parse_experiment(
        {
            "name": "many clients",
            "dataset": "mnist",
            "partition": {"name": "resampled", "num_clients": arguments.clients, "samples_per_client": 20},
            "model": arguments.case,
            "training": {
                "rounds": arguments.rounds,
                "participation": arguments.cohort / arguments.clients,
                "local_steps": 10,
                "batch_size": 10,
            },
            "algorithms": arguments.methods,
            "evaluation": {"clients": min(EVALUATED, arguments.clients)},
            "checkpoint_s": arguments.checkpoint_s,
        }
    ).runs()


def resident(pid: int | str = "self") -> dict[str, float]:
    """GiB of a process: all resident memory, its part that is pages of files, and the highest so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 / GIB for line in lines if line.endswith(" kB")}
    return {"resident": sizes["VmRSS"], "of files": sizes["RssFile"], "highest": sizes["VmHWM"]}


def memory_text(memory: dict[str, float]) -> str:
    return ", ".join(f"{name} {size:.2f}" for name, size in memory.items()) + " GiB"


def measure(run: RunConfig) -> None:
    """Computes a run in this process and prints what each tenth of it took."""
    started = time.perf_counter()
    simulation = Simulation(run)
    print(f"{run.label}: set up in {time.perf_counter() - started:.1f} s; {memory_text(resident())}")
    every, seconds, trained = max(1, run.training.rounds // 10), [], []
    at = time.perf_counter()
    for result in simulation.rounds():
        now = time.perf_counter()
        if result.round:
            seconds.append(now - at)
            trained.append(result.scalars["seconds"])
        if result.round % every == 0:
            memory, state = resident(), simulation.task.memory
            rows = f"state {state.used / GIB:.2f} in memory, {state.filed / GIB:.2f} in the file"
            print(f"  round {result.round:3}: {now - at:.2f} s; {rows}; {memory_text(memory)}", flush=True)
        at = time.perf_counter()
    print(
        f"{run.label}: {np.median(seconds):.2f} s a round (median; worst {max(seconds):.2f}), of which training "
        f"{np.median(trained):.2f}; {memory_text(resident())}"
    )


def compute(store: Store, run: RunConfig, kill_at: int | None) -> list[RoundRecord]:
    """The rounds of a run in a worker, which is killed with SIGKILL once it has stored round ``kill_at``."""
    experiment = store.experiments.create("many clients", {}, [new_run(run)])
    (run_id,) = (r.id for r in store.queue.runs(experiment_ids=[experiment.id]))
    peak, killed = 0.0, kill_at is None
    stop = threading.Event()
    with Dispatcher.acquire(store, LocalExecutor(1, threads=torch.get_num_threads())) as dispatcher:
        loop = threading.Thread(target=dispatcher.run, args=(stop,), kwargs={"until_idle": True})
        loop.start()
        while loop.is_alive():
            loop.join(0.2)
            for worker in workers():
                try:
                    peak = max(peak, resident(worker.pid)["highest"])
                    (now,) = store.queue.runs(run_ids=[run_id], with_partition=False)
                    if not killed and kill_at is not None and now.round >= kill_at:
                        os.kill(worker.pid, signal.SIGKILL)
                        killed = True
                        print(f"killed the worker at round {now.round}", flush=True)
                except (FileNotFoundError, ProcessLookupError, KeyError):
                    continue
    (done,) = store.queue.runs(run_ids=[run_id], with_partition=False)
    print(f"{run.label}: {done.status} after {done.epoch} claims, worker at most {peak:.2f} GiB resident", flush=True)
    return store.metrics.rounds(run_id)


def workers() -> list[Process]:
    return parts_of_app(process_tree(os.getpid()))[WORKER]


def compare(run: RunConfig) -> None:
    """Prints whether the rows of a killed and resumed run equal those of an undisturbed one."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, kill_at in (("undisturbed", None), ("killed", run.training.rounds // 2)):
            store = Store(f"sqlite:///{Path(folder) / name}.db")
            store.ensure_schema()
            found.append(compute(store, run, kill_at))
            store.close()
    print(f"{run.label}: {len(found[0])} rounds, all values equal bit for bit: {are_equal(*found)}", flush=True)


def are_equal(first: Sequence[RoundRecord], second: Sequence[RoundRecord]) -> bool:
    """All numbers but the seconds."""
    return len(first) == len(second) and all(
        a.cohort.tolist() == b.cohort.tolist()
        and repr({n: v for n, v in a.scalars.items() if n != "seconds"})
        == repr({n: v for n, v in b.scalars.items() if n != "seconds"})
        and a.arrays.keys() == b.arrays.keys()
        and all(values.tobytes() == b.arrays[n].tobytes() for n, values in a.arrays.items())
        for a, b in zip(first, second, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="mlr")
    parser.add_argument("--clients", type=int)
    parser.add_argument("--cohort", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--checkpoint-s", type=float, default=10.0)
    parser.add_argument("--limit-gib", type=float, help="address space of this process, so that it cannot swap")
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    for name, value in CASES[arguments.case].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.limit_gib:
        resource.setrlimit(resource.RLIMIT_AS, (int(arguments.limit_gib * GIB),) * 2)
    set_threads(arguments.threads)
    for run in runs(arguments):
        compare(run) if arguments.kill else measure(run)


if __name__ == "__main__":
    main()
