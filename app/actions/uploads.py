"""Uploaded files: checked by the engine, stored under DATA_DIR/uploads, deleted; never executed or unpickled."""

import fcntl
import functools
import hashlib
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

from app import wording
from app.access import permits
from app.access.errors import NotAllowed
from app.access.limits import why_not_store
from app.access.roles import reach
from app.access.uploads import KINDS, UploadedFile, files_of, files_of_all, upload_folder
from app.data import queries
from engine.core.errors import DataUnavailable
from engine.core.paths import default_data_dir
from storage import RunRecord

MAX_MEGABYTES = 200
LOCK_S, TICK_S = 30.0, 0.02  # how long to wait for another upload of the same person


def save_upload(name: str, data: bytes) -> str:
    """Store the file; returns its path below DATA_DIR. A person's equal files are stored once.

    Raises DataUnavailable, or NotAllowed.
    """
    person = permits.require("upload")
    kind = Path(name).suffix.lower().lstrip(".")
    if kind not in KINDS:
        raise DataUnavailable(f"{name}: cannot read files that end in .{kind}; known: {', '.join(KINDS)}")
    if len(data) > MAX_MEGABYTES << 20:
        raise DataUnavailable(f"{name} is larger than {MAX_MEGABYTES} MB; put it into DATA_DIR and enter its path")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:60] or "data"
    relative = f"{upload_folder(person)}/{stem}-{hashlib.sha256(data).hexdigest()[:12]}.{kind}"
    path = default_data_dir() / relative
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent) if person.name else nullcontext():
            if path.exists():
                return relative
            if person.name and (full := why_not_store(person, queries.store().shares.usage(person.name), len(data))):
                raise NotAllowed(full)
            _write(path, data)
    except OSError as error:
        raise DataUnavailable(
            f"{path}: cannot be written ({error.strerror}); check DATA_DIR and its free space"
        ) from error
    return relative


def deletable() -> list[UploadedFile]:
    """The uploaded files that this person may delete, largest first."""
    person = permits.signed_in()
    far = "none" if person is None else reach(person.role, "delete")
    return files_of_all() if far == "all" else files_of(person) if person and far == "own" else []


def delete_upload(path: str) -> UploadedFile:
    """Delete the file with this path below DATA_DIR. Raises NotAllowed, or DataUnavailable.

    Only paths of ``deletable`` are accepted, so that a forged request cannot reach other files.
    """
    permits.require("delete")
    file = next((file for file in deletable() if file.path == path), None)
    if file is None:
        raise NotAllowed("Not deleted: there is no such file, or it is not yours. Reload the page.")
    store = queries.store()
    analyzed = {analysis.run_id for analysis in store.analyses.active()}
    runs = store.queue.runs(include_archived=True, with_partition=False)
    unfinished = [run for run in runs if not run.is_finished or run.id in analyzed]
    if using := [run.id for run in runs_by_file([file], unfinished)[file.path]]:
        named = f"{'run' if len(using) == 1 else 'runs'} {wording.spans(using).replace(',', ', ')}"
        raise NotAllowed(
            f"Not deleted: {file.name} is in use by runs or analyses that have not finished ({named}). Cancel them or "
            "let them finish first."
        )
    with permits.allow("delete", store, "Delete uploaded file", of=[file.name]), store.audit.entry():
        try:
            (default_data_dir() / file.path).unlink(missing_ok=True)
        except OSError as error:
            raise DataUnavailable(f"{file.path}: cannot be deleted ({error.strerror}); check DATA_DIR") from error
    return file


def runs_by_file(files: Iterable[UploadedFile], runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """The runs that read each of the files, by its path."""
    found: dict[str, list[RunRecord]] = {file.path: [] for file in files}
    real = {os.path.realpath(default_data_dir() / path): path for path in found}
    file_of = functools.cache(lambda given: real.get(_real_path(given) or ""))
    for run in runs:
        dataset = run.config.get("dataset")
        given = dataset.get("path") if isinstance(dataset, Mapping) else None
        if isinstance(given, str) and (path := file_of(given)):
            found[path].append(run)
    return found


def _real_path(given: str) -> str | None:
    """The file that a data set with this path reads; None if there is none."""
    path = os.path.expanduser(given)
    found = next((place for place in (default_data_dir() / path, Path(path)) if os.path.exists(place)), None)
    return None if found is None else os.path.realpath(found)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets a person check the limit and write a file for one upload at a time, also across web servers."""
    with (folder / ".lock").open("ab") as file:
        until = time.monotonic() + LOCK_S
        while not _has_lock(file):
            if time.monotonic() > until:
                raise DataUnavailable("Another upload of yours is being stored; try again in a moment")
            time.sleep(TICK_S)
        yield


def _has_lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    """The file appears under its name only when it is complete."""
    unfinished = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")  # not that of an equal upload at the same time
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
