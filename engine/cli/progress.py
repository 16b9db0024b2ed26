"""Progress of runs: bars on a terminal, short lines elsewhere, nothing with ``--quiet``."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from engine.core.vocabulary import summary_at
from storage import FINISHED, RunRecord

LINES_PER_RUN = 4  # without a terminal


Accuracies = Mapping[int, float]  # mean accuracy of the personalized models, by run


class Reporter(Protocol):
    def show(self, runs: Sequence[RunRecord], accuracies: Accuracies) -> None:
        """Shows the current state of all runs."""

    def close(self) -> None:
        """Restores the terminal."""


def reporter(is_quiet: bool) -> Reporter:
    if is_quiet:
        return Silent()
    console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    return Bars(console) if console.is_terminal else Lines(console)


class Silent:
    def show(self, runs: Sequence[RunRecord], accuracies: Accuracies) -> None: ...

    def close(self) -> None: ...


class Lines:
    """Prints a line per quarter of a run, and when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[int, tuple[str, int]] = {}

    def show(self, runs: Sequence[RunRecord], accuracies: Accuracies) -> None:
        for run in runs:
            stage = (run.status if run.status in FINISHED else "", LINES_PER_RUN * max(run.round, 0) // run.rounds)
            if stage != self._shown.get(run.id, ("", 0)):
                self._shown[run.id] = stage
                self._console.print(line(run, accuracies.get(run.id)))

    def close(self) -> None: ...


class Bars:
    """A bar for all runs and one for each running run; finished runs are printed as lines."""

    def __init__(self, console: Console) -> None:
        name, detail = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[detail]}"))
        self._progress = Progress(name, BarColumn(24), detail, console=console)
        self._all: TaskID | None = None
        self._bars: dict[int, TaskID] = {}
        self._ended: set[int] = set()
        self._progress.start()

    def show(self, runs: Sequence[RunRecord], accuracies: Accuracies) -> None:
        for run in runs:
            if run.status in FINISHED and run.id not in self._ended:
                self._ended.add(run.id)
                if run.id in self._bars:
                    self._progress.remove_task(self._bars.pop(run.id))
                self._progress.console.print(line(run, accuracies.get(run.id)))
            elif run.status == "running":
                self._advance(run, accuracies.get(run.id))
        self._advance_all(runs)

    def close(self) -> None:
        self._progress.stop()

    def _advance(self, run: RunRecord, accuracy: float | None) -> None:
        if run.id not in self._bars:
            self._bars[run.id] = self._progress.add_task(_name(run), total=run.rounds, detail="")
        parts = [f"round {max(run.round, 0)} of {run.rounds}", _pace(run), _accuracy(accuracy)]
        bar, detail = self._bars[run.id], ", ".join(filter(None, parts))
        self._progress.update(bar, completed=max(run.round, 0), detail=detail)

    def _advance_all(self, runs: Sequence[RunRecord]) -> None:
        if self._all is None:
            self._all = self._progress.add_task("all runs", total=None, detail="")
        rounds = sum(run.rounds for run in runs)
        done = sum(run.rounds if run.status in FINISHED else max(run.round, 0) for run in runs)
        ended = sum(run.status in FINISHED for run in runs)
        what = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        self._progress.update(self._all, total=rounds, completed=done, detail=f"{ended} of {what}")


def table(runs: Sequence[RunRecord]) -> str:
    """The final personalized accuracies, one line per run, with the ids that ``export`` takes."""
    rows = [("id", "run", "status", "mean", "lowest 5 %")]
    for run in runs:
        last = summary_at(run.summary, "personalized")
        rows.append((str(run.id), _name(run), run.status, percent(last.get("mean")), percent(last.get("lowest5"))))
    return table_of(rows)


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(text.rstrip() for text in aligned)


def line(run: RunRecord, accuracy: float | None) -> str:
    """``Ditto seed 0: done, round 50 of 50, accuracy 93.1 %``, or the reason why it ended."""
    parts = [run.status, f"round {max(run.round, 0)} of {run.rounds}", _accuracy(accuracy), run.error]
    return f"{_name(run)}: {', '.join(filter(None, parts))}"


def _name(run: RunRecord) -> str:
    return f"{run.label} {run.seeds_in_words}"


def _accuracy(accuracy: float | None) -> str | None:
    return None if accuracy is None else f"accuracy {percent(accuracy)}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}".replace("%", " %")


def _pace(run: RunRecord) -> str | None:
    if not run.seconds_per_round:
        return None
    left = int(run.seconds_per_round * (run.rounds - max(run.round, 0)))
    minutes, seconds = divmod(left, 60)
    return f"{run.seconds_per_round:.2g} s per round, {minutes}:{seconds:02d} left"
