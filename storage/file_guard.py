"""Detects that a database file was deleted, moved or replaced while in use.

Otherwise the system would keep using the open file, and everything written to it would be lost at the end.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DisconnectionError

from storage.errors import DatabaseMoved

FILE = "file"  # the file that a connection has open


class FileGuard:
    """Makes sure that all connections of ``engine`` have the file open that is now at ``path``.

    If the file was replaced (by a backup, say), connections to the old file are closed and new ones opened.
    """

    def __init__(self, path: Path, engine: sa.Engine) -> None:
        self.path = path
        self._has_connected = False
        sa.event.listen(engine, "do_connect", self._refuse_new_file)
        sa.event.listen(engine, "connect", self._remember)
        sa.event.listen(engine, "checkout", self._check)

    def _refuse_new_file(self, *_: Any) -> None:
        """SQLite creates a missing file: right for the first connection, but not for a later one."""
        if self._has_connected and not self.path.exists():
            raise self._moved()

    def _remember(self, _: Any, record: Any) -> None:
        record.info[FILE] = identity(self.path)
        self._has_connected = True

    def _check(self, _: Any, record: Any, __: Any) -> None:
        current = identity(self.path)
        if current is None:
            raise self._moved()
        if record.info[FILE] != current:
            raise DisconnectionError

    def _moved(self) -> DatabaseMoved:
        return DatabaseMoved(
            f"{self.path} was deleted or moved away while it was in use; stop the app, put the file back, or a backup "
            f"({self.path.name}.backup-*.db) in its place, and start again; otherwise an empty database is "
            "created, and the models next to it are deleted"
        )


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a file, which do not depend on its name; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
