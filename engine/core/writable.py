"""Whether files and folders can be written, asked before their contents are computed."""

import os
import tempfile
from pathlib import Path

from engine.core.errors import MAX_SHOWN, InvalidConfig, cut

MAX_NAME_BYTES = 200  # file systems allow 255, and temporary names are longer


def check_writable(*, file: Path | None = None, folder: Path | None = None) -> None:
    """Checks that the results can be written, before computing them. Raises InvalidConfig."""
    if file is not None:
        if os.path.isdir(file) or file.name in ("", ".."):
            example = _shown_path(file / "runs.json")
            raise InvalidConfig([f"{_shown_path(file)}: is a folder; give the name of a file in it, like {example}"])
        if os.path.exists(file) and not os.path.isfile(file):  # replacing it would remove the device
            raise InvalidConfig([f"{_shown_path(file)}: is a pipe or a device; give the name of a regular file"])
        _check_folder(file, file.absolute().parent)
    if folder is not None:
        _check_folder(folder, folder.absolute())


def _check_folder(given: Path, folder: Path) -> None:
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in given.parts):
        reason = f"a name in it has more than {MAX_NAME_BYTES} bytes"
    elif "\0" in str(given):
        reason = "it has a null character"
    else:
        nearest = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
        reason = _write_problem(nearest)
    if reason:
        raise InvalidConfig([f"{_shown_path(given)}: cannot be written, {reason}; choose another path"])


def _write_problem(folder: Path) -> str:
    if not os.path.isdir(folder):
        return f"{_shown_path(folder)} is not a folder"
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"{_shown_path(folder)} is not writable ({error.strerror})"
    return ""


def _shown_path(path: Path) -> str:
    return cut(str(path), 2 * MAX_SHOWN)


def linked(path: Path) -> Path:
    """The file to which a link leads; any other path as it is. Raises InvalidConfig for links in a circle."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):
        raise InvalidConfig([f"{_shown_path(path)}: is a link that leads to no file; choose another path"]) from None
