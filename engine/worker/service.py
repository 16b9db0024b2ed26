"""The dispatcher as a program: ``python -m engine worker``, and the app beside its pages."""

import logging
import signal
import threading

from engine.worker.dispatcher import Dispatcher
from engine.worker.local_executor import LocalExecutor
from storage import DispatcherLock, Store

RETRY_S = 0.5

log = logging.getLogger(__name__)


def serve(database_url: str, slots: int | None = None) -> None:
    """Computes queued runs until SIGTERM or SIGINT; interrupted runs resume at the next start.

    While another process holds the dispatcher's lock, waits for it to end. For the main thread only.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    store = Store(database_url)
    lock = _wait_for_lock(store, stop)
    if lock is not None:
        with Dispatcher(store, LocalExecutor(slots), lock) as dispatcher:
            log.info("%d slots on %s", dispatcher.executor.slots, dispatcher.executor.device)
            dispatcher.run(stop)


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
