"""Kills processes of a study at random moments: its choices and runs equal those of an undisturbed study.

    python -m benchmarks.study_kills [--kills 20] [--dispatchers 4] [--rounds 300] [--seed 0]

Queues a small study and kills (-9) the worker of a random run, or the dispatcher with all its workers. In the end the
choices, and every trial and final run with all that is stored of it, are compared with an undisturbed study. Exits with
1 if anything differs, and then leaves the folder for inspection.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from benchmarks.kills import Kills, deaths, is_hit, timing, worker_pid
from benchmarks.mixed_runs import COMMON, damage, differences
from benchmarks.processes import DISPATCHER, WORKER, Process, read
from engine.config.schema import parse_experiment
from engine.exchange.records import new_runs
from engine.worker import Dispatcher, LocalExecutor
from engine.worker.study_progress import progress_of
from engine.worker.work_queue import MAX_DEATHS
from storage import RunRecord, Store
from tests.worker.engines import start_engine

SLOTS = 2
PAUSE_S = 2.0  # between two kills at most, besides the time until a run can be killed
CHECK_S = 0.05
PATIENCE_S = 300.0
STUDY: dict[str, Any] = COMMON | {
    "name": "small study",
    "partition": {**COMMON["partition"], "val_fraction": 0.2, "test_fraction": 0.25},
    "model": "mlr",
    "algorithms": ["local_train", "fedavg", "ditto"],
    "splits": [0, 1],
    "seeds": [0, 1],
    "tune": {"trials": 4},
}
T = TypeVar("T")


class TooShort(Exception):
    """The study ended, or nothing could be killed any more."""


class Disturbed:
    """A study whose processes are killed."""

    def __init__(self, store: Store, experiment_id: int, random: Random) -> None:
        self.store, self.experiment_id, self.random = store, experiment_id, random
        self.kills, self.hit = Kills(store), Counter[str]()
        self.engine = start_engine(store, SLOTS)

    def disturb(self, kinds: Sequence[str]) -> None:
        """Half of the kills come after the choices, during the final runs."""
        for number, kind in enumerate(kinds):
            if number == len(kinds) // 2:
                self._wait(lambda: progress_of(self.store, self.experiment_id).finals)
            pause = time.monotonic() + self.random.uniform(0, PAUSE_S)
            self._wait(lambda until=pause: time.monotonic() >= until)
            run, worker = self.random.choice(self._wait(self._victims))
            hit = [one for one in self._running() if kind == DISPATCHER or is_hit(one, kind, worker)]
            self.kills.add(kind, hit)
            self.hit[(run.study or {})["role"]] += 1
            if kind == WORKER:
                worker.send(signal.SIGKILL)
            else:
                self.stop()
                self.engine = start_engine(self.store, SLOTS)

    def finish(self) -> None:
        self._wait(lambda: self._has_ended)

    def stop(self) -> None:
        self.engine.kill()
        self.engine.wait()

    def _victims(self) -> list[tuple[RunRecord, Process]]:
        """Runs, with their workers, that one more death does not end."""
        if self._has_ended:
            raise TooShort("the study ended before all kills: give it more --rounds")
        running = [run for run in self._running() if deaths(self.store, run.id) < MAX_DEATHS - 1]
        return [(run, worker) for run in running if (pid := worker_pid(run)) and (worker := read(pid))]

    @property
    def _has_ended(self) -> bool:
        finals = progress_of(self.store, self.experiment_id).finals
        return bool(finals) and all(run.is_finished for run in finals)

    def _running(self) -> list[RunRecord]:
        return self.store.queue.runs(statuses=("running",), with_partition=False)

    def _wait(self, answer: Callable[[], T]) -> T:
        until = time.monotonic() + PATIENCE_S
        while not (found := answer()):
            self.kills.poll()
            if time.monotonic() > until:
                raise TooShort(f"nothing to kill, or no end, for {PATIENCE_S:g} s")
            time.sleep(CHECK_S)
        return found


def queued(store: Store, rounds: int) -> int:
    config = parse_experiment(STUDY | {"training": {"rounds": rounds, "local_steps": 5}})
    return store.experiments.create(config.name, config.raw, new_runs(config)).id


def undisturbed(folder: Path, rounds: int) -> tuple[Store, int]:
    store = Store(f"sqlite:///{folder / 'reference.db'}")
    store.ensure_schema()
    experiment_id = queued(store, rounds)
    with Dispatcher.acquire(store, LocalExecutor(SLOTS)) as dispatcher:
        dispatcher.run(threading.Event(), until_idle=True)
    return store, experiment_id


def choices(store: Store, experiment_id: int) -> list[tuple[Any, ...]]:
    found = store.studies.choices(experiment_id)
    return sorted((c.entry, c.split, c.trial, c.value, c.error, c.considered, c.tied) for c in found)


def deviations(store: Store, experiment_id: int, reference: Store, undisturbed_id: int) -> list[str]:
    """What differs from the undisturbed study: choices, and runs by their position, bit for bit."""
    found = [] if choices(store, experiment_id) == choices(reference, undisturbed_id) else ["other choices"]
    own = {run.position: run for run in store.queue.runs(experiment_ids=[experiment_id])}
    twins = {run.position: run for run in reference.queue.runs(experiment_ids=[undisturbed_id])}
    found += [f"no run at position {place}" for place in twins.keys() ^ own.keys()]
    both = sorted(twins.keys() & own.keys())
    return found + [line for place in both for line in differences(store, own[place], reference, twins[place])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kills", 20), ("dispatchers", 4), ("rounds", 300), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    random, folder = Random(options.seed), Path(tempfile.mkdtemp(prefix="fedscape-study-kills-"))
    reference, undisturbed_id = undisturbed(folder, options.rounds)
    store = Store(f"sqlite:///{folder / 'disturbed.db'}")
    store.ensure_schema()
    kinds = [WORKER] * options.kills + [DISPATCHER] * options.dispatchers
    random.shuffle(kinds)
    started, problems = time.monotonic(), []
    disturbed = Disturbed(store, queued(store, options.rounds), random)
    try:
        disturbed.disturb(kinds)
        disturbed.finish()
    except TooShort as problem:
        problems.append(str(problem))
    finally:
        disturbed.stop()
    store.artifacts.sweep()  # as at the next start
    problems += [*damage(store), *deviations(store, disturbed.experiment_id, reference, undisturbed_id)]
    runs = store.queue.runs(with_partition=False)
    for kind in (WORKER, DISPATCHER):
        print(f"{kind}: {timing(disturbed.kills, kind)}")
    where = ", ".join(f"{count} during a {role}" for role, count in disturbed.hit.items())
    roles = Counter((run.study or {})["role"] for run in runs)
    print(f"kills: {where}; {roles['trial']} trials and {roles['final']} final runs, {len(choices(store, 1))} choices")
    print(f"runs were resumed {sum(max(0, run.epoch - 1) for run in runs)} times; {time.monotonic() - started:.0f} s")
    print(f"problems: {len(problems)}", *problems, sep="\n  ")
    if problems:
        print(f"the databases are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
