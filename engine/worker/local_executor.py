"""The embedded executor: warm processes of this machine."""

import ctypes
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path

import engine
from engine.worker import process
from engine.worker.executor import AnalysisTicket, Ended, Work
from engine.worker.heartbeat import Life
from engine.worker.slots import Slot, analysis_slot, device_name, plan_slots
from engine.worker.watchdog import LOOK_COUNTS_S, Watchdog

Context = ForkServerContext | SpawnContext

LOOK_S = 0.25  # how often the signs of life are looked at
TIMEOUT_S = 10.0  # how long a worker waits for the database before it goes on without it
RESTART_PAUSES_S = (0.05, 0.2, 1.0)
ENDS_S = 1.0  # a process whose pipe has closed is about to end, and to tell how
NO_MEMORY = (
    ": most likely the machine ran out of memory; let fewer runs compute at once (FEDSCAPE_SLOTS=1), or choose fewer "
    "clients, smaller batches or a smaller model"
)


class LocalExecutor:
    """Warm processes of this machine, one for each slot, each with a pipe of its own. They start with their first run.

    They share nothing, so that one that is killed takes no other with it; in a pool with common queues it does.
    A thread kills those that hang: whoever uses the executor may itself be waiting for the lock that one of them holds.
    """

    def __init__(self, slots: int | None = None, threads: int | None = None, hung_s: float | None = None) -> None:
        """``hung_s``: as in ``Watchdog``."""
        plan = plan_slots(slots, threads)
        context = _context()
        self.slots, self.device = len(plan), device_name()
        self._watchdog: Watchdog[Work] = Watchdog(hung_s)
        timeout_s = min(TIMEOUT_S, self._watchdog.write_s / 2)  # a worker that waits for a lock does not hang
        self._for_runs = [_Worker(slot, context, timeout_s) for slot in plan]
        self._for_analyses = _Worker(analysis_slot(len(plan)), context, timeout_s)
        self._workers = [self._for_analyses, *self._for_runs]
        self.on_notice: Callable[[str], None] = lambda notice: None
        self._asks_fork_server = False
        self._is_closed = threading.Event()
        self._looking = threading.Thread(target=self._look_after_workers, daemon=True, name="watchdog")
        self._looking.start()

    @property
    def free(self) -> int:
        return len(_idle(self._for_runs))

    @property
    def free_for_analyses(self) -> int:
        return len(_idle(self._workers))

    def submit(self, ticket: Work) -> None:
        if isinstance(ticket, AnalysisTicket) and self._for_analyses.ticket is None:
            worker = self._for_analyses
        else:
            idle = _idle(self._for_runs)
            worker = next((w for w in idle if w.is_alive), idle[0])
        if not worker.is_alive:
            with self._asking_fork_server():
                worker.start()
        worker.give(ticket)

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        busy = {worker.connection: worker for worker in self._workers if worker.ticket and worker.connection}
        ready = wait(list(busy), wait_s)
        with self._asking_fork_server():
            return [worker.take_back() for connection, worker in busy.items() if connection in ready]

    def kill(self, ticket: Work) -> None:
        with self._asking_fork_server():
            for worker in self._workers:
                if worker.ticket == ticket:
                    worker.kill()

    def close(self) -> None:
        with self._asking_fork_server():
            for worker in self._workers:
                worker.kill()
        self._is_closed.set()
        self._looking.join()

    @contextmanager
    def _asking_fork_server(self) -> Iterator[None]:
        """It starts workers, and it is told how they ended: while it is stopped, whoever asks it waits."""
        self._asks_fork_server = True
        try:
            yield
        finally:
            self._asks_fork_server = False

    def _look_after_workers(self) -> None:
        looked, notice, waited_s = time.monotonic(), "", 0.0
        while not self._is_closed.wait(LOOK_S):
            now, before = time.monotonic(), looked
            waited_s = waited_s + min(now - before, LOOK_COUNTS_S) if self._asks_fork_server else 0.0
            if waited_s >= self._watchdog.write_s:
                _kill_stopped_fork_server()
            busy = {ticket: worker for worker in self._workers if (ticket := worker.ticket) is not None}
            signs = {ticket: worker.life.signs for ticket, worker in busy.items()}
            for ticket, why in self._watchdog.hung(signs, now - before).items():
                busy[ticket].kill_hung(ticket, why)
            if notice != (notice := self._watchdog.notice):
                self.on_notice(notice)
            looked = now


class _Worker:
    """One slot's process, seen from the dispatcher."""

    def __init__(self, slot: Slot, context: Context, timeout_s: float) -> None:
        self.slot, self._context, self._timeout_s = slot, context, timeout_s
        self.ticket: Work | None = None
        self.connection: Connection | None = None
        self._process: BaseProcess | None = None
        self._counters = context.RawArray(ctypes.c_uint64, 2)
        self.life = Life(self._counters)
        self._why_killed = ""
        self._changing = threading.Lock()  # ``kill_hung`` is called by another thread

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        self.kill()
        self.life.begin()
        for pause_s in RESTART_PAUSES_S:
            try:
                return self._start()
            except (EOFError, ConnectionError):  # the fork server was killed; once it is gone, a start makes a new one
                time.sleep(pause_s)
        return self._start()

    def _start(self) -> None:
        connection, theirs = self._context.Pipe()
        arguments = (theirs, self.slot, self._counters, self._timeout_s)
        started = self._context.Process(target=process.main, args=arguments, daemon=True)
        started.start()
        theirs.close()  # so that its death closes the pipe
        self._process, self.connection = started, connection

    def give(self, ticket: Work) -> None:
        assert self.connection is not None
        self.ticket = ticket
        with suppress(BrokenPipeError):  # it has just died, which take_back will see
            self.connection.send(ticket)

    def take_back(self) -> Ended:
        """After the pipe has become readable: an answer, or the end of the process."""
        assert self.connection is not None and self.ticket is not None
        with self._changing:
            ticket, self.ticket = self.ticket, None
        try:
            return Ended(ticket, self.connection.recv())
        except (EOFError, OSError):
            why = self._why_killed
            ended = _in_words(self.kill(ENDS_S))
            return Ended(ticket, why or f"the worker process {ended}")

    def kill_hung(self, ticket: Work, why: str) -> None:
        """If it still works on ``ticket``; ``take_back`` then answers ``why``."""
        with self._changing:
            if self.ticket == ticket and self._process is not None:
                self._why_killed = why
                self._process.kill()

    def kill(self, wait_s: float = 0.0) -> int | None:
        """Answers the exit code of a process that ends by itself within ``wait_s``."""
        if self._process is None or self.connection is None:
            return None
        self._process.join(wait_s)
        by_itself = self._process.exitcode
        with self._changing:
            self.ticket, self._why_killed = None, ""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()
        self._process = self.connection = None
        return by_itself


def _idle(workers: list[_Worker]) -> list[_Worker]:
    return [worker for worker in workers if worker.ticket is None]


def _in_words(exit_code: int | None) -> str:
    """How a process ended that nobody had asked to, and what to do."""
    if exit_code == -signal.SIGKILL:
        return f"was killed by signal 9{NO_MEMORY}"
    if exit_code is None:
        return "no longer answered and was killed; see what it wrote where the engine was started"
    how = f"ended with exit code {exit_code}"
    if exit_code < 0:
        how = f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    return f"{how}; see what it wrote where the engine was started"


def _context() -> Context:
    """On Linux workers are forked from a server that has imported everything once, and computed nothing.

    A worker is then there in no time, also in place of one that was killed, and shares the libraries' memory. A fork of
    a process that has computed would hang in torch's thread pools.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*process.SESSIONS, *_registered_modules()])
    with _deaf_to_interrupts():
        ensure_running()  # begins to import while we go on
    return context


def _kill_stopped_fork_server() -> None:
    """Ours, the only child with this command; the next worker starts a new one."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            is_ours = int(parent) == os.getpid() and b"multiprocessing.forkserver" in (folder / "cmdline").read_bytes()
            if is_ours and state in "Tt":
                os.kill(int(folder.name), signal.SIGKILL)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, which is the dispatcher's to answer, from their first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _registered_modules() -> list[str]:
    """Found by their files: importing them is for the server to do."""
    names = [registry.package for registry in process.REGISTRIES]
    folders = {name: Path(engine.__path__[0]) / name.rpartition(".")[2] for name in names}
    return [f"{name}.{module.name}" for name in names for module in pkgutil.iter_modules([str(folders[name])])]
