"""The log of runs on a page."""

from collections.abc import Sequence
from zlib import crc32

from app.data.method_labels import run_names
from engine.exchange.run_log import log_text
from storage import RunRecord, Store

MAX_LINES = 100


def log_of(store: Store, runs: Sequence[RunRecord]) -> str:
    """The newest lines of the log of ``runs``, prefixed by the run if there are several."""
    events = store.events.for_runs([run.id for run in runs], MAX_LINES)
    return log_text(runs, events, run_names(runs), MAX_LINES)


def digest(text: str) -> str:
    """Identifies a log, so that a known one is not sent again."""
    return f"{crc32(text.encode()):x}"
