"""Kills processes at random moments and checks that nothing is lost: results equal those of undisturbed runs.

    python -m benchmarks.chaos [--kills 200] [--seed 0] [--dials] [--out FILE.json]

Starts the app with an empty database, keeps its queue filled with a mixed set of runs and analyses, or with runs that
have an attack, compression, privacy or slow clients (--dials), and kills (-9) a worker, the server that workers are
forked from, the dispatcher, the web server (the app then exits and is restarted), or all of them at once, as a power
cut does. It also stops workers inside a write transaction, which blocks every other writer until the dispatcher kills
them. Finally everything stored is compared, bit for bit, with an undisturbed reference. Exits with 1 if anything
differs, and then leaves the folder for inspection.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.kills import EVERYTHING, STOPPED, Kills, deaths, is_hit, kill_at_once, stop_in_write, timing, worker_pid
from benchmarks.mixed_runs import (
    DIALS,
    EXPERIMENTS,
    Experiments,
    compute_undisturbed,
    damage,
    differences,
    queue_all,
    request_analysis,
)
from benchmarks.processes import DISPATCHER, FORK_SERVER, WEB, WORKER, Process, parts_of_app, process_tree
from benchmarks.running import App, free_port
from engine.worker.work_queue import MAX_DEATHS
from storage import RunRecord, Store

WEIGHTS = {WORKER: 12, STOPPED: 3, FORK_SERVER: 1, DISPATCHER: 3, WEB: 2, EVERYTHING: 4}
SLOTS = 2
HUNG_S = 15  # after this a stopped worker is killed
WRITES_S = 5.0  # an active worker writes within this time
MIN_RUNS = 4  # unfinished runs and analyses, so that there is always something to hit
AWAITED_SHARE = 0.75  # of the kills; after the others, the next may come before the recovery
PAUSE_S = 1.5  # between two kills at most, in addition to the awaited recovery
CHECK_S, IDLE_S = 0.05, 0.5
PATIENCE_S = 300.0
EXIT_S = 20.0  # a fork server only notices that its dispatcher died once its imports are done


class Stuck(Exception):
    """Nothing progresses any more."""


class Chaos:
    """Kills the app's processes."""

    def __init__(self, app: App, store: Store, random: Random, experiments: Experiments) -> None:
        self.app, self.store, self.random, self.experiments = app, store, random, experiments
        self.kills = Kills(store)
        self.seen: set[Process] = set()
        self._analysed: set[int] = set()

    def disturb(self, num_kills: int) -> None:
        while len(self.kills.all) < num_kills:
            self._fill_queue()
            self._kill_something()
            if self.kills.all and self.random.random() < AWAITED_SHARE:
                self._wait(lambda: self.kills.all_recovered)
            pause = time.monotonic() + self.random.uniform(0, PAUSE_S)
            self._wait(lambda until=pause: time.monotonic() >= until)

    def finish(self) -> None:
        """Waits until everything has ended and stops the app; one more start cleans up."""
        progress, until = None, 0.0
        while self._is_under_way():
            self.kills.poll()
            if progress != (progress := self._progress()):
                until = time.monotonic() + PATIENCE_S
            if time.monotonic() > until:
                raise Stuck(f"nothing was stored for {PATIENCE_S:g} s, but work remains: {progress}")
            time.sleep(CHECK_S if self.kills.is_any_open else IDLE_S)
        self.app.stop()
        self.app.start()
        self._wait(lambda: {p.pid for p in self._parts()[DISPATCHER]} & {e.pid for e in self.store.engines.list()})
        self.app.stop()

    def survivors(self) -> list[str]:
        """Processes that outlived the app."""
        until = time.monotonic() + EXIT_S
        while time.monotonic() < until and any(process.is_alive for process in self.seen):
            time.sleep(CHECK_S)
        return [f"process {p.pid} outlived the app: {p.command}" for p in self.seen if p.is_alive]

    def _kill_something(self) -> None:
        parts, running = self._parts(), self.store.queue.runs(statuses=("running",), with_partition=False)
        parts[WORKER] = self._expendable(parts[WORKER], running)
        parts[STOPPED] = parts[WORKER]
        kinds = [kind for kind in WEIGHTS if kind == EVERYTHING or parts[kind]]
        (kind,) = self.random.choices(kinds, [WEIGHTS[kind] for kind in kinds])
        if kind == EVERYTHING:
            self.kills.add(kind, running)
            kill_at_once(self._tree)
        elif kind == STOPPED:
            if (victim := stop_in_write(self.store, parts[kind], WRITES_S)) is not None:
                running = self.store.queue.runs(statuses=("running",), with_partition=False)
                self.kills.add(kind, [run for run in running if is_hit(run, kind, victim)])
        else:
            victim = self.random.choice(parts[kind])
            self.kills.add(kind, [run for run in running if is_hit(run, kind, victim)])
            victim.send(signal.SIGKILL)
        if kind in (EVERYTHING, WEB):
            self._wait(lambda: not self.app.is_running)
            self.app.start()

    def _expendable(self, workers: list[Process], running: Sequence[RunRecord]) -> list[Process]:
        """Workers that may be killed without a run or analysis reaching its limit of attempts."""
        last_chance = {run.id for run in running if deaths(self.store, run.id) >= MAX_DEATHS - 1}
        if not last_chance and all(analysis.attempts < MAX_DEATHS for analysis in self.store.analyses.active()):
            return workers
        others = {worker_pid(run) for run in running if run.id not in last_chance}
        return [worker for worker in workers if worker.pid in others]

    def _fill_queue(self) -> None:
        counts = self.store.queue.counts()
        if counts.get("queued", 0) + counts.get("running", 0) < MIN_RUNS:
            queue_all(self.store, self.experiments)
        self._ask_for_analyses()

    def _ask_for_analyses(self) -> None:
        for run_id in set(self.store.queue.ids(["done"])) - self._analysed:
            self._analysed.add(run_id)
            request_analysis(self.store, self.store.queue.get(run_id), self.experiments)

    def _is_under_way(self) -> bool:
        counts = self.store.queue.counts()
        self._ask_for_analyses()
        return bool(counts.get("queued") or counts.get("running") or self.store.analyses.active())

    def _progress(self) -> tuple[Any, ...]:
        rounds = sum(run.round for run in self.store.queue.runs(with_partition=False))
        return self.store.queue.counts(), rounds, [(a.id, a.progress) for a in self.store.analyses.active()]

    def _wait(self, holds: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds():
            self.kills.poll()
            if time.monotonic() > until:
                raise Stuck(f"no recovery {PATIENCE_S:g} s after kill {len(self.kills.all)}: {self.kills.all[-1:]}")
            time.sleep(CHECK_S)

    def _parts(self) -> dict[str, list[Process]]:
        return parts_of_app(self._tree())

    def _tree(self) -> list[Process]:
        assert self.app.supervisor is not None
        found = process_tree(self.app.supervisor.pid)
        self.seen |= set(found)
        return found


def report(chaos: Chaos, seconds: float) -> dict[str, Any]:
    runs = chaos.store.queue.runs(with_partition=False)
    return {
        "kills": {kind: timing(chaos.kills, kind) for kind in WEIGHTS},
        "runs": len(runs),
        "rounds": sum(run.round for run in runs),
        "analyses": sum(len(chaos.store.analyses.list(run.id)) for run in runs),
        "resumed": sum(max(0, run.epoch - 1) for run in runs),
        "most_often": max(max(0, run.epoch - 1) for run in runs),
        "seconds": round(seconds, 1),
    }


def show(found: dict[str, Any]) -> None:
    print(f"{'killed':16} {'times':>6} {'hit runs':>9} | next round after: {'median s':>9} {'p90 s':>7} {'worst s':>8}")
    for kind, row in found["kills"].items():
        print(f"{kind:16} {row['times']:6} {row['hit']:9} |", end=f"{'':18}")
        print(" ".join("-".rjust(8) if s is None else f"{s:8.2f}" for s in (row["median"], row["p90"], row["worst"])))
    print(f"{found['runs']} runs of {found['rounds']} rounds and {found['analyses']} analyses finished;", end=" ")
    print(f"runs were resumed {found['resumed']} times, one of them {found['most_often']} times")
    print(f"{found['seconds']} s; problems: {len(found['problems'])}", *found["problems"], sep="\n  ")


def disturbed(folder: Path, num_kills: int, seed: int, experiments: Experiments) -> dict[str, Any]:
    """The whole experiment: what was killed, how fast it recovered, and what is wrong in the end."""
    started, url = time.monotonic(), f"sqlite:///{folder / 'disturbed.db'}"
    store = Store(url)
    with (folder / "app.log").open("wb") as log:
        app = App(free_port(), log, DATABASE_URL=url, FEDSCAPE_SLOTS=str(SLOTS), FEDSCAPE_HUNG_S=str(HUNG_S))
        chaos, problems = Chaos(app, store, Random(seed), experiments), []
        app.start()
        try:
            store.ensure_schema(wait_s=PATIENCE_S)
            chaos.disturb(num_kills)
            chaos.finish()
        except Stuck as stuck:
            problems.append(str(stuck))
        finally:
            app.stop()
    found = report(chaos, time.monotonic() - started)
    problems += [*chaos.survivors(), *damage(store), *deviations(store, folder, experiments)]
    return found | {"seed": seed, "problems": problems}


def deviations(store: Store, folder: Path, experiments: Experiments) -> list[str]:
    reference = Store(f"sqlite:///{folder / 'reference.db'}")
    twins = {run.digest: run for run in compute_undisturbed(reference, SLOTS, experiments)}
    return [line for run in store.queue.runs() for line in differences(store, run, reference, twins[run.digest])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dials", action="store_true", help="runs with settings that act on uploads")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedscape-chaos-"))
    experiments = DIALS if arguments.dials else EXPERIMENTS
    found = disturbed(folder, arguments.kills, arguments.seed, experiments)
    show(found)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2))
    if found["problems"]:
        print(f"the database and the log are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
