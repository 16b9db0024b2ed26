"""Analyses of finished runs, computed from their stored models and data. One file each.

@ANALYSES.register("sharpness", title="Sharpness", paper="Foret et al., ICLR 2021")
@dataclass(frozen=True)
class SharpnessOf:
    options: Options                                     of type AnalysisOptions

    def compute(self, subject: Subject) -> Findings: ...
"""

from typing import Protocol

from pydantic import Field

from engine.analyses.support.loaded_run import Subject
from engine.core.findings import Findings
from engine.core.registry import Options
from engine.core.vocabulary import When


class AnalysisOptions(Options):
    """Options of all analyses. Requests with equal options share one result."""

    which: When = Field("last", title="Models", description="Of the last or of the best round.")


class Analysis(Protocol):
    """An analysis, created from its options; it does not change the subject."""

    def compute(self, subject: Subject) -> Findings:
        """Computes the findings. Calls ``subject.progress`` often, which may raise to stop it. Raises Unsupported."""
