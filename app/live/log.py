"""The log of runs, line by line: their timestamps and events, oldest first."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from zlib import crc32

from app.data.method_labels import run_names
from storage import EventRecord, RunRecord, Store

MAX_LINES = 100
Line = tuple[datetime, str, str]  # time, level, message


def log_of(store: Store, runs: Sequence[RunRecord]) -> str:
    """The newest lines of the log of ``runs``, prefixed by the run if there are several."""
    return written(runs, store.events.for_runs([run.id for run in runs], MAX_LINES))


def written(runs: Sequence[RunRecord], events: Iterable[EventRecord]) -> str:
    """``2026-11-21 10:02:13 info  FedAvg, seed 0: started by lab:4711``; times are UTC."""
    names = {run_id: f"{name}: " if len(runs) > 1 else "" for run_id, name in run_names(runs).items()}
    lines = [(*moment[:2], names[run.id] + moment[2]) for run in runs for moment in _moments(run)]
    lines += [(event.at, event.level, names[event.run_id] + event.message) for event in events if event.run_id in names]
    ordered = sorted(lines, key=lambda line: line[0])[-MAX_LINES:]
    return "\n".join(f"{at:%Y-%m-%d %H:%M:%S} {level:7} {what.rstrip()}" for at, level, what in ordered)


def digest(text: str) -> str:
    """Identifies a log, so that a known one is not sent again."""
    return f"{crc32(text.encode()):x}"


def _moments(run: RunRecord) -> list[Line]:
    """The timestamps of the run itself."""
    found: list[Line] = [(run.created_at, "info", "queued")]
    if run.started_at:
        found.append((run.started_at, "info", f"started{f' by {run.worker}' if run.worker else ''}"))
    if run.finished_at:
        error = f": {run.error}" if run.error else ""
        level = "error" if run.status in ("failed", "diverged") else "info"
        found.append((run.finished_at, level, f"{run.status} at round {max(run.round, 0)}{error}"))
    return found
