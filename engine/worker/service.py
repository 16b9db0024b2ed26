"""The dispatcher as a program: ``python -m engine worker``, which the app also starts."""

import logging
import signal
import threading

from engine.core.registry import check_plugin_folders
from engine.worker.choice import executor_kind, make_executor
from engine.worker.dispatcher import Dispatcher
from storage import DispatcherLock, Store

RETRY_S = 0.5
HANDOVER_S = 2.0  # longer than another dispatcher pauses between two tries to get the lock

log = logging.getLogger(__name__)


def serve(database_url: str, slots: int | None = None) -> None:
    """Computes queued runs until SIGTERM or SIGINT; interrupted runs resume at the next start.

    While another process holds the dispatcher's lock, waits for it to end. If it cannot reach any machine that
    computes, it releases the lock for a moment, for a dispatcher on another machine. For the main thread only.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    store, problem = Store(database_url), ""
    executor_kind(store)  # reports a wrong setting now, not when the lock is free
    check_plugin_folders()
    while (lock := _wait_for_lock(store, stop)) is not None:
        executor = make_executor(store, slots, problem=problem)
        with Dispatcher(store, executor, lock) as dispatcher:
            if executor.slots:
                log.info("%d slots on %s", executor.slots, executor.device)
            dispatcher.run(stop)
            problem = executor.problem
        stop.wait(HANDOVER_S)


def _wait_for_lock(store: Store, stop: threading.Event) -> DispatcherLock | None:
    waiting = False
    while not stop.is_set():
        if (lock := store.try_dispatcher_lock()) is not None:
            return lock
        if not waiting:
            log.info("another engine is running on this database; waiting for it to end")
        waiting = True
        stop.wait(RETRY_S)
    return None
