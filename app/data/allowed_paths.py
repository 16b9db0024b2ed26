"""Which files the web pages read, and make the engine read: those below DATA_DIR, where uploads are too.

Whoever opens a page could otherwise ask for any file of this machine, or learn from an error whether it exists. The
answer is the same for a file elsewhere and for one that is not there. ``FEDSCAPE_ANY_PATH=1`` lifts this for people
who have the machine to themselves. The command line and Python read any path.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.core.errors import DataUnavailable
from engine.core.paths import default_data_dir
from storage import RunRecord

FLAG = "FEDSCAPE_ANY_PATH"
MOST_LETTERS = 80  # of a path in a message


def problem(dataset: Mapping[str, Any]) -> str | None:
    """Why the pages do not read the files of this data set, ``{"name": "custom", "path": ...}``; None where they do."""
    path = dataset.get("path")
    if not isinstance(path, str) or os.environ.get(FLAG) == "1" or _is_below(path, default_data_dir()):
        return None
    shown = path if len(path) <= MOST_LETTERS else f"{path[:MOST_LETTERS]}…"
    return (
        f"path={shown!r}: there is no such file below DATA_DIR ({default_data_dir()}), and the pages read no others; "
        f"upload the file, put it there, or start the app with {FLAG}=1"
    )


def check(dataset: Mapping[str, Any]) -> None:
    """Raises DataUnavailable."""
    if reason := problem(dataset):
        raise DataUnavailable(reason)


def problem_of(run: RunRecord) -> str | None:
    """Why a run that somebody imported may not make the engine read its files.

    Runs that were queued here were allowed to: by this check, or because the command line reads any path.
    """
    if not (run.provenance or {}).get("imported"):
        return None
    dataset = run.config.get("dataset")
    return problem(dataset) if isinstance(dataset, Mapping) else None


def _is_below(path: str, folder: Path) -> bool:
    """Whether it is there, by its name: a link that the owner put below ``folder`` may lead elsewhere."""
    given = Path(os.path.expanduser(path))
    if ".." in given.parts or str(given).startswith("~"):  # a user whom this machine does not know
        return False
    folders = (Path(os.path.abspath(folder)), Path(os.path.realpath(folder)))
    return any((folder / given).is_relative_to(folder) and os.path.exists(folder / given) for folder in folders)
