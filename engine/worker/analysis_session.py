"""One claimed analysis, worked on: from the run's configuration and stored models to findings in a file."""

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig, read_options
from engine.core.errors import Unsupported
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.export.saved_models import MODELS_BEST, MODELS_LAST, unpack
from engine.simulation.simulate import Models
from engine.worker.executor import AnalysisTicket
from engine.worker.failures import reason
from engine.worker.heartbeat import OURS
from engine.worker.retry import patiently
from storage import (
    AnalysisStatus,
    ArtifactDamaged,
    ArtifactNotWritten,
    NewArtifact,
    RunRecord,
    StorageError,
    Store,
    Transient,
)

REPORT_S = 0.4  # progress reaches the screen, and a cancellation the analysis, within this time
MODELS_OF = {"last": MODELS_LAST, "best": MODELS_BEST}

log = logging.getLogger(__name__)


class Cancelled(Exception):
    """The analysis is asked to stop here. Not an error."""


class Watch:
    """What an analysis calls with its progress: mostly looks at the clock. Never goes back; raises Cancelled."""

    def __init__(self, store: Store, ticket: AnalysisTicket, clock: Callable[[], float] = time.monotonic) -> None:
        self.store, self.ticket, self._clock = store, ticket, clock
        self._share = 0.0
        self._reported = clock()

    def __call__(self, share: float) -> None:
        if math.isfinite(share) and share > self._share:
            self._share = min(share, 1.0)
            OURS.beat()  # progress that stands still is no sign of life
        if self._clock() - self._reported >= REPORT_S:
            self.report()

    def report(self) -> None:
        try:
            control = self.store.analyses.report(self.ticket.analysis_id, self.ticket.epoch, self._share)
        except Transient as error:  # the work goes on; the next report tells more
            log.warning("analysis %d: %s", self.ticket.analysis_id, error)
            control = ""
        self._reported = self._clock()
        if control:
            raise Cancelled


class AnalysisSession:
    """The owner of one claimed analysis; everything it writes to it is fenced."""

    def __init__(self, store: Store, ticket: AnalysisTicket, threads: int) -> None:
        self.store, self.ticket, self.threads = store, ticket, threads
        self.watch = Watch(store, ticket)

    def run(self) -> None:
        status, file, error = self._outcome()
        finish = self.store.analyses.finish
        patiently(lambda: finish(self.ticket.analysis_id, self.ticket.epoch, status, file, error))

    def _outcome(self) -> tuple[AnalysisStatus, NewArtifact | None, str | None]:
        try:
            kind, round, findings = self._compute()
            file = self.store.artifacts.write_file(self.ticket.run_id, f"analysis-{kind}", round, findings)
            return "done", file, None
        except Cancelled:
            return "cancelled", None, None
        except ArtifactDamaged as error:
            return "failed", None, str(error)
        except ArtifactNotWritten as error:
            return "failed", None, f"what was found could not be kept: {error}, then ask for it again"
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  of an analysis, a method or a data set, which may be anybody's
            return "failed", None, patiently(partial(reason, self.store, self.ticket.run_id, error))

    def _compute(self) -> tuple[str, int, bytes]:
        """(kind, round, findings as bytes)."""
        asked = patiently(lambda: self.store.analyses.get(self.ticket.analysis_id))
        run = patiently(lambda: self.store.queue.get(self.ticket.run_id))
        entry = ANALYSES.get(asked.kind)
        options: Any = read_options(entry.options, asked.params, asked.kind)
        config = RunConfig.from_dict(run.config)
        torch.set_num_threads(config.machine.threads or self.threads)
        models, round = self._models(run, options.which)
        data_dir = self.ticket.data_dir
        subject = Subject.load(config, models, round, data_dir=data_dir, progress=self.watch)
        findings: Findings = entry.make(options).compute(subject)
        self.watch.report()  # cancelled at the last moment
        return entry.name, round, findings.to_bytes()

    def _models(self, run: RunRecord, which: str) -> tuple[Models, int]:
        """Those of the last or the best round, and that round. Raises Unsupported where they are not kept."""
        artifact = patiently(lambda: self.store.artifacts.latest(run.id, MODELS_OF[which]))
        if artifact is None:
            raise Unsupported(
                f"the models of this run's {which} round are not kept: it is {run.status}, or they were too large, "
                "were deleted, or it was computed elsewhere; run it again"
            )
        return unpack(self.store.artifacts.read(artifact)), artifact.round
