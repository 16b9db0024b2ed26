"""Who computes: an executor runs tickets and knows nothing of queues, nor of what the tickets are for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Key = tuple[str, int]


@dataclass(frozen=True)
class Ticket:
    """The right to work on one claimed run, and where its data lie."""

    run_id: int
    epoch: int
    database_url: str
    artifacts: Path
    data_dir: Path | None = None  # of the data sets, by default DATA_DIR

    @property
    def key(self) -> Key:
        """Tells it from all other tickets in use."""
        return "run", self.run_id


@dataclass(frozen=True)
class AnalysisTicket:
    """The right to work on one claimed analysis of a finished run."""

    analysis_id: int
    run_id: int
    epoch: int
    attempts: int  # this one included
    database_url: str
    artifacts: Path
    data_dir: Path | None = None

    @property
    def key(self) -> Key:
        return "analysis", self.analysis_id


Work = Ticket | AnalysisTicket


@dataclass(frozen=True)
class Ended:
    """A ticket that nobody works on any more; ``problem`` where its work could not be brought to an end."""

    ticket: Work
    problem: str | None = None


class Executor(Protocol):
    """Runs tickets on ``slots`` shares of ``device``. It never retries: that is the dispatcher's business.

    Beside these slots there is one for an analysis, so that none waits for a run to end. A ticket whose worker hangs
    ends with a problem; meanwhile ``on_notice`` gets what the screen should say, and "" once it no longer holds.
    """

    slots: int
    device: str
    on_notice: Callable[[str], None]

    @property
    def free(self) -> int:
        """Tickets of any kind that can be submitted now."""

    @property
    def free_for_analyses(self) -> int:
        """The same and, unless it is taken, the slot that only analyses get."""

    def submit(self, ticket: Work) -> None:
        """Start working on it; only while there is a free slot."""

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        """Tickets that ended since the last call; waits for the first of them up to ``wait_s``."""

    def kill(self, ticket: Work) -> None:
        """Stop it at once, whatever it is doing. It does not appear in ``poll`` any more."""

    def close(self) -> None:
        """Stop everything at once."""
