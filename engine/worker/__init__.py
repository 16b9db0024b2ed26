"""Background work: a dispatcher claims queued runs, an executor computes them, the database has the progress.

queued run      -> Dispatcher -> Ticket         -> Executor -> Session (Simulation -> Recorder) -> rows, models
queued analysis -> Dispatcher -> AnalysisTicket -> Executor -> AnalysisSession (Subject) -> findings
"""

from engine.worker.dispatcher import Dispatcher
from engine.worker.executor import AnalysisTicket, Ended, Executor, Ticket, Work
from engine.worker.local_executor import LocalExecutor
from engine.worker.service import serve

__all__ = ["AnalysisTicket", "Dispatcher", "Ended", "Executor", "LocalExecutor", "Ticket", "Work", "serve"]
