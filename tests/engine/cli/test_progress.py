"""Progress of runs on the command line."""

import re
from io import StringIO
from typing import Any

from rich.console import Console

from engine.cli.progress import Bars, Lines, line, table
from storage import RunRecord, Status
from tests.app.frames import run_record


def a_run(run_id: int, status: Status, round: int, **changes: Any) -> RunRecord:
    return run_record(run_id, "Ditto", status=status, round=round, rounds=8, seconds_per_round=0.5, **changes)


def console(is_terminal: bool) -> Console:
    return Console(file=StringIO(), force_terminal=is_terminal, width=120, markup=False, highlight=False)


def shown(console: Console) -> str:
    return re.sub(r"\x1b[^a-zA-Z]*[a-zA-Z]", "", console.file.getvalue())  # without colors and cursor movements


def test_a_line_has_run_status_round_and_accuracy() -> None:
    assert line(a_run(1, "done", 8), 0.915) == "Ditto seed 0: done, round 8 of 8, accuracy 91.5 %"


def test_a_line_has_the_reason_a_run_ended() -> None:
    assert line(a_run(1, "failed", -1, error="no memory"), None) == "Ditto seed 0: failed, round 0 of 8, no memory"


def test_the_table_has_ids_and_last_accuracies() -> None:
    runs = [a_run(7, "done", 8, summary={"personalized": {"mean": 0.915, "lowest5": 0.5}}), a_run(12, "failed", -1)]
    assert table(runs).splitlines() == [
        "id  run           status  mean    lowest 5 %",
        "7   Ditto seed 0  done    91.5 %  50.0 %",
        "12  Ditto seed 0  failed",
    ]


def test_without_a_terminal_progress_is_printed_every_quarter() -> None:
    output = console(is_terminal=False)
    lines = Lines(output)
    for round in range(9):
        lines.show([a_run(1, "running", round), a_run(2, "queued", -1)], {})
    lines.show([a_run(1, "done", 8), a_run(2, "queued", -1)], {})
    rounds = [text.split(", ")[1] for text in shown(output).splitlines()]
    assert rounds == [f"round {r} of 8" for r in (2, 4, 6, 8, 8)]


def test_a_terminal_shows_speed_and_remaining_time() -> None:
    output = console(is_terminal=True)
    bars = Bars(output)
    bars.show([a_run(1, "running", 4)], {1: 0.5})
    bars.close()
    assert "round 4 of 8, 0.5 s per round, 0:02 left, accuracy 50.0 %" in shown(output)


def test_a_finished_run_is_printed_above_the_bars_once() -> None:
    output = console(is_terminal=True)
    bars = Bars(output)
    for _ in range(3):
        bars.show([a_run(1, "done", 8), a_run(2, "running", 1)], {})
    bars.close()
    assert shown(output).count("Ditto seed 0: done") == 1
