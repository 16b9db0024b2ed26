"""What can go wrong in the engine, each with a message that says what to do next."""

import difflib
from collections.abc import Iterable


class FedscapeError(Exception):
    """Base of every error whose message is meant for the person who asked."""


class InvalidConfig(FedscapeError):
    """A configuration that cannot run. ``problems`` has one line a mistake: field, value, what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class UnknownName(FedscapeError):
    """A name that no registered thing carries."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        super().__init__(f"no {kind} named {name!r}{suggestion(name, self.known)}; known: {', '.join(self.known)}")


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
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
