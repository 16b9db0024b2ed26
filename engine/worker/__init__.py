"""Work in the background: a dispatcher claims queued runs, an executor computes them, the database says how far it is.

    queued row -> Dispatcher -> Ticket -> Executor -> Session (Simulation -> Recorder) -> rows, checkpoints, models
"""

from engine.worker.dispatcher import Dispatcher
from engine.worker.executor import Ended, Executor, Ticket
from engine.worker.local_executor import LocalExecutor
from engine.worker.service import serve

__all__ = ["Dispatcher", "Ended", "Executor", "LocalExecutor", "Ticket", "serve"]
