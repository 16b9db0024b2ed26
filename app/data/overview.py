"""The status strip of every page: running and queued runs, time left, device, and alerts."""

import os
import time
from functools import lru_cache
from itertools import chain
from typing import Any

from app import wording
from app.access.rules import is_open, is_read_only
from app.data import ended, forecast
from app.data.pulse import GONE_AFTER_S, pulse_of
from storage import Activity, Store

BUSY_MS, IDLE_MS = 2000, 10_000
LOW_DISK_BYTES = 1e9
MAX_AGE_S = 10.0  # of the forecast and the free space, which are the slowest to read


def overview(store: Store, watched: str = "", seen: str = "") -> dict[str, Any]:
    """The JSON of one request.

    ``watched`` is ``active`` of the browser's last request, ``seen`` the runs that are in view.
    """
    now, is_alive = store.activity(), store.dispatcher_is_running()
    end_s, free_bytes, refused = _slow_facts(store, int(time.monotonic() / MAX_AGE_S))
    gone_s = pulse_of(store.url).gone_s(is_alive)
    outage = _outage(store, now)
    runs = len(now.runs["queued"]) + len(now.runs["running"])
    waits, stall = runs + now.analyses, _stall(store, now, is_alive)
    words = [
        *_demo_words(),
        *_count_words(now),
        *_time_words(end_s if waits else None),
        _engine_words(now, is_alive, stall, outage),
    ]
    active, next_id = sorted(chain.from_iterable(now.runs.values())), now.last_run + 1
    return {
        "text": " · ".join(words),
        "alerts": [
            *_open_alert(),
            *([f"{outage}."] if outage else _engine_alert(gone_s, runs)),
            *([f"{stall}."] if stall else []),
            *_disk_alert(free_bytes),
            *refused,
        ],
        "busy": bool(waits),
        "engine": is_alive,
        "wait_ms": BUSY_MS if waits or not is_alive else IDLE_MS,
        "active": f"{wording.spans(active[: ended.MAX_RUNS])},{next_id}-",
        "ended": ended.news(store, active, _may_have_ended(watched, seen, next_id)),
    }


def _may_have_ended(watched: str, seen: str, next_id: int) -> set[int]:
    first_new = ended.first_new(watched)
    new = range(max(first_new, next_id - ended.MAX_RUNS), next_id) if first_new is not None else ()
    return {*ended.parse_spans(watched), *new}.difference(ended.parse_spans(seen))


@lru_cache(maxsize=4)
def _slow_facts(store: Store, tick: int) -> tuple[float | None, int, list[str]]:
    """The seconds until the queue is done, the free bytes, and machines that get no work.

    Read once per ``tick`` for all requests.
    """
    end_s, free_bytes = forecast.of_queue(store, store.queue.waiting()).end_s, store.disk_use().free_bytes
    refused = [m for m in store.engines.list() if m.problem and not m.is_outage]
    return end_s, free_bytes, [f"{m.host} gets no work: {m.problem}." for m in refused]


def _demo_words() -> list[str]:
    return ["read-only demo"] if is_read_only(os.environ) else []


def _open_alert() -> list[str]:
    """The alert that the app is open to the network; none in a demo, where nothing can be changed."""
    if not is_open(os.environ) or is_read_only(os.environ):
        return []
    return [
        "Everyone on the network can see, queue and delete everything here: nobody has to sign in (FEDSCAPE_OPEN=1)."
    ]


def _count_words(now: Activity) -> list[str]:
    words = [f"{len(now.runs[status])} {wording.STATUS[status]}" for status in ("running", "queued")]
    if now.runs["paused"]:
        words.append(f"{len(now.runs['paused'])} paused")
    if now.analyses:
        words.append(wording.plural(now.analyses, "analysis", "analyses"))
    return words


def _time_words(end_s: float | None) -> list[str]:
    return [f"{wording.about(end_s)} left"] if end_s else []


def _outage(store: Store, now: Activity) -> str:
    """Why the dispatcher cannot reach any machine; usually empty."""
    if now.devices:
        return ""
    return next((machine.problem for machine in store.engines.list() if machine.is_outage), "")


def _stall(store: Store, now: Activity, is_alive: bool) -> str:
    """Why a running worker cannot work; usually empty."""
    if not is_alive:
        return ""
    if notice := store.dispatcher_notice():
        return notice
    writer = None if now.devices else store.writer()
    if writer is None or (writer.is_worker and not writer.is_abandoned):  # which the dispatcher restarts
        return ""
    return f"The worker cannot store anything: the database is locked by {writer}; {writer.advice}"


def _engine_words(now: Activity, is_alive: bool, stall: str, outage: str) -> str:
    if outage:  # also while the dispatcher lets another one try
        return "no cluster"
    if not is_alive:
        return "no worker: start it with make run"
    if stall:
        return "worker waiting"
    if not now.devices:
        return "worker starting"
    where = now.devices[0] if len(now.devices) == 1 else wording.plural(len(now.devices), "machine")
    return f"{where}, {wording.plural(now.slots, 'slot')}"


def _engine_alert(gone_s: float, runs: int) -> list[str]:
    if gone_s < GONE_AFTER_S:
        return []
    waiting = f": {wording.plural(runs, 'run waits', 'runs wait')}" if runs else ""
    return [
        f"No worker is running{waiting}. With make run it restarts automatically, and the terminal shows why it "
        "stopped; otherwise start it with python -m engine worker."
    ]


def _disk_alert(free_bytes: int) -> list[str]:
    if free_bytes >= LOW_DISK_BYTES:
        return []
    return [
        f"The disk is nearly full: {wording.size_bytes(free_bytes)} left. Runs cannot store their rounds when it is "
        "full. Delete runs or models in the Library, or free space elsewhere."
    ]
