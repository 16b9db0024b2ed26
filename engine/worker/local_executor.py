"""The default executor: warm worker processes on this machine."""

import ctypes
import multiprocessing
import os
import signal
import socket
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

from engine.core.paths import plugin_files
from engine.worker import process
from engine.worker.executor import AnalysisTicket, Ended, Machine, Ticket, Work
from engine.worker.heartbeat import Heartbeat
from engine.worker.slots import Slot, analysis_slot, device_name, num_cores, num_gpus, plan_slots
from engine.worker.watchdog import MAX_CHECK_S, Watchdog

Context = ForkServerContext | SpawnContext
Plugins = tuple[tuple[str, int, int], ...]  # their files, see ``plugin_files``

PRELOADED = "engine.worker.preloaded"  # only the fork server imports it
CHECK_S = 0.25  # how often heartbeats are checked
TIMEOUT_S = 10.0  # how long a worker waits for the database before it continues without it
RESTART_PAUSES_S = (0.05, 0.2, 1.0)
EXIT_S = 1.0  # how long to wait for the exit code of a process whose pipe has closed
STOPPED_TOO = "it was trained together with a run whose worker was killed; it continues from its last checkpoint"
NO_MEMORY = (
    ": most likely out of memory; run fewer at once (FEDSCAPE_SLOTS=1), or choose fewer "
    "clients, smaller batches or a smaller model"
)


class LocalExecutor:
    """Warm processes on this machine, one per slot, each with its own pipe. They start with their first run.

    They share nothing, so killing one affects no other, unlike in a pool with common queues. A thread kills those that
    hang, since the caller may itself be waiting for a lock that such a process holds.
    """

    problem, has_given_up = "", False  # this machine always computes

    def __init__(
        self,
        slots: int | None = None,
        threads: int | None = None,
        hung_s: float | None = None,
        trains_together: bool | None = None,
    ) -> None:
        """``hung_s`` as in ``Watchdog``; ``trains_together`` as in ``Executor``, by default on GPUs only."""
        plan = plan_slots(slots, threads)
        on_gpus = all(slot.gpu is not None for slot in plan)
        self.trains_together = on_gpus if trains_together is None else trains_together
        context = _context()
        self.slots, self.device = len(plan), device_name()
        self._watchdog: Watchdog[Work] = Watchdog(hung_s)
        timeout_s = min(TIMEOUT_S, self._watchdog.write_s / 2)  # so that waiting for a lock does not count as hanging
        self._for_runs = [_Worker(slot, context, timeout_s) for slot in plan]
        self._for_analyses = _Worker(analysis_slot(len(plan)), context, timeout_s)
        self._workers = [self._for_analyses, *self._for_runs]
        self.on_notice: Callable[[str], None] = lambda notice: None
        self._ended: list[Ended] = []  # not reported yet
        self._uses_fork_server = False
        self._is_closed = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise_workers, daemon=True, name="watchdog")
        self._supervisor.start()

    @property
    def free(self) -> int:
        return len(_idle(self._for_runs))

    @property
    def free_for_analyses(self) -> int:
        return len(_idle(self._workers))

    def submit(self, *tickets: Work) -> None:
        plugins = plugin_files()
        if isinstance(tickets[0], AnalysisTicket) and not self._for_analyses.tickets:
            worker = self._for_analyses
        else:
            idle = _idle(self._for_runs)
            worker = next((w for w in idle if w.is_ready(plugins)), idle[0])
        if not worker.is_ready(plugins):
            with self._using_fork_server():
                worker.start(plugins)
        worker.send(tickets)

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        busy = {worker.connection: worker for worker in self._workers if worker.tickets and worker.connection}
        ready = wait(list(busy), 0.0 if self._ended else wait_s)
        with self._using_fork_server():
            for connection, worker in busy.items():
                if connection in ready:
                    self._ended += worker.receive()
        ended, self._ended = self._ended, []
        return ended

    def kill(self, ticket: Work) -> None:
        with self._using_fork_server():
            for worker in self._workers:
                while ticket in worker.tickets and worker.has_answered:
                    self._ended += worker.receive()
                if ticket in worker.tickets:
                    others = [other for other in worker.tickets if other != ticket]
                    worker.kill()
                    self._ended += [Ended(other, STOPPED_TOO, is_refused=True) for other in others]
        self._ended = [ended for ended in self._ended if ended.ticket != ticket]

    def expect(self, queued: int) -> None:
        pass  # there is only this machine

    def machines(self) -> list[Machine]:
        host, tickets = socket.gethostname(), [ticket for worker in self._workers for ticket in worker.tickets]
        running = sum(isinstance(ticket, Ticket) for ticket in tickets)
        return [Machine(f"{host}:{os.getpid()}", host, self.device, num_cores(), num_gpus(), self.slots, running)]

    def close(self) -> None:
        with self._using_fork_server():
            for worker in self._workers:
                worker.kill()
        self._is_closed.set()
        self._supervisor.join()

    @contextmanager
    def _using_fork_server(self) -> Iterator[None]:
        """Marks the time in which the fork server starts or reaps a worker, which blocks while it is stopped.

        The supervisor reads the mark.
        """
        self._uses_fork_server = True
        try:
            yield
        finally:
            self._uses_fork_server = False

    def _supervise_workers(self) -> None:
        checked, notice, waited_s = time.monotonic(), "", 0.0
        while not self._is_closed.wait(CHECK_S):
            now, before = time.monotonic(), checked
            waited_s = waited_s + min(now - before, MAX_CHECK_S) if self._uses_fork_server else 0.0
            if waited_s >= self._watchdog.write_s:
                _kill_stopped_fork_server()
            busy = {ticket: worker for worker in self._workers for ticket in worker.tickets}
            counts = {ticket: worker.heartbeat.counts for ticket, worker in busy.items()}
            for ticket, why in self._watchdog.hung(counts, now - before).items():
                busy[ticket].kill_hung(ticket, why)
            if notice != (notice := self._watchdog.notice):
                self.on_notice(notice)
            checked = now


class _Worker:
    """The process of one slot, as seen by the dispatcher."""

    def __init__(self, slot: Slot, context: Context, timeout_s: float) -> None:
        self.slot, self._context, self._timeout_s = slot, context, timeout_s
        self.tickets: tuple[Work, ...] = ()  # that have not ended; several if runs are trained together
        self.connection: Connection | None = None
        self._process: BaseProcess | None = None
        self._plugins: Plugins = ()  # when the process started
        self._counters = context.RawArray(ctypes.c_uint64, 2)
        self.heartbeat = Heartbeat(self._counters)
        self._why_killed = ""
        self._changing = threading.Lock()  # ``kill_hung`` is called from another thread

    def is_ready(self, plugins: Plugins) -> bool:
        """Whether the process is alive and has loaded the plugins as they are now."""
        return self._process is not None and self._process.is_alive() and self._plugins == plugins

    def start(self, plugins: Plugins) -> None:
        """Starts a process, which loads the ``plugins``, instead of the present one."""
        self.kill()
        self.heartbeat.reset()
        self._plugins = plugins
        for pause_s in RESTART_PAUSES_S:
            try:
                return self._start()
            except (EOFError, ConnectionError):  # the fork server was killed; the next start creates a new one
                time.sleep(pause_s)
        return self._start()

    def _start(self) -> None:
        connection, worker_end = self._context.Pipe()
        arguments = (worker_end, self.slot, self._counters, self._timeout_s)
        started = self._context.Process(target=process.main, args=arguments, daemon=True)
        started.start()
        worker_end.close()  # so that the pipe closes when the process dies
        self._process, self.connection = started, connection

    def send(self, tickets: tuple[Work, ...]) -> None:
        assert self.connection is not None
        self.tickets = tickets
        with suppress(BrokenPipeError):  # it has just died; ``receive`` detects it
            self.connection.send(tickets)

    @property
    def has_answered(self) -> bool:
        """Whether ``receive`` returns without waiting."""
        return self.connection is not None and self.connection.poll()

    def receive(self) -> list[Ended]:
        """The tickets that ended, once the pipe is readable: the answered one, or all if the process ended."""
        assert self.connection is not None
        with self._changing:
            tickets = self.tickets
            if len(tickets) == 1:
                self.tickets = ()  # from now on nothing kills the process for it
        try:
            key, problem = self.connection.recv()
        except (EOFError, OSError):
            why = self._why_killed
            ended = _exit_text(self.kill(EXIT_S))
            return [Ended(ticket, why or f"the worker process {ended}") for ticket in tickets]
        with self._changing:
            self.tickets = tuple(ticket for ticket in self.tickets if ticket.key != key)
        return [Ended(ticket, problem) for ticket in tickets if ticket.key == key]

    def kill_hung(self, ticket: Work, why: str) -> None:
        """Kills the process if it still works on ``ticket``; ``receive`` then returns ``why``."""
        with self._changing:
            if ticket in self.tickets and self._process is not None:
                self._why_killed = why
                self._process.kill()

    def kill(self, wait_s: float = 0.0) -> int | None:
        """Ends the process. Returns the exit code of one that ends by itself within ``wait_s``."""
        if self._process is None or self.connection is None:
            return None
        self._process.join(wait_s)
        exit_code = self._process.exitcode
        with self._changing:
            self.tickets, self._why_killed = (), ""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()
        self._process = self.connection = None
        return exit_code


def _idle(workers: list[_Worker]) -> list[_Worker]:
    return [worker for worker in workers if not worker.tickets]


def _exit_text(exit_code: int | None) -> str:
    """How a process ended unexpectedly, and what to do."""
    if exit_code == -signal.SIGKILL:
        return f"was killed by signal 9{NO_MEMORY}"
    if exit_code is None:
        return "stopped responding and was killed; see the engine's output"
    how = f"ended with exit code {exit_code}"
    if exit_code < 0:
        how = f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    return f"{how}; see the engine's output"


def _context() -> Context:
    """The start method. On Linux, workers are forked from a server that has imported everything but computed nothing.

    Workers, also replacements, then start at once and share the memory of the libraries. A fork of a process that has
    computed would hang in torch's thread pools.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    with _ignoring_interrupts():
        ensure_running()  # starts importing in the background
    return context


def _kill_stopped_fork_server() -> None:
    """Kills our fork server, the only child with this command; the next worker starts a new one."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has already ended
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            is_ours = int(parent) == os.getpid() and b"multiprocessing.forkserver" in (folder / "cmdline").read_bytes()
            if is_ours and state in "Tt":
                os.kill(int(folder.name), signal.SIGKILL)


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Makes processes started here ignore Ctrl-C from the start; the dispatcher handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
