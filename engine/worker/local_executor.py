"""The embedded executor: warm processes of this machine."""

import multiprocessing
import pkgutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path

import engine
from engine.worker import process
from engine.worker.executor import AnalysisTicket, Ended, Work
from engine.worker.slots import Slot, analysis_slot, device_name, plan_slots

Context = ForkServerContext | SpawnContext

ENDS_S = 1.0  # a process whose pipe has closed is about to end, and to tell how
NO_MEMORY = (
    ": most likely the machine ran out of memory; let fewer runs compute at once (FEDSCAPE_SLOTS=1), or choose fewer "
    "clients, smaller batches or a smaller model"
)


class LocalExecutor:
    """Warm processes of this machine, one for each slot, each with a pipe of its own. They start with their first run.

    They share nothing, so that one that is killed takes no other with it; in a pool with common queues it does.
    """

    def __init__(self, slots: int | None = None, threads: int | None = None) -> None:
        plan = plan_slots(slots, threads)
        context = _context()
        self.slots, self.device = len(plan), device_name()
        self._for_runs = [_Worker(slot, context) for slot in plan]
        self._for_analyses = _Worker(analysis_slot(len(plan)), context)
        self._workers = [self._for_analyses, *self._for_runs]

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
            worker.start()
        worker.give(ticket)

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        busy = {worker.connection: worker for worker in self._workers if worker.ticket and worker.connection}
        ready = wait(list(busy), wait_s)
        return [worker.take_back() for connection, worker in busy.items() if connection in ready]

    def kill(self, ticket: Work) -> None:
        for worker in self._workers:
            if worker.ticket == ticket:
                worker.kill()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()


class _Worker:
    """One slot's process, seen from the dispatcher."""

    def __init__(self, slot: Slot, context: Context) -> None:
        self.slot, self._context = slot, context
        self.ticket: Work | None = None
        self.connection: Connection | None = None
        self._process: BaseProcess | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def start(self) -> None:
        self.kill()
        self.connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=process.main, args=(theirs, self.slot), daemon=True)
        self._process.start()
        theirs.close()  # so that its death closes the pipe

    def give(self, ticket: Work) -> None:
        assert self.connection is not None
        self.ticket = ticket
        with suppress(BrokenPipeError):  # it has just died, which take_back will see
            self.connection.send(ticket)

    def take_back(self) -> Ended:
        """After the pipe has become readable: an answer, or the end of the process."""
        assert self.connection is not None and self.ticket is not None
        ticket, self.ticket = self.ticket, None
        try:
            return Ended(ticket, self.connection.recv())
        except (EOFError, OSError):
            return Ended(ticket, f"the worker process {_in_words(self.kill(ENDS_S))}")

    def kill(self, wait_s: float = 0.0) -> int | None:
        """Answers the exit code of a process that ends by itself within ``wait_s``."""
        if self._process is None or self.connection is None:
            return None
        self._process.join(wait_s)
        by_itself = self._process.exitcode
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()
        self._process = self.connection = self.ticket = None
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
