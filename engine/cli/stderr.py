"""Error messages of the command line: lines on stderr, details in a log, no tracebacks."""

import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.core.errors import MAX_MESSAGE, cut, printable, unexpected

LOG = "fedscape-errors.log"
_PASSWORD = re.compile(r"(?<=://)[^/\s:]*:\S*(?=@)|(?<=password=)[^\s&]+")  # in the URL of a database


def print_errors(problems: Iterable[str]) -> None:
    """Prints one line per problem. Control characters are escaped."""
    for problem in problems:
        print(cut(printable(" ".join(problem.split())), MAX_MESSAGE), file=sys.stderr)


def log_unexpected(error: Exception, folder: Path) -> None:
    """Logs the traceback in ``folder``, or in the folder for temporary files, and prints one line to stderr."""
    short = unexpected(error)
    details = "".join(traceback.format_exception(error))
    entry = _PASSWORD.sub("***", f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n{details}\n")
    for target in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError):
            target.mkdir(parents=True, exist_ok=True)
            with open(target / LOG, "a", encoding="utf-8", opener=_open_privately) as log:
                log.write(entry)
            print_errors([f"unexpected error: {short}; details in {target / LOG}"])
            return
    print_errors([f"unexpected error: {short}"])


def _open_privately(path: str, flags: int) -> int:
    """Opens a file that others cannot read, and no link that they may have put in its place."""
    number = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
    if hasattr(os, "fchmod"):  # an older version may have created it for everybody
        os.fchmod(number, 0o600)
    return number
