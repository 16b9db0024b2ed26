"""How fast rounds reach the database while pages read it; each run has a writer process with its own recorder.

    python -m benchmarks.recorder [--seconds 20] [--writers 8] [--readers 4] [--rate 50] [--postgres]

A round has the size that a method with a global model stores: 16 numbers and 5 arrays of 100 clients. A commit holds
the rounds of half a second. A reader sends a page's queries four times a second. ``--postgres`` also measures
PostgreSQL: in a new database on the server of TEST_POSTGRES_URL, or on a temporary server with default durability.
``--synchronous`` compares SQLite's settings, in turns.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import numpy as np

from engine.core.results import RoundResult
from engine.core.vocabulary import MODEL_KINDS
from engine.worker import recorder
from storage import NewRun, Store, Transient, sqlite
from tests.support import postgres

CLIENTS = 100
CHECK_S = 0.25
SUMMARIES = ("mean", "weighted_mean", "lowest5", "top5", "std", "cv")
ARRAYS = ("personalized.accuracy", "personalized.loss", "global.accuracy", "global.loss", "train_loss")
CURVES = ["personalized.mean", "personalized.lowest5"]

T = TypeVar("T")


@dataclass
class Tally:
    """The measurements of one process."""

    milliseconds: list[float] = field(default_factory=list)
    refused: int = 0
    rounds: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0

    def timed(self, call: Callable[[], T]) -> T:
        started = time.perf_counter()
        try:
            return call()
        except Transient:
            self.refused += 1
            raise
        finally:
            self.milliseconds.append(1e3 * (time.perf_counter() - started))


@dataclass(frozen=True)
class Load:
    """The load on a database."""

    seconds: float
    writers: int
    readers: int
    rate: float  # rounds per second and writer
    synchronous: str = sqlite.SYNCHRONOUS
    write_s: float = recorder.WRITE_S  # between the commits of a writer

    @property
    def rounds(self) -> int:
        return round(self.seconds * self.rate)


def write(url: str, artifacts: Path, load: Load, start: Barrier) -> Tally:
    """Writes one run at the given rate, as far as the database keeps up."""
    sqlite.SYNCHRONOUS, recorder.WRITE_S = load.synchronous, load.write_s
    store, tally = Store(url, artifacts), Tally()
    run = store.queue.claim()
    assert run is not None
    writer = recorder.Recorder(store, run.id, run.epoch)
    append = store.metrics.append
    store.metrics.append = lambda *a, **k: tally.timed(lambda: append(*a, **k))  # type: ignore[method-assign]
    random = np.random.default_rng(run.seed)
    start.wait()
    began, processor = time.perf_counter(), time.process_time()
    for number in range(load.rounds):
        time.sleep(max(0.0, began + number / load.rate - time.perf_counter()))
        writer.add(a_round(number, random), {})
        if time.perf_counter() - began > load.seconds:
            break
    writer.append()
    tally.rounds, tally.seconds = writer.round + 1, time.perf_counter() - began
    tally.processor_s = time.process_time() - processor
    store.close()
    return tally


def read(url: str, artifacts: Path, load: Load, start: Barrier) -> Tally:
    store, tally = Store(url, artifacts), Tally()
    ids = [run.id for run in store.queue.runs()]
    start.wait()
    began = time.perf_counter()
    while time.perf_counter() - began < load.seconds:
        try:
            tally.timed(lambda: page(store, ids))
        except Transient:
            continue
        time.sleep(CHECK_S)
    store.close()
    return tally


def page(store: Store, ids: list[int]) -> None:
    """The queries of a page: status strip, list of runs, all curves, and the last rounds of one run."""
    store.queue.counts()
    store.engines.list()
    runs = store.queue.runs(with_partition=False)
    store.metrics.scalars(ids, CURVES)
    store.metrics.arrays_at(ids, "personalized.accuracy")
    store.metrics.rounds(runs[0].id, after=max(-1, runs[0].round - 50))


def a_round(number: int, random: np.random.Generator) -> RoundResult:
    scalars = {f"{model}.{name}": random.random() for model in MODEL_KINDS for name in SUMMARIES}
    scalars |= {"bytes_up": 1e6, "bytes_down": 1e6, "gradient_evaluations": 1e3, "seconds": 0.02}
    arrays = {name: random.random(CLIENTS, dtype=np.float32) for name in ARRAYS}
    return RoundResult(number, np.arange(CLIENTS, dtype=np.int32), scalars, arrays)


def measure(url: str, artifacts: Path, load: Load) -> tuple[list[Tally], list[Tally]]:
    """The tallies of the writers and of the readers."""
    store = Store(url, artifacts)
    store.ensure_schema()
    runs = [NewRun("fedavg", "FedAvg", i, {}, {}, load.rounds, f"digest-{i}") for i in range(load.writers)]
    store.experiments.create("throughput", {}, runs)
    store.close()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["engine.worker.recorder", "tests.support.postgres"])
    with context.Manager() as manager, context.Pool(load.writers + load.readers) as pool:
        common = (url, artifacts, load, manager.Barrier(load.writers + load.readers))
        writing = [pool.apply_async(write, common) for _ in range(load.writers)]
        reading = [pool.apply_async(read, common) for _ in range(load.readers)]
        return [result.get() for result in writing], [result.get() for result in reading]


def report(name: str, load: Load, writers: list[Tally], readers: list[Tally]) -> None:
    reached = sum(tally.rounds for tally in writers) / max(tally.seconds for tally in writers)
    print(f"{name}: {reached:.0f} of {load.writers * load.rate:.0f} rounds a second stored,", end=" ")
    print(f"{sum(tally.refused for tally in writers + readers)} times refused")
    for what, tallies in (("commit", writers), ("read", readers)):
        times = np.concatenate([tally.milliseconds for tally in tallies])
        median, p99 = np.percentile(times, [50, 99])
        print(f"  {what}: p50 {median:.1f} ms, p99 {p99:.1f} ms, max {times.max():.1f} ms ({len(times)} of them)")
    print(f"  writers: {1e3 * sum(t.processor_s for t in writers) / sum(t.rounds for t in writers):.2f} ms", end=" ")
    print("of processor time per round")


@contextmanager
def postgres_database() -> Iterator[str]:
    if given := postgres.given_url():
        with postgres.database(given, f"fedscape_benchmark_{os.getpid()}") as url:
            yield url
    else:
        with postgres.running(settings={}) as server, postgres.database(server.url(), "fedscape") as url:
            yield url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=50, help="rounds per second of each writer")
    parser.add_argument("--write-s", type=float, default=recorder.WRITE_S, help="0: a commit for each round")
    parser.add_argument("--postgres", action="store_true", help="also measure PostgreSQL")
    parser.add_argument("--synchronous", nargs="+", choices=["OFF", "NORMAL", "FULL"], default=[sqlite.SYNCHRONOUS])
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    load = Load(arguments.seconds, arguments.writers, arguments.readers, arguments.rate, write_s=arguments.write_s)
    for synchronous in arguments.repeats * arguments.synchronous:
        with tempfile.TemporaryDirectory() as folder:
            tallies = measure(f"sqlite:///{folder}/fedscape.db", Path(folder), replace(load, synchronous=synchronous))
        report(f"SQLite, synchronous={synchronous}", load, *tallies)
    if arguments.postgres:
        with tempfile.TemporaryDirectory() as folder, postgres_database() as url:
            report("PostgreSQL", load, *measure(url, Path(folder), load))


if __name__ == "__main__":
    main()
