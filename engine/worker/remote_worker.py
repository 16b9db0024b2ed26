"""A worker on another machine. It refuses work unless it runs the same program and sees the same folders."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.paths import PLUGINS, plugin_folders
from engine.worker import process
from engine.worker.executor import Work
from engine.worker.heartbeat import HEARTBEAT, HeartbeatCounts
from engine.worker.program import difference, program
from engine.worker.shared_folders import unseen
from engine.worker.slots import Slot, niceness

Plain = dict[str, Any]  # of built-in types only: other versions can read it, too


@dataclass(frozen=True)
class Orders:
    """The dispatcher's instructions for a new worker."""

    environment: Mapping[str, str]
    program: Mapping[str, str]  # the dispatcher's
    folders: Mapping[str, str]  # by variable; both machines must see them
    marker: str  # the text that the dispatcher wrote into each folder
    timeout_s: float  # how long to wait for other writers of the database

    def to_plain(self) -> Plain:
        return asdict(self)


def prepare(orders: Plain, threads: int, uses_gpu: bool) -> str:
    """Makes this process ready for tickets. Returns why it must not get any, or "".

    The environment must be set before, since imports read it.
    """
    problem = _without_plugins() or difference(orders["program"], program()) or _unseen(orders) or _without_token()
    if not problem:
        process.warm_up(_slot(threads, uses_gpu))
    return problem


def work(ticket: Work, orders: Plain, threads: int, uses_gpu: bool) -> tuple[str | None, bool]:
    """Works on a ticket. Returns None, or why its work could not be completed, and whether it was refused."""
    if problem := _unseen(orders):
        return problem, True
    return process.answer(ticket, _slot(threads, uses_gpu), orders["timeout_s"]), False


def heartbeat() -> HeartbeatCounts:
    """The counters of this process; may be called while it works."""
    return HEARTBEAT.counts


def _unseen(orders: Plain) -> str:
    return unseen({variable: Path(folder) for variable, folder in orders["folders"].items()}, orders["marker"])


def _without_plugins() -> str:
    if missing := [str(folder) for folder in plugin_folders() if not folder.is_dir()]:
        return f"it does not see the dispatcher's {PLUGINS} ({', '.join(missing)}): copy or mount the same folder there"
    return ""


def _without_token() -> str:
    """A node that was started without tokens runs code for anyone who reaches it."""
    if os.environ.get("RAY_AUTH_MODE") == "token":
        return ""
    return "its Ray was started without RAY_AUTH_MODE=token, so that anyone in the network could use it"


@cache
def _slot(threads: int, uses_gpu: bool) -> Slot:
    """The process sees only the GPU that Ray assigned to it, so its index is 0."""
    return Slot(threads, 0 if uses_gpu else None, niceness())
