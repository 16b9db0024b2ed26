"""Standard output and error whose reader may leave: from then on nothing is said, and nothing else changes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


class Unheard:
    """A text stream that goes on into the void once its pipe or terminal is gone."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # a terminal without the letter
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
        """Below the stream, so that what it still holds can leave it, and the interpreter ends without complaint."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextmanager
def never_broken() -> Iterator[None]:
    """Writing to standard output and error does not fail in here, even where there are none."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, Unheard(stream or open(os.devnull, "w"))) for stream in before)  # noqa: SIM115
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
