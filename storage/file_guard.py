"""A database's file that is deleted, moved away or replaced while it is open.

The system goes on with the file that was opened, and what is written into it is gone with the last connection.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DisconnectionError

from storage.errors import DatabaseMoved

FILE = "file"  # which one a connection has open


class SameFile:
    """Every connection that ``engine`` gives out has the file open that is now at ``path``.

    Where another has taken its place (a backup, say), connections to the old one end and new ones begin.
    """

    def __init__(self, path: Path, engine: sa.Engine) -> None:
        self.path = path
        self._was_there = False
        sa.event.listen(engine, "do_connect", self._refuse_to_begin_anew)
        sa.event.listen(engine, "connect", self._note)
        sa.event.listen(engine, "checkout", self._compare)

    def _refuse_to_begin_anew(self, *_: Any) -> None:
        """SQLite makes a file that is not there: right for the first connection, not for a later one."""
        if self._was_there and not self.path.exists():
            raise self._moved()

    def _note(self, _: Any, record: Any) -> None:
        record.info[FILE] = identity(self.path)
        self._was_there = True

    def _compare(self, _: Any, record: Any, __: Any) -> None:
        there = identity(self.path)
        if there is None:
            raise self._moved()
        if record.info[FILE] != there:
            raise DisconnectionError

    def _moved(self) -> DatabaseMoved:
        return DatabaseMoved(
            f"{self.path} was deleted or moved away while it was in use; stop the app, put the file back, or a backup "
            f"({self.path.name}.backup-*.db) in its place, and start again, which else begins an empty database"
        )


def identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
