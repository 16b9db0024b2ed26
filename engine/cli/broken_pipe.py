"""Standard output and error that survive a closed pipe or terminal: later output is discarded."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class BrokenPipeStream:
    """A text stream that discards its output once its pipe or terminal is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # a terminal that cannot encode it
            encoding = self._stream.encoding
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except OSError:
            self._redirect()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._redirect()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _redirect(self) -> None:
        """Redirects the file descriptor to the null device, so that buffered text can still be flushed at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


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
