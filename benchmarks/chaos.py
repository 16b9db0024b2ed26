"""Kill -9 at random moments, and see that nothing is lost: every run ends with the numbers of one left in peace.

    python -m benchmarks.chaos [--kills 200] [--seed 0] [--out FILE.json]

Starts the app as a user does, on a database of its own, keeps its queue filled with a mixed set of runs and analyses,
and kills a worker, the fork server that workers come from, the dispatcher, the web server (the app then ends, and is
started again), or all of them at once, as a power cut does; or it stops a worker inside a write transaction, so that
nobody else can write until its dispatcher has killed it. In the end all that is stored is compared, bit for bit,
with the same computed in peace. Exits with 1 if anything is wrong, and leaves the folder there to be looked at.
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
from benchmarks.mixed_runs import compute_in_peace, differences, queue_all, request_analysis, unsound
from benchmarks.processes import DISPATCHER, FORK_SERVER, WEB, WORKER, Process, below, parts_of_app
from benchmarks.running import App, free_port
from engine.worker.work_queue import MAX_DEATHS
from storage import RunRecord, Store

WEIGHTS = {WORKER: 12, STOPPED: 3, FORK_SERVER: 1, DISPATCHER: 3, WEB: 2, EVERYTHING: 4}
SLOTS = 2
HUNG_S = 15  # after which a stopped worker is killed
WRITES_S = 5.0  # within which a worker writes, if one computes at all
LEAST_RUNS = 4  # that have not ended, so that there is always something to hit
SHARE_AWAITED = 0.75  # of the kills; the others may hit what is about to recover
PAUSE_S = 1.5  # between two kills at most, beside what is awaited
CHECK_S, IDLE_S = 0.05, 0.5
PATIENCE_S = 300.0
LEAVE_S = 20.0  # a fork server sees that its dispatcher is gone when it has imported everything


class Stuck(Exception):
    """Nothing gets on any more."""


class Chaos:
    """The app, and somebody who kills its processes."""

    def __init__(self, app: App, store: Store, random: Random) -> None:
        self.app, self.store, self.random = app, store, random
        self.kills = Kills(store)
        self.seen: set[Process] = set()
        self._analysed: set[int] = set()

    def disturb(self, num_kills: int) -> None:
        while len(self.kills.all) < num_kills:
            self._fill_queue()
            self._kill_something()
            if self.kills.all and self.random.random() < SHARE_AWAITED:
                self._wait(lambda: self.kills.are_over)
            pause = time.monotonic() + self.random.uniform(0, PAUSE_S)
            self._wait(lambda until=pause: time.monotonic() >= until)

    def finish(self) -> None:
        """Leaves the app in peace until everything has ended, then stops it; a last start clears up."""
        stand, until = None, 0.0
        while self._is_under_way():
            self.kills.look()
            if stand != (stand := self._stand()):
                until = time.monotonic() + PATIENCE_S
            if time.monotonic() > until:
                raise Stuck(f"nothing has been stored for {PATIENCE_S:g} s, though {stand} is not the end")
            time.sleep(CHECK_S if self.kills.is_any_open else IDLE_S)
        self.app.stop()
        self.app.start()
        self._wait(lambda: {p.pid for p in self._parts()[DISPATCHER]} & {e.pid for e in self.store.engines.list()})
        self.app.stop()

    def left_over(self) -> list[str]:
        """Processes of the app that have not ended with it."""
        until = time.monotonic() + LEAVE_S
        while time.monotonic() < until and any(process.is_alive for process in self.seen):
            time.sleep(CHECK_S)
        return [f"process {p.pid} has not ended: {p.command}" for p in self.seen if p.is_alive]

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
        """All of them; but what would be given up at its worker's next death is not our victim."""
        last_chance = {run.id for run in running if deaths(self.store, run.id) >= MAX_DEATHS - 1}
        if not last_chance and all(analysis.attempts < MAX_DEATHS for analysis in self.store.analyses.active()):
            return workers
        others = {worker_pid(run) for run in running if run.id not in last_chance}
        return [worker for worker in workers if worker.pid in others]

    def _fill_queue(self) -> None:
        counts = self.store.queue.counts()
        if counts.get("queued", 0) + counts.get("running", 0) < LEAST_RUNS:
            queue_all(self.store)
        self._ask_for_analyses()

    def _ask_for_analyses(self) -> None:
        for run_id in set(self.store.queue.ids(["done"])) - self._analysed:
            self._analysed.add(run_id)
            request_analysis(self.store, self.store.queue.get(run_id))

    def _is_under_way(self) -> bool:
        counts = self.store.queue.counts()
        self._ask_for_analyses()
        return bool(counts.get("queued") or counts.get("running") or self.store.analyses.active())

    def _stand(self) -> tuple[Any, ...]:
        rounds = sum(run.round for run in self.store.queue.runs(with_partition=False))
        return self.store.queue.counts(), rounds, [(a.id, a.progress) for a in self.store.analyses.active()]

    def _wait(self, holds: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds():
            self.kills.look()
            if time.monotonic() > until:
                raise Stuck(f"waited {PATIENCE_S:g} s in vain after kill {len(self.kills.all)}: {self.kills.all[-1:]}")
            time.sleep(CHECK_S)

    def _parts(self) -> dict[str, list[Process]]:
        return parts_of_app(self._tree())

    def _tree(self) -> list[Process]:
        assert self.app.supervisor is not None
        found = below(self.app.supervisor.pid)
        self.seen |= set(found)
        return found


def report(chaos: Chaos, seconds: float) -> dict[str, Any]:
    runs = chaos.store.queue.runs(with_partition=False)
    return {
        "kills": {kind: timing(chaos.kills, kind) for kind in WEIGHTS},
        "runs": len(runs),
        "rounds": sum(run.round for run in runs),
        "analyses": sum(len(chaos.store.analyses.list(run.id)) for run in runs),
        "taken_up_again": sum(max(0, run.epoch - 1) for run in runs),
        "most_often": max(max(0, run.epoch - 1) for run in runs),
        "seconds": round(seconds, 1),
    }


def show(found: dict[str, Any]) -> None:
    print(f"{'killed':16} {'times':>6} {'hit runs':>9} | next round after: {'median s':>9} {'p90 s':>7} {'worst s':>8}")
    for kind, row in found["kills"].items():
        print(f"{kind:16} {row['times']:6} {row['hit']:9} |", end=f"{'':18}")
        print(" ".join("-".rjust(8) if s is None else f"{s:8.2f}" for s in (row["median"], row["p90"], row["worst"])))
    print(f"{found['runs']} runs of {found['rounds']} rounds and {found['analyses']} analyses ended;", end=" ")
    print(f"runs were taken up again {found['taken_up_again']} times, one of them {found['most_often']} times")
    print(f"{found['seconds']} s; {len(found['wrong'])} things are wrong", *found["wrong"], sep="\n  ")


def disturbed(folder: Path, num_kills: int, seed: int) -> dict[str, Any]:
    """The whole experiment: what was killed, how it went on, and what is wrong in the end."""
    started, url = time.monotonic(), f"sqlite:///{folder / 'disturbed.db'}"
    store = Store(url)
    with (folder / "app.log").open("wb") as log:
        app = App(free_port(), log, DATABASE_URL=url, FEDSCAPE_SLOTS=str(SLOTS), FEDSCAPE_HUNG_S=str(HUNG_S))
        chaos, wrong = Chaos(app, store, Random(seed)), []
        app.start()
        try:
            store.ensure_schema(wait_s=PATIENCE_S)
            chaos.disturb(num_kills)
            chaos.finish()
        except Stuck as stuck:
            wrong.append(str(stuck))
        finally:
            app.stop()
    found = report(chaos, time.monotonic() - started)
    return found | {"seed": seed, "wrong": [*wrong, *chaos.left_over(), *unsound(store), *unlike_peace(store, folder)]}


def unlike_peace(store: Store, folder: Path) -> list[str]:
    peaceful = Store(f"sqlite:///{folder / 'peaceful.db'}")
    twins = {run.digest: run for run in compute_in_peace(peaceful, SLOTS)}
    return [line for run in store.queue.runs() for line in differences(store, run, peaceful, twins[run.digest])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedscape-chaos-"))
    found = disturbed(folder, arguments.kills, arguments.seed)
    show(found)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2))
    if found["wrong"]:
        print(f"look at {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
