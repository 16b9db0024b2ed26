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
from engine.worker.executor import Ended, Work
from engine.worker.slots import Slot, device_name, plan_slots

Context = ForkServerContext | SpawnContext


class LocalExecutor:
    """Warm processes of this machine, one for each slot, each with a pipe of its own. They start with their first run.

    They share nothing, so that one that is killed takes no other with it; in a pool with common queues it does.
    """

    def __init__(self, slots: int | None = None, threads: int | None = None) -> None:
        plan = plan_slots(slots, threads)
        context = _context()
        self.slots, self.device = len(plan), device_name()
        self._workers = [_Worker(slot, context) for slot in plan]

    @property
    def free(self) -> int:
        return sum(worker.ticket is None for worker in self._workers)

    def submit(self, ticket: Work) -> None:
        idle = [worker for worker in self._workers if worker.ticket is None]
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
            return Ended(ticket, f"the worker process {self.kill()}")

    def kill(self) -> str:
        """Answers how the process ended, by itself or now."""
        if self._process is None or self.connection is None:
            return "had not started"
        self._process.join(0.1)  # a process whose pipe has just closed may be about to report its exit code
        self._process.kill()
        self._process.join()
        code = self._process.exitcode or 0
        self._process.close()
        self.connection.close()
        self._process = self.connection = self.ticket = None
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


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
