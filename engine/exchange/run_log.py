"""The log of runs as text: their timestamps and events, oldest first."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from engine.core.errors import printable
from storage import EventRecord, RunRecord

Line = tuple[datetime, str, str]  # time, level, message


def log_text(runs: Sequence[RunRecord], events: Iterable[EventRecord], names: Mapping[int, str], max_lines: int) -> str:
    """``2026-11-21 10:02:13 info    FedAvg, seed 0: started by lab:4711``, the newest lines; times are UTC.

    ``names`` has the name of each run by its id, written before its lines if there are several runs.
    """
    prefixes = {run.id: f"{names[run.id]}: " if len(runs) > 1 else "" for run in runs}
    lines = [(*moment[:2], prefixes[run.id] + moment[2]) for run in runs for moment in _moments(run)]
    lines += [(one.at, one.level, prefixes[one.run_id] + one.message) for one in events if one.run_id in prefixes]
    ordered = sorted(lines, key=lambda line: line[0])[-max_lines:]
    return "\n".join(f"{at:%Y-%m-%d %H:%M:%S} {level:7} {_indented(what)}" for at, level, what in ordered)


def _indented(message: str) -> str:
    """Further lines are indented, so that they are not taken for entries; control characters are escaped."""
    return "\n    ".join(printable(line) for line in message.rstrip().splitlines())


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
