"""The files that web pages and their runs may read: those below DATA_DIR, which includes uploads.

Otherwise any visitor could read any file of this machine, or learn from an error whether it exists. The message is the
same for a file elsewhere and for a missing one. ``FEDSCAPE_ANY_PATH=1`` removes the limit on a personal machine. The
command line and the Python API read any path. With sign-in, members and visitors can use only uploaded files, including
those of other people, since everyone can see every run.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.access import permits
from app.access.uploads import UPLOADS
from engine.core.errors import DataUnavailable
from engine.core.paths import default_data_dir
from storage import RunRecord

FLAG = "FEDSCAPE_ANY_PATH"
MAX_LETTERS = 80  # of a path in a message


def problem(dataset: Mapping[str, Any]) -> str | None:
    """Why pages may not read the files of this data set, ``{"name": "custom", "path": ...}``; None if they may."""
    path = dataset.get("path")
    if not isinstance(path, str):
        return None
    shown = path if len(path) <= MAX_LETTERS else f"{path[:MAX_LETTERS]}…"
    if permits.refusal("paths"):
        if _is_below(path, UPLOADS, os.path.isfile):
            return None
        return f"path={shown!r}: no such uploaded file; upload it, since only admins can use other files on the server"
    if os.environ.get(FLAG) == "1" or _is_below(path, "."):
        return None
    return (
        f"path={shown!r}: no such file below DATA_DIR ({default_data_dir()}), and the app reads only files there; "
        f"upload the file, move it there, or start the app with {FLAG}=1"
    )


def check(dataset: Mapping[str, Any]) -> None:
    """Raises DataUnavailable."""
    if reason := problem(dataset):
        raise DataUnavailable(reason)


def problem_of(run: RunRecord) -> str | None:
    """Why an imported run may not make a worker read its files.

    Runs that were queued here passed this check, or came from the command line, which reads any path.
    """
    if not (run.provenance or {}).get("imported"):
        return None
    dataset = run.config.get("dataset")
    return problem(dataset) if isinstance(dataset, Mapping) else None


def _is_below(path: str, part: str, exists: Callable[[Path], bool] = os.path.exists) -> bool:
    """Whether the engine finds the path, and finds it below this part of DATA_DIR.

    Symlinks are not resolved: the owner may link to files elsewhere.
    """
    given = Path(os.path.expanduser(path))  # if relative, then to DATA_DIR
    if ".." in given.parts or str(given).startswith("~"):  # an unknown user
        return False
    roots = (Path(os.path.abspath(default_data_dir())), Path(os.path.realpath(default_data_dir())))
    return any((root / given).is_relative_to(root / part) and exists(root / given) for root in roots)
