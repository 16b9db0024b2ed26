"""What can go wrong in the engine, each with a message that says what to do next."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

MAX_SHOWN = 80  # characters of a value in a message
MAX_MESSAGE = 400
MAX_PROBLEMS = 50


class FedscapeError(Exception):
    """Base of every error whose message is meant for the person who asked."""


class InvalidConfig(FedscapeError):
    """A configuration that cannot run. ``problems`` has one line a mistake: field, value, what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        told = [cut(problem, MAX_MESSAGE) for problem in problems]
        more = ["there are more mistakes; mend these first"] if len(told) > MAX_PROBLEMS else []
        self.problems = (*told[:MAX_PROBLEMS], *more)
        super().__init__("\n".join(self.problems))


class UnknownName(FedscapeError):
    """A name that no registered thing carries."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"no {kind} named {shown(name)}{suggestion(name, self.known)}; known: {', '.join(self.known)}")


class DataUnavailable(FedscapeError):
    """A data set that is absent, unreadable, corrupt or of the wrong shape. Names the file and where it belongs."""


class TooLarge(DataUnavailable):
    """Data that need more memory than there is for them here. Says how much, and what else to do."""


class ImpossiblePartition(FedscapeError):
    """A split that the data cannot give. Says which option to change."""


class Unsupported(FedscapeError):
    """A combination that cannot work (a method with a model, a setting with a method), with the reason."""


class PluginBroken(FedscapeError):
    """A file of the user's own that cannot be imported. Names the file and the reason."""


class CheckpointInvalid(FedscapeError):
    """A checkpoint that does not fit the run it is meant to continue."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'fedavg'?`` or nothing."""
    close = difflib.get_close_matches(name[:MAX_SHOWN], list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def shown(value: Any, most: int = MAX_SHOWN) -> str:
    """A value as Python writes it, cut to a part of a line: it may be a whole file."""
    return cut(_BRIEF.repr(value), most)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and its end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-(most - most * 2 // 3 - 3) :]}"


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8
        self.maxstring = self.maxlong = self.maxother = MAX_SHOWN

    def repr_int(self, value: int, level: int) -> str:
        """Python refuses to write out the longest."""
        return super().repr_int(value, level) if value.bit_length() < 1000 else "a number of hundreds of digits"


_BRIEF = _Brief()
