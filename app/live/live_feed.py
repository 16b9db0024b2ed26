"""The data of the live page: the state of runs, and the points of their curves since the last request.

A curve has at most MAX_POINTS points: rounds are thinned evenly from the start, so that points already sent stay valid.
A request reads a bounded number of rounds; ``more`` means that there are others to fetch at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Any

import numpy as np

from app import wording
from app.access import permits
from app.charts import training_curve
from app.data.averages import benign, malicious_of, mean_of_known
from app.data.costs import recorded
from app.data.method_labels import labels
from app.data.pulse import silences
from app.data.thinning import evenly
from app.live import log
from app.state.links import parse_ids
from engine.core.vocabulary import DIAGNOSTICS, megabytes
from engine.metrics import summarize_clients
from storage import RETRIABLE, RunRecord, Store

MAX_POINTS = 300
MAX_RUNS = 12  # lines that can be distinguished
ROUNDS_A_REQUEST = 10_000
LOST_AFTER_S = 20.0
POLL_MS, IDLE_MS = 1000, 10_000
SUMMARIES = ("mean", "lowest5", "std")
SPENT = (*recorded("megabytes"), "seconds")
NOTHING = (np.zeros(0, dtype=np.int64), np.zeros(0))

Columns = dict[str, np.ndarray]
Points = tuple[np.ndarray, np.ndarray]  # rounds, values


@dataclass(frozen=True)
class Curve:
    """Points of one run after a round: percent for accuracies; megabytes and seconds since the point before."""

    points: Mapping[str, Sequence[float | None]]
    clients: list[float] | None  # accuracies of the last evaluated round in percent, ascending
    more: bool


def feed(
    store: Store, cursors: Mapping[int, int], model: str = "personalized", known_log: str | None = None
) -> dict[str, Any]:
    """The JSON of one request: ``cursors`` has the runs and the last round of each that the reader has.

    ``known_log`` is the digest of the log that the reader has, "" for none; None if the log is not shown.
    """
    runs = store.queue.runs(run_ids=list(cursors), include_archived=True, newest_first=False, with_partition=False)
    curves = {run.id: curve(store, run, model, cursors[run.id]) for run in runs if _has_more(run, cursors[run.id])}
    active = any(run.is_active for run in runs)
    wait = 0 if any(c.more for c in curves.values()) else POLL_MS if active else IDLE_MS
    return {
        "runs": standings(store, runs),
        "points": {run_id: c.points for run_id, c in curves.items() if c.points["round"]},
        "clients": {run_id: c.clients for run_id, c in curves.items() if c.clients is not None},
        "log": None if known_log is None else _new_log(store, runs, known_log),
        "active": active,
        "wait_ms": wait,
    }


def _new_log(store: Store, runs: Sequence[RunRecord], known: str) -> dict[str, str] | None:
    text = log.log_of(store, runs)
    mark = log.digest(text)
    return None if mark == known else {"digest": mark, "text": text}


def curve(store: Store, run: RunRecord, model: str = "personalized", after: int = -1) -> Curve:
    """The points beyond round ``after``."""
    limit = max(ROUNDS_A_REQUEST, _stride(run))  # at least one point, so that the reader advances
    stored = store.metrics.stored_rounds(run.id, after, limit)
    rounds = [round for round in stored if _is_shown(round, run)]
    if not rounds:
        return Curve({name: [] for name in fields(run)}, None, len(stored) == limit)
    left_out = malicious(store, run)
    columns = _accuracies(store, run, model, rounds, left_out) | _losses(store, run, model, rounds, left_out)
    columns |= _costs(store, run, after, rounds) | _uploads(store, run, rounds, left_out)
    points: dict[str, Sequence[float | None]] = {"round": rounds}
    points |= {name: [_rounded(value) for value in columns[name].tolist()] for name in fields(run)[1:]}
    return Curve(points, _latest_clients(store, run, model, rounds, left_out), len(stored) == limit)


def fields(run: RunRecord) -> tuple[str, ...]:
    """The columns of a run's points."""
    return ("round", *training_curve.columns_of(run))


def whole_curve(store: Store, run: RunRecord, model: str = "personalized") -> Curve:
    """All points up to now."""
    points: dict[str, list[float | None]] = {name: [] for name in fields(run)}
    clients, after = None, -1
    while True:
        part = curve(store, run, model, after)
        for name, values in part.points.items():
            points[name] += values
        clients = part.clients or clients
        if not part.more:
            return Curve(points, clients, False)
        after = int(points["round"][-1] or 0)


def malicious(store: Store, run: RunRecord) -> list[int]:
    """The malicious clients of a run, which summaries leave out."""
    if not run.config.get("attack"):
        return []
    return malicious_of(store.queue.get(run.id).partition)


def standings(store: Store, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """The state of each run, in numbers and in words."""
    label, silent_s, again = labels(runs), silences(store, runs), retried(store, runs)
    return [_standing(run, label[run.id], silent_s.get(run.id, 0.0), again.get(run.id)) for run in runs]


def _standing(run: RunRecord, label: str, silent_s: float, again: int | None) -> dict[str, Any]:
    """``again`` is the run that repeats it."""
    return {
        "id": run.id,
        "label": label,
        "seed": run.seed,
        "status": status_of(run, silent_s),
        "round": run.round,
        "rounds": run.rounds,
        "share": max(0, run.round) / run.rounds,
        "progress": f"retried as run {again}" if again else progress(run, silent_s),
        "control": run.control,
        "error": first_line(run.error),
        "actions": [] if again or not permits.theirs("change", [run]) else actions(run),
    }


def retried(store: Store, runs: Sequence[RunRecord]) -> dict[int, int]:
    """The newest retry of each failed run that was queued again."""
    ended = [run.id for run in runs if "retry" in actions(run)]
    return store.queue.repeats(ended) if ended else {}


def status_of(run: RunRecord, silent_s: float = 0.0) -> str:
    """The stored status, or ``lost`` for a running one that is silent, or ``starting`` before its first round."""
    if run.status != "running":
        return run.status
    if silent_s > LOST_AFTER_S:
        return "lost"
    return "starting" if run.round < 0 else "running"


def progress(run: RunRecord, silent_s: float = 0.0) -> str:
    """``round 12 of 50 · 0.3 s per round · 12 s left``."""
    status = status_of(run, silent_s)
    if run.round < 0 and status != "lost":
        return wording.STATUS_MEANING[status]
    words = [f"round {run.round} of {run.rounds}"] if run.round >= 0 else []
    if status == "lost":
        words.append(f"no heartbeat for {wording.duration(silent_s)}" if isfinite(silent_s) else "no worker")
    elif run.seconds_per_round is not None:
        words.append(f"{wording.seconds(run.seconds_per_round)} per round")
        if run.status == "running" and run.round < run.rounds:
            words.append(f"{wording.duration(run.seconds_per_round * (run.rounds - run.round))} left")
    if run.control:
        words.append("cancelling" if run.control == "cancel" else "pausing")
    return " · ".join(words)


def actions(run: RunRecord) -> list[str]:
    """The actions available for the run now."""
    if run.control == "cancel":
        return []
    if run.status == "paused" or run.control == "pause":
        return ["resume", "cancel"]
    if run.is_active:
        return ["pause", "cancel"]
    return ["retry"] if run.status in RETRIABLE else []


def parse_cursors(runs: str, after: str) -> dict[int, int]:
    """``runs=3,5&after=10,-1`` of the address. Raises ValueError with what is expected."""
    ids = parse_ids(runs)
    try:
        seen = [max(-1, int(part)) for part in after.split(",")] if after else [-1] * len(ids)
    except ValueError as error:
        raise ValueError("runs and after must be comma-separated whole numbers, like runs=3,5") from error
    if not ids or len(ids) != len(seen) or len(ids) > MAX_RUNS:
        raise ValueError(f"give 1 to {MAX_RUNS} runs, each with its last known round")
    return dict(zip(ids, seen, strict=True))


def first_line(text: str | None) -> str | None:
    return text.strip().splitlines()[0] if text and text.strip() else None


def _stride(run: RunRecord) -> int:
    every = max(1, int((run.config.get("evaluation") or {}).get("every", 1)))
    return every * ceil(run.rounds / every / MAX_POINTS)


def _has_more(run: RunRecord, after: int) -> bool:
    """Whether a round to show exists after ``after``: nothing is read for thinned rounds."""
    stride = _stride(run)
    following = min((after // stride + 1) * stride, run.rounds)
    return run.round > after and (run.round >= following or run.is_finished)


def _is_shown(round: int, run: RunRecord) -> bool:
    """Evaluated rounds, thinned to MAX_POINTS; always the last round of a run."""
    return round % _stride(run) == 0 or round == run.rounds or (run.is_finished and round == run.round)


def _accuracies(store: Store, run: RunRecord, model: str, rounds: Sequence[int], left_out: Sequence[int]) -> Columns:
    """Summaries over clients of the accuracies of ``rounds``, in percent; on test data they are stored."""
    if not run.is_tested:
        at, values = store.metrics.array(run.id, f"{model}.val_accuracy", rounds)
        each = [summarize_clients(row, np.ones_like(row)) for row in benign(values, left_out)]
        return {name: 100 * _at(rounds, (at, np.array([one[name] for one in each]))) for name in SUMMARIES}
    names = {f"{model}.{name}": name for name in SUMMARIES}
    found = store.metrics.scalars([run.id], list(names), rounds=rounds)[run.id]
    return {short: 100 * _at(rounds, found.get(name, NOTHING)) for name, short in names.items()}


def _losses(store: Store, run: RunRecord, model: str, rounds: Sequence[int], left_out: Sequence[int]) -> Columns:
    """Means over the benign clients that have one."""
    columns = {}
    evaluated = "loss" if run.is_tested else "val_loss"
    for short, name in (("loss", f"{model}.{evaluated}"), ("train_loss", "train_loss")):
        at, values = store.metrics.array(run.id, name, rounds)
        columns[short] = _at(rounds, (at, mean_of_known(benign(values, left_out))))
    return columns


def _costs(store: Store, run: RunRecord, after: int, rounds: Sequence[int]) -> Columns:
    """The costs of each of ``rounds`` including the skipped rounds before it."""
    sums = store.metrics.sums(run.id, SPENT, after, rounds[-1], _stride(run))
    spent = np.array([[own.get(name, 0.0) for name in SPENT] for own in sums.values()])
    of_rounds = np.zeros((len(rounds), len(SPENT)))
    at = np.searchsorted(np.array(rounds), np.minimum(list(sums), rounds[-1]))
    np.add.at(of_rounds, at, spent.reshape(-1, len(SPENT)))
    costs = dict(zip(SPENT, of_rounds.T, strict=True))
    return {"megabytes": megabytes(costs), "seconds": costs["seconds"]}


def _uploads(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Columns:
    """What the run recorded about its uploads, for the panels that it has."""
    wanted = set(training_curve.columns_of(run)) - set(training_curve.COLUMNS)
    return {name: _at(rounds, UPLOADS[name](store, run, rounds, left_out)) for name in wanted}


def _arrived(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Points:
    at, values = store.metrics.array(run.id, f"{DIAGNOSTICS}.arrived", rounds)
    return at, np.nansum(values, axis=1)


def _benign_norm(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Points:
    at, values = store.metrics.array(run.id, f"{DIAGNOSTICS}.update_norm", rounds)
    return at, mean_of_known(benign(values, left_out))


def _malicious_norm(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Points:
    at, values = store.metrics.array(run.id, f"{DIAGNOSTICS}.update_norm", rounds)
    return at, mean_of_known(values[:, list(left_out)] if len(at) else values)


def _compression_error(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Points:
    return _scalar(store, run, "compression.error", rounds)


def _epsilon(store: Store, run: RunRecord, rounds: Sequence[int], left_out: Sequence[int]) -> Points:
    """Of all clients together, or the largest of a client."""
    at, values = store.metrics.array(run.id, f"{DIAGNOSTICS}.privacy.epsilon", rounds)
    if not len(at):
        return _scalar(store, run, "privacy.epsilon", rounds)
    return at, np.where(np.isfinite(values), values, -np.inf).max(axis=1)


def _scalar(store: Store, run: RunRecord, name: str, rounds: Sequence[int]) -> Points:
    found = store.metrics.scalars([run.id], [f"{DIAGNOSTICS}.{name}"], rounds=rounds)[run.id]
    return found.get(f"{DIAGNOSTICS}.{name}", NOTHING)


UPLOADS: Mapping[str, Callable[[Store, RunRecord, Sequence[int], Sequence[int]], Points]] = {
    "arrived": _arrived,
    "benign_norm": _benign_norm,
    "malicious_norm": _malicious_norm,
    "compression_error": _compression_error,
    "epsilon": _epsilon,
}


def _latest_clients(
    store: Store, run: RunRecord, model: str, rounds: Sequence[int], left_out: Sequence[int]
) -> list[float] | None:
    """The latest accuracies of benign clients, in percent, ascending. The last round of a stopped run may lack them."""
    evaluated = "accuracy" if run.is_tested else "val_accuracy"
    _, accuracies = store.metrics.array(run.id, f"{model}.{evaluated}", rounds[-2:])
    if not len(accuracies):
        return None
    latest = benign(accuracies[-1], left_out)
    known = latest[np.isfinite(latest)]
    ordered = np.sort(np.round(known.astype(float) * 100, 2)).tolist()
    return [ordered[i] for i in evenly(len(ordered), MAX_POINTS)]


def _at(rounds: Sequence[int], curve: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The curve's values at ``rounds``; NaN where it has none."""
    values = np.full(len(rounds), np.nan)
    values[np.searchsorted(rounds, curve[0])] = curve[1]
    return values


def _rounded(value: float) -> float | None:
    """Six digits: more than a screen shows, and less to send."""
    return float(f"{value:.6g}") if isfinite(value) else None
