"""Shared by all commands: opening the database, exit codes, and errors as lines on stderr."""

import argparse
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.cli.broken_pipe import ignoring_broken_pipes, output_problem
from engine.cli.stderr import log_unexpected, print_errors
from engine.core.errors import FedscapeError, InvalidConfig
from engine.core.writable import MAX_NAME_BYTES
from storage import StorageError, Store, store_from_env

DONE, INVALID, FAILED, DIVERGED, CANCELLED = 0, 2, 3, 4, 130
_NOT_A_NAME = re.compile("[\0\ud800-\udfff]")  # Python reads bytes that are not UTF-8 as lone surrogates


def answer(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace, logs: Path) -> int:
    """Runs a command and returns its exit code. Never prints a traceback; unexpected errors are logged."""
    with ignoring_broken_pipes():
        try:
            code = command(arguments)
            if lost := output_problem():
                print_errors([f"a part of the output was lost: {lost.strerror}"])
                return FAILED
            return code
        except InvalidConfig as error:
            print_errors(error.problems)
            return INVALID
        except (FedscapeError, StorageError) as error:
            print_errors([str(error)])
            return INVALID
        except KeyboardInterrupt:
            return CANCELLED
        except MemoryError:
            print_errors(["out of memory; close other programs, or run fewer at once"])
            return FAILED
        except Exception as error:  # noqa: BLE001  the last resort
            log_unexpected(error, logs)
            return FAILED


@contextmanager
def open_store(url: str | None, root: Path) -> Iterator[Store]:
    if url == "":
        raise InvalidConfig(["--db: is empty; give sqlite:///FILE or postgresql://..., or leave it out"])
    _check_url(url or os.environ.get("DATABASE_URL", ""), "--db" if url else "DATABASE_URL")
    store = Store(url) if url else store_from_env(root)
    try:
        yield store
    finally:
        store.close()


def _check_url(url: str, source: str) -> None:
    """Raises InvalidConfig for names that no database can have."""
    if _NOT_A_NAME.search(url) or any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in url.split("/")):
        reason = f"it has a null character, bytes that are not UTF-8, or a name of more than {MAX_NAME_BYTES} bytes"
        raise InvalidConfig([f"{source}: cannot be opened, {reason}; give sqlite:///FILE or postgresql://..."])
