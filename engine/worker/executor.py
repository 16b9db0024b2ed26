"""The executor's interface: it runs tickets and knows nothing about queues or the purpose of a ticket."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Key = tuple[str, int]


@dataclass(frozen=True)
class Ticket:
    """The right to work on one claimed run, and where to find its data."""

    run_id: int
    epoch: int
    database_url: str
    artifacts: Path
    data_dir: Path | None = None  # folder of the data sets, by default DATA_DIR

    @property
    def key(self) -> Key:
        """Unique among the tickets in use."""
        return "run", self.run_id


@dataclass(frozen=True)
class AnalysisTicket:
    """The right to work on one claimed analysis of a finished run."""

    analysis_id: int
    run_id: int
    epoch: int
    attempts: int  # including this one
    database_url: str
    artifacts: Path
    data_dir: Path | None = None

    @property
    def key(self) -> Key:
        return "analysis", self.analysis_id


Work = Ticket | AnalysisTicket


@dataclass(frozen=True)
class Ended:
    """A ticket that is no longer worked on; ``problem`` says why its work could not be completed.

    ``is_refused``: the run is not to blame, so it does not count as an attempt.
    """

    ticket: Work
    problem: str | None = None
    is_refused: bool = False


@dataclass(frozen=True)
class Machine:
    """A machine that computes, for display only. ``problem`` says why it gets no work.

    Without a device it is the machine of a dispatcher that cannot reach any machine.
    """

    name: str  # unique in the cluster
    host: str
    device: str
    cpus: int
    gpus: int
    slots: int
    running: int  # runs
    problem: str = ""


class Executor(Protocol):
    """Runs tickets on ``slots`` shares of ``device``. Never retries; the dispatcher does.

    One extra slot is for analyses, so that none has to wait for a run. A ticket whose worker hangs ends with a problem;
    ``on_notice`` is called with a notice to display, and with "" once it no longer applies.
    """

    on_notice: Callable[[str], None]
    problem: str  # why nothing can be computed now, or ""
    trains_together: bool  # whether one slot can train several seeds at once

    @property
    def has_given_up(self) -> bool:
        """Whether to let a dispatcher on another machine try, since this one cannot reach any machine."""

    @property
    def slots(self) -> int:
        """The number of runs computed at once, which may change."""

    @property
    def device(self) -> str:
        """The device that computes, for display."""

    @property
    def free(self) -> int:
        """The number of tickets of any kind that can be submitted now."""

    @property
    def free_for_analyses(self) -> int:
        """``free``, plus the slot for analyses unless it is taken."""

    def submit(self, *tickets: Work) -> None:
        """Starts a ticket, or several runs that are trained together. Requires a free slot."""

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        """The tickets that ended since the last call; waits up to ``wait_s`` for the first one."""

    def kill(self, ticket: Work) -> None:
        """Kills the work on a ticket at once. It does not appear in ``poll`` any more.

        Runs that were trained together with it end as refused.
        """

    def expect(self, queued: int) -> None:
        """Tells the executor how many runs are queued, so that a cluster can grow."""

    def machines(self) -> list[Machine]:
        """The machines that compute."""

    def close(self) -> None:
        """Kills everything at once."""
