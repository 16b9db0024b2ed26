"""Analyses of finished runs: what their stored models tell on their stored data. One a file.

@ANALYSES.register("sharpness", title="Sharpness", paper="Foret et al., ICLR 2021")
@dataclass(frozen=True)
class SharpnessOf:
    options: Options                                     of type AnalysisOptions

    def compute(self, subject: Subject) -> Findings: ...
"""

from typing import Literal, Protocol

from pydantic import Field

from engine.analyses.support.loaded_run import Subject
from engine.core.findings import Findings
from engine.core.registry import Options


class AnalysisOptions(Options):
    """Base of every analysis' options. Two requests with equal options are one."""

    which: Literal["last", "best"] = Field("last", title="Models", description="Of the last or of the best round.")


class Analysis(Protocol):
    """Made from its options; computes without touching the subject."""

    def compute(self, subject: Subject) -> Findings:
        """Calls ``subject.progress`` often: it may raise to stop the work. Raises Unsupported where it cannot work."""
