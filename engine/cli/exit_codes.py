"""What every command has in common: its database, its exit code, and mistakes told as lines on stderr."""

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.cli.broken_pipe import never_broken
from engine.cli.inputs import MAX_NAME_BYTES
from engine.cli.stderr import complain, note_unexpected
from engine.core.errors import FedscapeError, InvalidConfig
from storage import StorageError, Store, store_from_env

DONE, INVALID, FAILED, DIVERGED, CANCELLED = 0, 2, 3, 4, 130


def answer(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace, logs: Path) -> int:
    """Runs the command and answers its exit code. Never a traceback: what nobody foresaw goes into a log."""
    with never_broken():
        try:
            return command(arguments)
        except InvalidConfig as error:
            complain(error.problems)
            return INVALID
        except (FedscapeError, StorageError) as error:
            complain([str(error)])
            return INVALID
        except KeyboardInterrupt:
            return CANCELLED
        except MemoryError:
            complain(["out of memory; close other programs, or run less at a time"])
            return FAILED
        except Exception as error:  # noqa: BLE001  the last resort
            note_unexpected(error, logs)
            return FAILED


@contextmanager
def open_store(url: str | None, root: Path) -> Iterator[Store]:
    _check_names(url or os.environ.get("DATABASE_URL", ""), "--db" if url else "DATABASE_URL")
    store = Store(url) if url else store_from_env(root)
    try:
        yield store
    finally:
        store.close()


def _check_names(url: str, said_by: str) -> None:
    """Raises InvalidConfig for what no file can be called."""
    if "\0" in url or any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in url.split("/")):
        reason = f"it has a null character, or a name of more than {MAX_NAME_BYTES} bytes"
        raise InvalidConfig([f"{said_by}: cannot be opened, {reason}; give sqlite:///FILE or postgresql://..."])
