"""The dispatcher's work queues, runs and analyses: claiming work, and requeueing it when a worker fails."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from engine.config.alike import without_seeds
from engine.worker.executor import AnalysisTicket, Key, Ticket
from engine.worker.limits import owner_limits
from engine.worker.recorder import CHECKPOINT
from storage import Fenced, RunNotFound, RunRecord, Store

MAX_DEATHS = 3  # worker deaths in one run without a new checkpoint, or in one analysis, before giving up
MAX_DEATHS_READ = 10_000  # at once, of queued runs; few have any
DIED, KILLED, REFUSED = "worker-died", "worker-killed", "worker-refused"

T = TypeVar("T")


class Claims(Protocol[T]):
    """A queue of work in the database."""

    def requeue_running(self) -> None:
        """At start: requeues what an earlier dispatcher left running."""

    def requeue_lost_claims(self, known: Collection[Key]) -> None:
        """Requeues what was claimed without a response; ``known`` is in progress."""

    def claim(self, together: bool) -> list[T]:
        """The next ticket, if any; with ``together``, also the tickets of runs to train together with it."""

    def to_continue(self, tickets: Sequence[T]) -> set[Key]:
        """The keys of the tickets whose work is to go on."""

    def release(self, ticket: T) -> str:
        """Gives up a claim. Returns the new status; raises Fenced if it has another owner or has ended."""

    def worker_died(self, ticket: T, problem: str) -> None:
        """Requeues work that could not be completed, or fails it after MAX_DEATHS attempts."""

    def refused(self, ticket: T, problem: str) -> None:
        """Requeues work that a machine did not accept; there is no limit on how often."""


class RunClaims:
    """Queued runs, owners taking turns; only ``run_ids`` if given."""

    def __init__(self, store: Store, data_dir: Path | None, run_ids: Collection[int] | None = None) -> None:
        self.store, self.data_dir = store, data_dir
        self._run_ids = None if run_ids is None else list(run_ids)
        self._limits = owner_limits()

    def also(self, run_ids: Collection[int]) -> None:
        """Adds to the runs that may be claimed, if only given ones may be."""
        if self._run_ids is not None:
            self._run_ids += run_ids

    def own(self, run_ids: Collection[int]) -> set[int]:
        """The runs among these that may be claimed."""
        return set(run_ids) if self._run_ids is None else set(run_ids).intersection(self._run_ids)

    def studies(self) -> list[int]:
        """Ids of the studies whose runs may be claimed."""
        return self.store.studies.open() if self._run_ids is None else self.store.studies.of_runs(self._run_ids)

    def requeue_running(self) -> None:
        self.store.queue.requeue_running()

    def requeue_lost_claims(self, known: Collection[Key]) -> None:
        running = self.store.queue.runs(statuses=["running"], include_archived=True, with_partition=False)
        for run in running:
            if ("run", run.id) not in known:
                self.store.queue.requeue(run.id, run.epoch)

    def claim(self, together: bool) -> list[Ticket]:
        run = self.store.queue.claim(self._run_ids, self._limits)
        if run is None:
            return []
        return [self._ticket(one) for one in (run, *(self._claim_alike(run) if together else ()))]

    def _claim_alike(self, run: RunRecord) -> list[RunRecord]:
        """Claims queued runs of the same experiment that differ in their seeds only, as many as ``run`` asks for.

        A run whose worker has died is computed alone, so that it cannot take others with it.
        """
        most, claimed = run.config.get("seeds_together", 1) - 1, list[RunRecord]()
        if most == 0 or self._died([run.id]):
            return claimed
        queued = self.store.queue.runs(
            experiment_ids=[run.experiment_id],
            statuses=["queued"],
            labels=[run.label],
            include_archived=True,
            newest_first=False,
            with_partition=False,
        )
        what = without_seeds(run.config)
        alike = self.own([one.id for one in queued if without_seeds(one.config) == what])
        alike -= self._died(alike)
        while len(claimed) < most and (other := self.store.queue.claim(list(alike), self._limits)) is not None:
            claimed.append(other)
        return claimed

    def _died(self, run_ids: Collection[int]) -> set[int | None]:
        """The runs among these whose worker has died."""
        deaths = self.store.events.for_runs(list(run_ids), limit=MAX_DEATHS_READ, kinds=[DIED])
        return {event.run_id for event in deaths}

    def _ticket(self, run: RunRecord) -> Ticket:
        return Ticket(run.id, run.epoch, **_locations(self.store, self.data_dir))

    def to_continue(self, tickets: Sequence[Ticket]) -> set[Key]:
        ids = [ticket.run_id for ticket in tickets]
        runs = self.store.queue.runs(run_ids=ids, include_archived=True, with_partition=False)
        ours = {(run.id, run.epoch) for run in runs if _may_continue(run)}
        return {ticket.key for ticket in tickets if (ticket.run_id, ticket.epoch) in ours}

    def release(self, ticket: Ticket) -> str:
        return self.store.queue.requeue(ticket.run_id, ticket.epoch)

    def worker_died(self, ticket: Ticket, problem: str) -> None:
        last_checkpoint = _last_checkpoint(self.store, ticket.run_id)
        died = self.store.events.list(ticket.run_id, kinds=[DIED])
        with suppress(Fenced):  # it has just finished
            if sum(event.message.endswith(last_checkpoint) for event in died) + 1 < MAX_DEATHS:
                self.release(ticket)
            else:
                error = f"{_giving_up(problem)}, then retry"
                self.store.queue.finish(ticket.run_id, ticket.epoch, "failed", error=error)
        add_event(self.store, ticket.run_id, "error", DIED, f"{problem}; {last_checkpoint}")

    def refused(self, ticket: Ticket, problem: str) -> None:
        with suppress(Fenced):
            self.release(ticket)
        _add_refusal(self.store, ticket.run_id, f"returned to the queue: {problem}")


class AnalysisClaims:
    """Queued analyses, oldest first."""

    def __init__(self, store: Store, data_dir: Path | None) -> None:
        self.store, self.data_dir = store, data_dir

    def requeue_running(self) -> None:
        self.store.analyses.requeue_running()

    def requeue_lost_claims(self, known: Collection[Key]) -> None:
        for found in self.store.analyses.active():
            if found.status == "running" and ("analysis", found.id) not in known:
                self.store.analyses.requeue(found.id, found.epoch)

    def claim(self, together: bool) -> list[AnalysisTicket]:
        found = self.store.analyses.claim()
        if found is None:
            return []
        locations = _locations(self.store, self.data_dir)
        return [AnalysisTicket(found.id, found.run_id, found.epoch, found.attempts, **locations)]

    def to_continue(self, tickets: Sequence[AnalysisTicket]) -> set[Key]:
        active = self.store.analyses.active()
        ours = {(a.id, a.epoch) for a in active if a.status == "running" and not a.control}
        return {ticket.key for ticket in tickets if (ticket.analysis_id, ticket.epoch) in ours}

    def release(self, ticket: AnalysisTicket) -> str:
        return self.store.analyses.requeue(ticket.analysis_id, ticket.epoch)

    def worker_died(self, ticket: AnalysisTicket, problem: str) -> None:
        with suppress(Fenced):
            if ticket.attempts < MAX_DEATHS:
                self.store.analyses.requeue(ticket.analysis_id, ticket.epoch, has_died=True)
            else:
                error = f"{_giving_up(problem)}, then request it again"
                self.store.analyses.finish(ticket.analysis_id, ticket.epoch, "failed", error=error)
        add_event(self.store, ticket.run_id, "error", DIED, f"analysis {ticket.analysis_id}: {problem}")

    def refused(self, ticket: AnalysisTicket, problem: str) -> None:
        with suppress(Fenced):
            self.release(ticket)
        _add_refusal(self.store, ticket.run_id, f"analysis {ticket.analysis_id} returned to the queue: {problem}")


def _may_continue(run: RunRecord) -> bool:
    """Whether nobody asked the worker to stop. After the end of a run, the worker still deletes its checkpoints."""
    return not run.control if run.status == "running" else run.is_finished or run.status == "paused"


def add_event(store: Store, run_id: int, level: str, kind: str, message: str) -> None:
    """Adds to the run's log, if the run still exists."""
    with suppress(RunNotFound):
        store.events.add(run_id, level, kind, message)


def _add_refusal(store: Store, run_id: int, message: str) -> None:
    """Adds to the run's log once: a refusal repeats until the machine is repaired."""
    if not any(event.message == message for event in store.events.list(run_id, kinds=[REFUSED])):
        add_event(store, run_id, "warning", REFUSED, message)


def _last_checkpoint(store: Store, run_id: int) -> str:
    """Describes the last checkpoint: equal for deaths without a new checkpoint in between."""
    last = store.artifacts.latest(run_id, CHECKPOINT)
    return "there was no checkpoint yet" if last is None else f"its last checkpoint is of round {last.round}"


def _giving_up(problem: str) -> str:
    return f"given up after {MAX_DEATHS} attempts: {problem}"


def _locations(store: Store, data_dir: Path | None) -> dict[str, Any]:
    return {"database_url": store.url, "artifacts": store.artifacts.folder, "data_dir": data_dir}
