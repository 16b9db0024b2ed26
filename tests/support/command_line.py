"""The command line in this process: ``call("run", path)``, with runs computed here instead of in worker processes."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import engine.cli.run
from engine.cli.arguments import parser
from engine.worker import choice
from engine.worker.executor import Ended, Machine, Ticket
from engine.worker.process import work_on
from storage import Store

DIGITS: dict[str, Any] = {
    "name": "tiny",
    "dataset": {"name": "digits"},
    "partition": {"name": "iid", "num_clients": 3},
    "model": {"name": "mlr"},
    "training": {"rounds": 2, "local_steps": 1},
    "algorithms": [{"name": "fedavg"}],
    "seeds": [0],
}


class Called(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Called]


class ThisProcess:
    """An executor that computes each ticket synchronously."""

    slots, device, problem, has_given_up, trains_together = 1, "cpu", "", False, False

    def __init__(self, *_: object) -> None:
        self._ended: list[Ended] = []

    @property
    def free(self) -> int:
        return 0 if self._ended else 1

    def submit(self, ticket: Ticket) -> None:
        with closing(Store(ticket.database_url, ticket.artifacts)) as store:
            work_on(store, ticket)
        self._ended.append(Ended(ticket))

    def poll(self, wait_s: float = 0.0) -> list[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def kill(self, ticket: Ticket) -> None: ...

    def expect(self, queued: int) -> None: ...

    def machines(self) -> list[Machine]:
        return []

    def close(self) -> None: ...


def make_call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> Call:
    monkeypatch.setattr(choice, "LocalExecutor", ThisProcess)
    monkeypatch.setattr(engine.cli.run, "ROOT", folder)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(folder)

    def call(*words: object) -> Called:
        code = engine.cli.run.main(parser().parse_args([str(word) for word in words]))
        return Called(code, *capsys.readouterr())

    return call


def write_config(folder: Path, **changes: Any) -> Path:
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(DIGITS | changes))
    return path
