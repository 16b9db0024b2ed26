"""Measures a Ray cluster of three nodes with PostgreSQL, tokens on, and checks that faults change no result.

    .ci/ray -m benchmarks.cluster kills --runs 60 --kills 60 --seed 0
    .ci/ray -m benchmarks.cluster dead-node --repeats 10
    .ci/ray -m benchmarks.cluster network --seconds 30
    .ci/ray -m benchmarks.cluster throughput --pairs 5 --runs 6 --rounds 6000

kills       kills workers, all Ray processes of a machine, machines, the head and the dispatcher at random, and compares
            every run with the same run on this machine without a cluster, bit for bit
dead-node   seconds until a run of a machine that lost its power stores its next round on another one
network     disconnects a machine that computes from the network, and compares its run with an undisturbed one
throughput  the same runs with local workers and on Ray, in turn, on two slots: wall-clock and processor time

Each machine has Linux namespaces of its own; all share the cores and the database. Results are printed as they arrive.
Exits with 1 if there were problems. For measurements nothing else should run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np

from benchmarks.kills import Kills, deaths, timing
from benchmarks.mixed_runs import EXPERIMENTS
from benchmarks.processes import process_tree
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from engine.worker import Dispatcher, LocalExecutor
from engine.worker.recorder import CHECKPOINT
from engine.worker.work_queue import MAX_DEATHS
from storage import RunRecord, Store
from tests.support import postgres, ray_nodes
from tests.support.endless import ENDLESS, differences_of_endless
from tests.support.machines import Program
from tests.support.ray_nodes import HEAD, PART, ROOT, RayNodes
from tests.worker.samples import queue, rows

SERVE = "import sys; from engine.worker import serve; serve(sys.argv[1])"
DISPATCHER = "dispatcher"
WORKER, RAY, MACHINE = "worker", "ray processes", "machine"
WEIGHTS = {WORKER: 5, RAY: 3, MACHINE: 3, DISPATCHER: 3, "head": 1}
CPUS = {HEAD: 1, 2: 1, 3: 1}
TWO_SLOTS = {HEAD: 0, 2: 1, 3: 1}
LIMIT_S = 400.0  # of every wait
CHECK_S = 0.1

T = TypeVar("T")


class Stuck(Exception):
    """A wait timed out."""


def wait(what: str, holds: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Waits until ``holds`` returns something true, and returns it. Raises Stuck."""
    until = time.monotonic() + limit_s
    while not (found := holds()):
        if time.monotonic() > until:
            raise Stuck(f"after {limit_s:g} s still no {what}")
        time.sleep(CHECK_S)
    return found


def say(*words: object) -> None:
    print(*words, flush=True)


class Bench:
    """A cluster, a database, and a dispatcher on each of some nodes, of which one computes."""

    def __init__(self, nodes: RayNodes, store: Store, folder: Path) -> None:
        self.nodes, self.store, self.folder = nodes, store, folder
        self.dispatchers: dict[int, Program] = {}

    def dispatch(self, number: int) -> None:
        settings = {
            "FEDSCAPE_EXECUTOR": "ray",
            "RAY_ADDRESS": self.nodes.address,
            "ARTIFACTS_DIR": str(self.store.artifacts.folder),
            "DATA_DIR": str(self.folder / "data"),
            "FEDSCAPE_NICE": "0",
        }
        command, environment = [sys.executable, "-c", SERVE, self.store.url], self.nodes.environment | settings
        with (self.folder / f"dispatcher{number}.log").open("ab") as log:
            self.dispatchers[number] = self.nodes.machines[number].start(
                command, environment, DISPATCHER, cwd=self.folder, stdout=log, stderr=log
            )

    def active(self) -> int:
        """The node whose dispatcher computes."""
        pids = {machine.pid for machine in self.store.engines.list()}
        found = [n for n in self.dispatchers if pids & self.nodes.machines[n].processes(DISPATCHER).keys()]
        return found[0] if found else 0

    def number_of(self, run: RunRecord) -> int:
        """The node that computes a run, 0 if none does."""
        hosts = {machine.host: number for number, machine in self.nodes.machines.items()}
        return hosts.get((run.worker or "").partition(":")[0], 0)

    def running(self) -> list[RunRecord]:
        """The nodes with a worker."""
        found = self.store.queue.runs(statuses=["running"], with_partition=False)
        return [run for run in found if self.number_of(run)]

    def computing(self) -> list[RunRecord]:
        """The running runs that have a checkpoint."""
        return [run for run in self.running() if self.store.artifacts.latest(run.id, CHECKPOINT)]

    def one_elsewhere(self) -> tuple[RunRecord, int]:
        """Waits until a run computes on a node other than the head; returns both."""
        elsewhere = wait("run on another node", lambda: [r for r in self.computing() if self.number_of(r) != HEAD])
        return elsewhere[0], self.number_of(elsewhere[0])

    def has_resumed(self, lost: RunRecord) -> Callable[[], bool]:
        """Returns a function that says whether a run has stored a new round in a later claim. Call it often."""
        first: dict[int, int] = {}  # claim -> the round when it was first seen

        def has_resumed() -> bool:
            run = self.store.queue.get(lost.id)
            return run.round > first.setdefault(run.epoch, run.round) and run.epoch > lost.epoch

        return has_resumed

    def next_round(self, lost: RunRecord) -> float:
        """Waits until a run has stored a round in a later claim. Returns the seconds."""
        started = time.monotonic()
        wait(f"round of run {lost.id} in a later claim than {lost.epoch}", self.has_resumed(lost))
        return time.monotonic() - started

    def close(self) -> None:
        for dispatcher in self.dispatchers.values():
            dispatcher.kill()


@contextmanager
def bench(cpus: dict[int, int], dispatchers: Sequence[int], **settings: str) -> Iterator[Bench]:
    """``settings``: environment variables of all nodes."""
    folder = Path(tempfile.mkdtemp(prefix="fedscape-cluster-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = stack.enter_context(postgres.running())
        url = stack.enter_context(postgres.database(server.url(), "fedscape"))
        os.environ["ARTIFACTS_DIR"] = str(folder / "artifacts")
        store = Store(url)
        stack.callback(store.close)
        nodes = stack.enter_context(ray_nodes.running(cpus, **settings))
        found = Bench(nodes, store, folder)
        stack.callback(found.close)
        for number in dispatchers:
            found.dispatch(number)
        say(f"{len(cpus)} nodes with {sum(cpus.values())} CPUs; load {os.getloadavg()[0]:.1f}")
        yield found


def queue_mixed(store: Store, number: int, scale: float) -> list[RunRecord]:
    """Queues ``number`` runs of all kinds, each with ``scale`` times the usual rounds."""
    new = []
    for seed in range(number):
        for raw in EXPERIMENTS:
            training = raw["training"] | {"rounds": max(1, round(raw["training"]["rounds"] * scale))}
            new += [new_run(run) for run in parse_experiment(raw | {"training": training, "seeds": [seed]}).runs()]
    made = store.experiments.create("mixed", {}, new[:number])
    return store.queue.runs(experiment_ids=[made.id], newest_first=False)


# Kills.


class Killer:
    """Kills one thing after another, and waits until the runs that it hit have stored a new round."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.bench, self.random, self.kills = bench, random, Kills(bench.store)

    def kill(self) -> bool:
        """Returns False if no run is left."""
        wait("run that may lose its worker", lambda: self._victims() or not self._is_any_left())
        if not self._is_any_left():
            return False
        bench, kind = self.bench, self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        active = wait("active dispatcher", bench.active)
        number = self.random.choice([2, 3])
        running = bench.running()
        if kind == WORKER:
            run = self.random.choice(self._victims() or running)
            number, hit = bench.number_of(run), [run]
            self.kills.add(kind, hit)
            bench.nodes.machines[number].kill_process(int(str(run.worker).partition(":")[2]))
        elif kind == DISPATCHER:
            number, hit = active, running
            self.kills.add(kind, hit)
            bench.dispatchers[number].kill()
        else:
            number = HEAD if kind == "head" else number
            hit = running if number in (HEAD, active) else [run for run in running if bench.number_of(run) == number]
            self.kills.add(kind, hit)
            bench.nodes.kill(number, PART if kind == RAY else None)
        say(f"{len(self.kills.all):3} {kind} on node{number}, with {len(hit)} runs")
        self._repair(number if kind not in (WORKER, DISPATCHER) else 0)
        self._wait("recovery", lambda: self.kills.all_recovered or not self._is_any_left())
        recovered = self.kills.all[-1].recovered_s
        say("    no run was hit" if recovered is None else f"    next round after {recovered:.1f} s")
        return True

    def finish(self) -> None:
        """Waits for the end of all runs."""
        progress = [run.round for run in self.bench.store.queue.runs(with_partition=False)]
        while self._is_any_left():
            before = progress

            def has_progress(before: list[int] = before) -> list[int]:
                now = [run.round for run in self.bench.store.queue.runs(with_partition=False)]
                return now if now != before or not self._is_any_left() else []

            progress = wait("further round", has_progress)

    def _repair(self, number: int) -> None:
        """Starts what was killed, as a service manager would."""
        nodes = self.bench.nodes
        if number:
            self._join(number)
        for other in (2, 3) if number == HEAD else ():  # their Ray ends when the head is another one
            nodes.kill(other, PART)
            self._join(other)
        for node, dispatcher in list(self.bench.dispatchers.items()):
            if dispatcher.poll() is not None:
                self.bench.dispatch(node)

    def _join(self, number: int) -> None:
        self.bench.nodes.start(number, CPUS[number])
        self._wait(f"node {number}", lambda: self.bench.nodes.has_joined(number))

    def _wait(self, what: str, holds: Callable[[], object]) -> None:
        def polled() -> object:
            self.kills.poll()
            return holds()

        wait(what, polled)

    def _victims(self) -> list[RunRecord]:
        """Computing runs, if none of the running ones would fail at one more death of its worker."""
        running = self.bench.running()
        return [] if any(deaths(self.bench.store, r.id) >= MAX_DEATHS - 1 for r in running) else self.bench.computing()

    def _is_any_left(self) -> bool:
        counts = self.bench.store.queue.counts()
        return bool(counts.get("queued") or counts.get("running"))


def kills(arguments: argparse.Namespace) -> list[str]:
    problems: list[str] = []
    with bench(CPUS, [2, 3]) as found:
        killer, started = Killer(found, Random(arguments.seed)), time.monotonic()
        queue_mixed(found.store, arguments.runs, arguments.scale)
        try:
            while len(killer.kills.all) < arguments.kills and killer.kill():
                pass
            killer.finish()
        except Stuck as stuck:
            problems.append(str(stuck))
        runs = found.store.queue.runs()
        say(f"{len(killer.kills.all)} of {arguments.kills} kills in {time.monotonic() - started:.0f} s")
        resumed = [run.epoch - 1 for run in runs if run.epoch > 1]
        say(f"{len(resumed)} of {len(runs)} runs were resumed, {sum(resumed)} times in all")
        show_kills(killer.kills)
        say("computing the same runs without a cluster")
        reference = Store(f"sqlite:///{found.folder / 'reference.db'}", found.folder / "reference")
        reference.ensure_schema()
        queue_mixed(reference, arguments.runs, arguments.scale)
        lock = reference.try_dispatcher_lock()
        assert lock is not None  # nobody else has this database
        with Dispatcher(reference, LocalExecutor(2, 1), lock) as dispatcher:
            dispatcher.run(threading.Event(), until_idle=True)
        twins = {run.digest: run for run in reference.queue.runs()}
        for run in runs:
            problems += differences(found.store, run, reference, twins[run.digest])
    return problems


def differences(store: Store, run: RunRecord, reference: Store, twin: RunRecord) -> list[str]:
    """What differs, bit for bit, between a run and the same one in the reference; seconds and hosts aside."""
    same = {
        "status": (run.status, run.error, run.round) == (twin.status, twin.error, twin.round),
        "rounds": rows(store, run.id) == rows(reference, twin.id),
        "summary": run.summary == twin.summary,
    }
    return [f"run {run.id} ({run.label}): different {name}" for name, is_same in same.items() if not is_same]


def show_kills(kills: Kills) -> None:
    say(f"{'killed':14} {'times':>6} {'hit runs':>9} | next round after: {'median s':>9} {'p90 s':>8} {'worst s':>8}")
    for kind in WEIGHTS:
        row: dict[str, Any] = timing(kills, kind)
        seconds = ["-" if row[name] is None else f"{row[name]:.1f}" for name in ("median", "p90", "worst")]
        say(f"{kind:14} {row['times']:6} {row['hit']:9} |{'':19}{seconds[0]:>9} {seconds[1]:>8} {seconds[2]:>8}")


# A dead node, and a broken network.


def dead_node(arguments: argparse.Namespace) -> list[str]:
    took = []
    with bench(CPUS, [HEAD]) as found:
        for repeat in range(arguments.repeats):
            queue(found.store, seeds=[2 * repeat, 2 * repeat + 1], **ENDLESS)
            victim = wait("run on another node", lambda: [r for r in found.computing() if found.number_of(r) != HEAD])[
                0
            ]
            number = found.number_of(victim)
            found.nodes.kill(number)
            took.append(found.next_round(victim))
            say(f"{repeat + 1}: the next round of node{number}'s run after {took[-1]:.1f} s")
            found.nodes.restart(number)
            problems = differences_of_endless(found.store, [found.store.queue.get(victim.id)])
            if problems:
                return problems
    say(f"median {np.median(took):.1f} s, worst {max(took):.1f} s, of {len(took)}")
    return []


def network(arguments: argparse.Namespace) -> list[str]:
    with bench(CPUS, [HEAD], RAY_health_check_timeout_ms="3000") as found:
        queue(found.store, seeds=[0, 1], **ENDLESS)
        victim, number = found.one_elsewhere()
        machine, unplugged, resumed_s = found.nodes.machines[number], time.monotonic(), 0.0
        machine.unplug()
        say(f"node{number} has no network; its worker still reaches the database, whose socket is a file")
        has_resumed = found.has_resumed(victim)
        while (seconds := time.monotonic() - unplugged) < arguments.seconds:
            if not resumed_s and has_resumed():
                resumed_s, run = seconds, found.store.queue.get(victim.id)
                say(f"its run {run.id} has a new round on node{found.number_of(run)} after {seconds:.1f} s")
            time.sleep(CHECK_S)
        machine.plug()
        plugged = found.store.queue.get(victim.id)
        say(f"node{number} has its network again after {seconds:.0f} s; run {plugged.id} is in round {plugged.round}")
        if not resumed_s:
            return [f"run {plugged.id} was not resumed elsewhere within {arguments.seconds:g} s"]
        pid = int(str(victim.worker).partition(":")[2])
        wait("end of the first worker", lambda: pid not in machine.processes(PART))
        wait("further round", lambda: found.store.queue.get(victim.id).round > plugged.round)
        run = found.store.queue.get(victim.id)
        say(f"the first worker has ended; the run computes on node{found.number_of(run)} in claim {run.epoch}")
        problems = [] if run.epoch == victim.epoch + 1 else [f"run {run.id} is in claim {run.epoch}, not 2"]
        return problems + differences_of_endless(found.store, [run])


# Throughput.


def throughput(arguments: argparse.Namespace) -> list[str]:
    """Each pair computes the same runs twice. The first pair warms up both, and does not count."""
    ratios: list[tuple[float, float]] = []
    with bench(TWO_SLOTS, []) as found:
        for pair in range(arguments.pairs + 1):
            measured = {}
            for kind in ("local", "ray") if pair % 2 else ("ray", "local"):
                measured[kind] = wall_s, cpu_s, shortest_s = measure(found, kind, arguments.runs, arguments.rounds)
                say(f"{pair} {kind:6} {wall_s:7.1f} s, {cpu_s:7.1f} s of processors, shortest run {shortest_s:.1f} s")
            if pair:
                (local_wall, local_cpu, _), (ray_wall, ray_cpu, _) = measured["local"], measured["ray"]
                ratios.append((ray_wall / local_wall, ray_cpu / local_cpu))
                say(f"{pair} Ray / local: wall-clock {ratios[-1][0]:.3f}, processors {ratios[-1][1]:.3f}")
    wall, cpu = np.median(ratios, axis=0)
    say(f"median of {len(ratios)} pairs, Ray / local: wall-clock {wall:.3f}, processors {cpu:.3f}")
    return []


def measure(found: Bench, kind: str, runs: int, rounds: int) -> tuple[float, float, float]:
    """Returns wall-clock seconds, processor seconds without the database's, and the seconds of the shortest run."""

    def pids() -> list[int]:
        """All processes of Ray and the dispatcher, or those of the local dispatcher."""
        if kind == "ray":
            return [pid for machine in found.nodes.machines.values() for pid in machine.processes().values()]
        return [one.pid for one in process_tree(process.pid)]

    warm = queue(found.store, seeds=[1000, 1001])  # starts both workers
    if kind == "ray":
        found.dispatch(HEAD)
    else:
        local = {"FEDSCAPE_EXECUTOR": "local", "FEDSCAPE_SLOTS": "2", "FEDSCAPE_THREADS": "1", "FEDSCAPE_NICE": "0"}
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | local
        process = subprocess.Popen([sys.executable, "-c", SERVE, found.store.url], env=environment, cwd=found.folder)
    try:
        wait("end of the first runs", lambda: not any(found.store.queue.get(run_id).is_active for run_id in warm))
        started, cpu_s = time.monotonic(), processor_s(pids())
        ids = queue(found.store, seeds=list(range(runs)), training__rounds=rounds, checkpoint_s=10.0)
        limit_s = LIMIT_S * runs
        wait("end of the runs", lambda: not any(found.store.queue.get(i).is_active for i in ids), limit_s)
        wall_s, cpu_s = time.monotonic() - started, processor_s(pids()) - cpu_s
    finally:
        if kind == "ray":
            found.dispatchers.pop(HEAD).kill()
        else:
            process.kill()
            process.wait()
    ended = [found.store.queue.get(run_id) for run_id in ids]
    if {run.status for run in ended} != {"done"} or {run.epoch for run in ended} != {1}:
        raise Stuck(f"not all runs are done at the first try: {[(run.status, run.epoch) for run in ended]}")
    return wall_s, cpu_s, min((run.finished_at - run.started_at).total_seconds() for run in ended)  # type: ignore[operator]


def processor_s(pids: Iterable[int]) -> float:
    """The processor seconds of these processes so far, without those that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):  # it has just ended
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="kills|dead-node|network|throughput")
    command = commands.add_parser("kills", help="kill at random and compare every run")
    command.add_argument("--runs", type=int, default=60)
    command.add_argument("--kills", type=int, default=60)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--scale", type=float, default=10.0, help="times the rounds of each run, 300 or 160")
    command.set_defaults(measure=kills)
    command = commands.add_parser("dead-node", help="seconds until a run of a dead machine goes on")
    command.add_argument("--repeats", type=int, default=10)
    command.set_defaults(measure=dead_node)
    command = commands.add_parser("network", help="disconnect a machine for a while")
    command.add_argument("--seconds", type=float, default=30.0, help="without a network")
    command.set_defaults(measure=network)
    command = commands.add_parser("throughput", help="compare Ray with local workers")
    command.add_argument("--pairs", type=int, default=5)
    command.add_argument("--runs", type=int, default=6)
    command.add_argument("--rounds", type=int, default=6000, help="of each run, which should take 10 s or more")
    command.set_defaults(measure=throughput)
    arguments = parser.parse_args()
    try:
        problems = arguments.measure(arguments)
    except (Stuck, AssertionError) as error:
        problems = [str(error)]
    for line in (f"problems: {len(problems)}", *problems):
        say(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
