"""Standard output and error that survive a closed pipe or terminal: later output is discarded.

Other errors, such as a full disk, are kept until the command has ended.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class BrokenPipeStream:
    """A text stream that discards its output once its pipe or terminal is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.problem: OSError | None = None  # why output was lost, unless its reader has closed it

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # a terminal that cannot encode it
            encoding = self._stream.encoding
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except OSError as error:
            self._redirect(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._redirect(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _redirect(self, error: OSError) -> None:
        """Redirects the file descriptor to the null device, so that buffered text can still be flushed at exit."""
        if error.errno not in (errno.EPIPE, errno.EIO):  # EIO: the terminal is closed
            self.problem = self.problem or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def output_problem() -> OSError | None:
    """Why a part of the standard output was lost, after flushing it; None if nothing was, or its reader closed it."""
    sys.stdout.flush()
    return sys.stdout.problem if isinstance(sys.stdout, BrokenPipeStream) else None


@contextmanager
def ignoring_broken_pipes() -> Iterator[None]:
    """Within this context, writing to standard output and error never fails, even if they are closed."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, BrokenPipeStream(stream or open(os.devnull, "w"))) for stream in before)  # noqa: SIM115
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
