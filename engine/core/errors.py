"""The errors of the engine. Each message says what to do next."""

import difflib
import os
import reprlib
import traceback
from collections.abc import Iterable
from typing import Any

from engine.core.paths import plugin_folders

MAX_SHOWN = 80  # characters of a value in a message
MAX_MESSAGE = 400
MAX_PROBLEMS = 50


class FedscapeError(Exception):
    """Base of all errors whose message is for the user."""


class InvalidConfig(FedscapeError):
    """An invalid configuration. ``problems`` has one line per mistake: field, value, what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        lines = [cut(problem, MAX_MESSAGE) for problem in problems]
        more = ["there are more mistakes; fix these first"] if len(lines) > MAX_PROBLEMS else []
        self.problems = (*lines[:MAX_PROBLEMS], *more)
        super().__init__("\n".join(self.problems))


class UnknownName(FedscapeError):
    """A name that is not registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"no {kind} named {shown(name)}{suggestion(name, self.known)}; known: {', '.join(self.known)}")


class DataUnavailable(FedscapeError):
    """A data set that is missing, unreadable, corrupt or of the wrong shape. Names the file and its expected path."""


class TooLarge(DataUnavailable):
    """Data that exceed the memory. Says by how much, and what else to do."""


class ImpossiblePartition(FedscapeError):
    """A data split that is impossible. Says which option to change."""


class Unsupported(FedscapeError):
    """An unsupported combination (a method with a model, a setting with a method), with the reason."""


class PluginBroken(FedscapeError):
    """A plugin that cannot be imported or does not do what it must, or a missing folder. Names it and the reason."""


class CheckpointInvalid(FedscapeError):
    """A checkpoint that does not fit its run."""


def unexpected(error: BaseException) -> str:
    """``ValueError: the message``; of an error in a plugin also the file and line."""
    line = plugin_line(error)
    return f"{type(error).__name__}: {cut(str(error), MAX_MESSAGE // 2)}{f' (in {line})' if line else ''}"


def plugin_line(error: BaseException) -> str:
    """``plugins/mine.py, line 23``: the last line of a plugin in the traceback; empty if there is none."""
    folders = tuple(f"{folder.resolve()}{os.sep}" for folder in plugin_folders())
    frames = traceback.extract_tb(error.__traceback__) if folders else ()
    inside = [one for one in frames if os.path.realpath(one.filename).startswith(folders)]
    return f"{inside[-1].filename}, line {inside[-1].lineno}" if inside else ""


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """``; did you mean 'fedavg'?``, or an empty string if no name is as similar as ``cutoff``, from 0 to 1."""
    close = difflib.get_close_matches(name[:MAX_SHOWN], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: Any, limit: int = MAX_SHOWN) -> str:
    """The ``repr`` of a value, shortened: it may be a whole file."""
    return cut(_SHORT_REPR.repr(value), limit)


def printable(line: str) -> str:
    """The line with control characters escaped: a terminal would act on them."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def cut(text: str, limit: int) -> str:
    """The text, shortened in the middle if it is too long."""
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]} … {text[-(limit - limit * 2 // 3 - 3) :]}"


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8
        self.maxstring = self.maxlong = self.maxother = MAX_SHOWN

    def repr_int(self, value: int, level: int) -> str:
        """Python refuses to print very long integers."""
        return super().repr_int(value, level) if value.bit_length() < 1000 else "an integer with hundreds of digits"


_SHORT_REPR = _ShortRepr()
