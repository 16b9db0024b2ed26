"""Computes one claimed analysis: from the run's configuration and stored models to a file with the findings."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig, read_options
from engine.core.devices import set_threads
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.core.vocabulary import MODELS_OF, When
from engine.export.saved_models import unpack
from engine.simulation.simulate import Models
from engine.worker.executor import AnalysisTicket
from engine.worker.failures import reason
from engine.worker.heartbeat import HEARTBEAT
from engine.worker.retry import until_available
from storage import (
    AnalysisStatus,
    ArtifactDamaged,
    ArtifactNotWritten,
    NewArtifact,
    RunNotFound,
    RunRecord,
    StorageError,
    Store,
    Transient,
)

REPORT_S = 0.4  # interval for storing progress and reading cancel requests

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an analysis ended: with a result, or with an error unless it was cancelled."""

    status: AnalysisStatus
    result: NewArtifact | None = None
    error: str | None = None


class Cancelled(Exception):
    """Raised to stop a cancelled analysis. Not an error."""


class ProgressReporter:
    """The progress callback of an analysis, from 0 to 1. Cheap; progress never decreases. Raises Cancelled."""

    def __init__(self, store: Store, ticket: AnalysisTicket, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self.ticket, self._clock = store, ticket, clock
        self._share = 0.0
        self._reported = clock()

    def __call__(self, share: float) -> None:
        if math.isfinite(share) and share > self._share:
            self._share = min(share, 1.0)
            HEARTBEAT.beat()  # only if there was progress
        if self._clock() - self._reported >= REPORT_S:
            self.report()

    def report(self) -> None:
        try:
            control = self.store.analyses.report(self.ticket.analysis_id, self.ticket.epoch, self._share)
        except Transient as error:  # continue; the next report retries
            log.warning("analysis %d: %s", self.ticket.analysis_id, error)
            control = ""
        self._reported = self._clock()
        if control:
            raise Cancelled


class AnalysisSession:
    """The owner of one claimed analysis. Every write raises Fenced once the claim is lost."""

    def __init__(self, store: Store, ticket: AnalysisTicket, threads: int) -> None:
        self.store, self.ticket, self.threads = store, ticket, threads
        self.progress = ProgressReporter(store, ticket)

    def run(self) -> None:
        try:
            outcome = self._outcome()
        except RunNotFound:  # it was just moved to the trash, from which it may be restored
            until_available(lambda: self.store.analyses.requeue(self.ticket.analysis_id, self.ticket.epoch))
            return
        finish = partial(self.store.analyses.finish, self.ticket.analysis_id, self.ticket.epoch)
        until_available(lambda: finish(outcome.status, result=outcome.result, error=outcome.error))

    def _outcome(self) -> Outcome:
        try:
            return Outcome(status="done", result=self._compute())
        except Cancelled:
            return Outcome(status="cancelled")
        except ArtifactDamaged as error:
            return Outcome(status="failed", error=str(error))
        except ArtifactNotWritten as error:
            return Outcome(status="failed", error=f"the result could not be stored: {error}, then request it again")
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  analyses, methods and data sets may be third-party plugins
            why = until_available(partial(reason, self.store, self.ticket.run_id, error))
            return Outcome(status="failed", error=why)

    def _compute(self) -> NewArtifact:
        """Computes the findings and writes them to a file."""
        analysis = until_available(lambda: self.store.analyses.get(self.ticket.analysis_id))
        run = until_available(lambda: self.store.queue.get(self.ticket.run_id))
        entry = ANALYSES.get(analysis.kind)
        options: Any = read_options(entry.options, analysis.params, analysis.kind)
        config = RunConfig.from_dict(run.config)
        set_threads(config.machine.threads or self.threads)
        models, round = self._models(run, options.which)
        data_dir = self.ticket.data_dir
        subject = Subject.load(config, models, round, data_dir=data_dir, progress=self.progress)
        findings: Findings = entry.make(options).compute(subject)
        self.progress.report()  # a last chance to cancel
        return self.store.artifacts.write_file(self.ticket.run_id, f"analysis-{entry.name}", round, findings.to_bytes())

    def _models(self, run: RunRecord, which: When) -> tuple[Models, int]:
        """The models of the last or the best round, and that round. Raises Unsupported if they are not stored."""
        artifact = until_available(lambda: self.store.artifacts.latest(run.id, MODELS_OF[which]))
        if artifact is None:
            raise Unsupported(
                f"the models of this run's {which} round are not available: the run is {run.status}, or they were too "
                "large, deleted, or not imported; rerun it"
            )
        return unpack(self.store.artifacts.read(artifact)), artifact.round
