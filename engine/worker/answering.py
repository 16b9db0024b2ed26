"""What every command has in common: its database, its exit code, and mistakes told as lines on stderr."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import FedscapeError, InvalidConfig
from engine.mistakes import complain, note_unexpected
from engine.output import never_broken
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
        except Exception as error:  # noqa: BLE001  the last resort
            note_unexpected(error, logs)
            return FAILED


@contextmanager
def open_store(url: str | None, root: Path) -> Iterator[Store]:
    try:
        store = Store(url) if url else store_from_env(root)
    except (OSError, ValueError) as error:  # a name that is too long, or that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        way_out = "give sqlite:///FILE or postgresql://..."
        raise InvalidConfig([f"{'--db' if url else 'DATABASE_URL'}: cannot be opened ({reason}); {way_out}"]) from error
    try:
        yield store
    finally:
        store.close()
