"""The dispatcher as a program: ``python -m engine worker``, and the app beside its pages."""

import logging
import signal
import threading

from engine.worker.choice import executor_kind, make_executor
from engine.worker.cluster import ClusterUnavailable
from engine.worker.dispatcher import Dispatcher
from storage import DispatcherLock, Store

RETRY_S = 0.5
CLUSTER_RETRY_S = 5.0

log = logging.getLogger(__name__)


def serve(database_url: str, slots: int | None = None) -> None:
    """Computes queued runs until SIGTERM or SIGINT; interrupted runs resume at the next start.

    While another process holds the dispatcher's lock, waits for it to end. For the main thread only.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    store, logged = Store(database_url), ""
    executor_kind(store)  # reports a wrong setting now, not when the lock is free
    while (lock := _wait_for_lock(store, stop)) is not None:
        try:
            executor = make_executor(store, slots)
        except ClusterUnavailable as error:  # an engine on another machine may have more luck
            lock.release()
            if logged != (logged := str(error)):
                log.warning("%s", logged)
            stop.wait(CLUSTER_RETRY_S)
            continue
        with Dispatcher(store, executor, lock) as dispatcher:
            log.info("%d slots on %s", dispatcher.executor.slots, dispatcher.executor.device)
            dispatcher.run(stop)
        return


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
