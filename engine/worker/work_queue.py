"""What the dispatcher claims, runs and analyses, and what becomes of a claim whose worker did not see it through."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine.worker.executor import AnalysisTicket, Key, Ticket
from engine.worker.recorder import CHECKPOINT
from storage import Fenced, RunNotFound, Store

MAX_DEATHS = 3  # of workers of one run without a checkpoint in between, or of one analysis: it is the likely cause
DIED, KILLED = "worker-died", "worker-killed"

T = TypeVar("T")


class Claims(Protocol[T]):
    """One kind of work that is queued in the database."""

    def requeue_running(self) -> None:
        """At the start: what a dispatcher before left running is queued again."""

    def requeue_strays(self, known: Collection[Key]) -> None:
        """What was claimed without anybody hearing of it is queued again; ``known`` is being worked on."""

    def claim(self) -> T | None:
        """The next ticket, or None."""

    def wanted(self, tickets: Sequence[T]) -> set[Key]:
        """Those that shall go on."""

    def let_go(self, ticket: T) -> str:
        """Nobody works on it any more. Answers what it is now; raises Fenced where somebody else has seen to it."""

    def died(self, ticket: T, problem: str) -> None:
        """Its worker could not bring it to an end: queued again, but not for ever."""


class RunClaims:
    """Queued runs, the oldest first; none but ``run_ids``, where these are given."""

    def __init__(self, store: Store, data_dir: Path | None, run_ids: Collection[int] | None = None) -> None:
        self.store, self.data_dir = store, data_dir
        self._run_ids = None if run_ids is None else list(run_ids)

    def requeue_running(self) -> None:
        self.store.queue.requeue_running()

    def requeue_strays(self, known: Collection[Key]) -> None:
        running = self.store.queue.runs(statuses=["running"], include_archived=True, with_partition=False)
        for run in running:
            if ("run", run.id) not in known:
                self.store.queue.requeue(run.id, run.epoch)

    def claim(self) -> Ticket | None:
        run = self.store.queue.claim(self._run_ids)
        return None if run is None else Ticket(run.id, run.epoch, **_places(self.store, self.data_dir))

    def wanted(self, tickets: Sequence[Ticket]) -> set[Key]:
        ids = [ticket.run_id for ticket in tickets]
        runs = self.store.queue.runs(run_ids=ids, include_archived=True, with_partition=False)
        ours = {(run.id, run.epoch) for run in runs if run.status == "running" and not run.control}
        return {ticket.key for ticket in tickets if (ticket.run_id, ticket.epoch) in ours}

    def let_go(self, ticket: Ticket) -> str:
        return self.store.queue.requeue(ticket.run_id, ticket.epoch)

    def died(self, ticket: Ticket, problem: str) -> None:
        kept = _kept(self.store, ticket.run_id)
        died = [event for event in self.store.events.list(ticket.run_id) if event.kind == DIED]
        with suppress(Fenced):  # it had been finished just before
            if sum(event.message.endswith(kept) for event in died) + 1 < MAX_DEATHS:
                self.let_go(ticket)
            else:
                self.store.queue.finish(ticket.run_id, ticket.epoch, "failed", f"{_given_up(problem)}, then retry")
        note(self.store, ticket.run_id, "error", DIED, f"{problem}; {kept}")


class AnalysisClaims:
    """Queued analyses, the oldest first."""

    def __init__(self, store: Store, data_dir: Path | None) -> None:
        self.store, self.data_dir = store, data_dir

    def requeue_running(self) -> None:
        self.store.analyses.requeue_running()

    def requeue_strays(self, known: Collection[Key]) -> None:
        for found in self.store.analyses.active():
            if found.status == "running" and ("analysis", found.id) not in known:
                self.store.analyses.requeue(found.id, found.epoch)

    def claim(self) -> AnalysisTicket | None:
        found = self.store.analyses.claim()
        if found is None:
            return None
        places = _places(self.store, self.data_dir)
        return AnalysisTicket(found.id, found.run_id, found.epoch, found.attempts, **places)

    def wanted(self, tickets: Sequence[AnalysisTicket]) -> set[Key]:
        active = self.store.analyses.active()
        ours = {(a.id, a.epoch) for a in active if a.status == "running" and not a.control}
        return {ticket.key for ticket in tickets if (ticket.analysis_id, ticket.epoch) in ours}

    def let_go(self, ticket: AnalysisTicket) -> str:
        return self.store.analyses.requeue(ticket.analysis_id, ticket.epoch)

    def died(self, ticket: AnalysisTicket, problem: str) -> None:
        with suppress(Fenced):
            if ticket.attempts < MAX_DEATHS:
                self.let_go(ticket)
            else:
                error = f"{_given_up(problem)}, then ask for it again"
                self.store.analyses.finish(ticket.analysis_id, ticket.epoch, "failed", error=error)
        note(self.store, ticket.run_id, "error", DIED, f"analysis {ticket.analysis_id}: {problem}")


def note(store: Store, run_id: int, level: str, kind: str, message: str) -> None:
    """Into the run's log, if there still is one."""
    with suppress(RunNotFound):
        store.events.add(run_id, level, kind, message)


def _kept(store: Store, run_id: int) -> str:
    """Where the run goes on from: what two deaths without a checkpoint in between have in common."""
    last = store.artifacts.latest(run_id, CHECKPOINT)
    return "there was no checkpoint yet" if last is None else f"its last checkpoint is of round {last.round}"


def _given_up(problem: str) -> str:
    return f"given up after {MAX_DEATHS} attempts: {problem}"


def _places(store: Store, data_dir: Path | None) -> dict[str, Any]:
    return {"database_url": store.url, "artifacts": store.artifacts.folder, "data_dir": data_dir}
