"""Who computes: an executor runs tickets and knows nothing of queues."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Ticket:
    """The right to work on one claimed run, and where its data lie."""

    run_id: int
    epoch: int
    database_url: str
    artifacts: Path
    data_dir: Path | None = None  # of the data sets, by default DATA_DIR


@dataclass(frozen=True)
class Ended:
    """A ticket that nobody works on any more; ``problem`` where its run could not be brought to an end."""

    ticket: Ticket
    problem: str | None = None


class Executor(Protocol):
    """Runs tickets on ``slots`` shares of ``device``. It never retries: that is the dispatcher's business."""

    slots: int
    device: str

    @property
    def free(self) -> int:
        """Tickets that can be submitted now."""

    def submit(self, ticket: Ticket) -> None:
        """Start working on it; only while there is a free slot."""

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        """Tickets that ended since the last call; waits for the first of them up to ``wait_s``."""

    def kill(self, ticket: Ticket) -> None:
        """Stop it at once, whatever it is doing. It does not appear in ``poll`` any more."""

    def close(self) -> None:
        """Stop everything at once."""
