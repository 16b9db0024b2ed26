"""An executor that computes nothing, and a clock that the test moves."""

from collections.abc import Callable

from engine.worker import AnalysisTicket, Ended, Ticket, Work
from engine.worker.executor import Machine


class FakeExecutor:
    """Two slots and one for an analysis; a ticket ends when the test says so."""

    slots, device, problem, has_given_up, trains_together = 2, "cpu", "", False, False

    def __init__(self) -> None:
        self.tickets: list[Work] = []
        self.ended: list[Ended] = []
        self.is_closed = False
        self.on_notice: Callable[[str], None] = lambda notice: None

    @property
    def free(self) -> int:
        return self.free_for_analyses - (not any(isinstance(ticket, AnalysisTicket) for ticket in self.tickets))

    @property
    def free_for_analyses(self) -> int:
        return self.slots + 1 - len(self.tickets) - len(self.ended)

    def submit(self, *tickets: Work) -> None:
        self.tickets += tickets

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        ended, self.ended = self.ended, []
        return ended

    def kill(self, ticket: Work) -> None:
        self.tickets = [t for t in self.tickets if t != ticket]

    def expect(self, queued: int) -> None:
        self.queued = queued

    def machines(self) -> list[Machine]:
        if self.problem:
            return [Machine("here", "here", "", 0, 0, 0, 0, self.problem)]
        running = sum(isinstance(ticket, Ticket) for ticket in self.tickets)
        return [Machine("here", "here", self.device, 2, 0, self.slots, running)]

    def close(self) -> None:
        self.is_closed = True

    def end(self, problem: str | None = None, is_refused: bool = False) -> None:
        self.ended.append(Ended(self.tickets.pop(0), problem, is_refused))

    @property
    def run_ids(self) -> list[int]:
        return [ticket.run_id for ticket in self.tickets]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now
