"""How the command line tells what went wrong: lines on stderr, details in a log, never a traceback."""

import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.core.errors import MAX_MESSAGE, cut

LOG = "fedscape-errors.log"


def complain(problems: Iterable[str]) -> None:
    """A line a mistake. What a terminal would obey is written out."""
    for problem in problems:
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(problem.split()))
        print(cut(line, MAX_MESSAGE), file=sys.stderr)


def note_unexpected(error: Exception, folder: Path) -> None:
    """Its traceback goes into a log in ``folder``, or where temporary files go; one line goes to stderr."""
    short = f"{type(error).__name__}: {str(error)[:200]}"
    details = "".join(traceback.format_exception(error))
    entry = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n{details}\n"
    for place in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            with open(place / LOG, "a", encoding="utf-8") as log:
                log.write(entry)
            complain([f"unexpected error: {short}; details in {place / LOG}"])
            return
    complain([f"unexpected error: {short}"])
