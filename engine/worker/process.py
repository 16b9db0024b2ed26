"""A worker process: works on tickets one after another, and exits with its dispatcher."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core import slow_imports
from engine.core.errors import FedscapeError
from engine.core.registry import AGGREGATORS, ALGORITHMS, ATTACKS, COMPRESSORS, DATASETS, METRICS, MODELS, PARTITIONERS
from engine.worker.executor import Key, Ticket, Work
from engine.worker.heartbeat import HEARTBEAT, Counters
from engine.worker.slots import Slot
from storage import Fenced, StorageError, Store

if TYPE_CHECKING:
    from engine.core.lockstep import Lockstep

# The dispatcher imports this module too and should not wait for torch, which is imported where it is used.
REGISTRIES = (ALGORITHMS, DATASETS, METRICS, MODELS, PARTITIONERS, ATTACKS, AGGREGATORS, COMPRESSORS)
SESSIONS = ("engine.worker.session", "engine.worker.analysis_session")

log = logging.getLogger(__name__)


def main(connection: Connection, slot: Slot, counters: Counters, timeout_s: float) -> None:
    """Answers each ticket with its key and None, or the reason why its work could not be completed.

    Tickets arrive one by one, or as several runs that are trained together.

    ``counters`` are its heartbeat; ``timeout_s`` is how long to wait for other writers of the database.
    """
    HEARTBEAT.share(counters)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the dispatcher handles it
    threading.Thread(target=exit_with_parent, daemon=True).start()
    warm_up(slot)
    with suppress(EOFError, OSError):  # the dispatcher is gone
        while True:
            answer_all(connection.recv(), slot, timeout_s, connection.send)


def answer_all(
    tickets: Sequence[Work], slot: Slot, timeout_s: float, send: Callable[[tuple[Key, str | None]], None]
) -> None:
    """Works on one ticket, or on several runs together. Each is answered as soon as it has ended.

    The GPU memory of several runs is given back after the last one, as they share some of it.
    """
    from engine.core.lockstep import Lockstep

    lockstep = Lockstep() if len(tickets) > 1 else None

    def member(ticket: Work) -> None:
        send((ticket.key, answer(ticket, slot, timeout_s, lockstep)))

    if lockstep is None:
        member(tickets[0])
    else:
        try:
            lockstep.run([partial(member, ticket) for ticket in tickets])
        finally:
            _give_back_gpu_memory(slot)


def work_on(store: Store, ticket: Work, threads: int = 1, lockstep: "Lockstep | None" = None) -> None:
    """Works on a ticket until it has ended, is paused, or has a new owner.

    Raises StorageError if the outcome cannot be stored.
    """
    from engine.worker.analysis_session import AnalysisSession
    from engine.worker.session import Session

    try:
        if isinstance(ticket, Ticket):
            Session(store, ticket, threads, lockstep).run()
        else:
            AnalysisSession(store, ticket, threads).run()
    except Fenced as fenced:
        log.info("%s", fenced)


def answer(ticket: Work, slot: Slot, timeout_s: float, lockstep: "Lockstep | None" = None) -> str | None:
    """Works on a ticket. Returns None, or the reason why its work could not be completed."""
    try:
        work_on(_store(ticket.database_url, ticket.artifacts, timeout_s), ticket, slot.threads, lockstep)
    except StorageError as error:
        return str(error)
    finally:
        if lockstep is None:
            _give_back_gpu_memory(slot)
    return None


def _give_back_gpu_memory(slot: Slot) -> None:
    """Frees torch's cached memory, which the run on the same GPU may need."""
    import torch

    if slot.gpu is not None:
        torch.cuda.empty_cache()


@cache
def _store(url: str, artifacts: Path, timeout_s: float) -> Store:
    return Store(url, artifacts, timeout_s, writing=HEARTBEAT.writing)


def warm_up(slot: Slot) -> None:
    """Lowers the priority, so that pages respond first, and imports what the first run needs."""
    if hasattr(os, "nice"):
        os.nice(max(0, slot.nice - os.nice(0)))  # Ray starts workers with a niceness of its own
    import torch

    from engine.core.devices import set_threads

    for name in SESSIONS:
        import_module(name)
    slow_imports.load()
    set_threads(slot.threads)
    if slot.gpu is not None:
        torch.cuda.set_device(slot.gpu)
    with suppress(FedscapeError):  # a broken plugin: the run reports it and ends
        for registry in REGISTRIES:
            registry.names()


def exit_with_parent() -> None:
    """Exits when the process that started this one dies. For a thread."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
