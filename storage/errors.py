"""What can go wrong in storage, each with a message that says what to do next."""

from collections.abc import Iterable


class StorageError(Exception):
    """Base of every error of this package. Its text is meant for the person who asked."""


class Transient(StorageError):
    """Nothing is wrong with what was asked: asking again later may work. Work in the background does."""


class DatabaseLocked(Transient):
    """Another process held the database for longer than we wait."""


class DatabaseUnavailable(Transient):
    """The database's server does not answer, or has ended our connection. Whether a commit took place is unknown."""


class DispatcherLockLost(StorageError):
    """This process was the dispatcher, and another one is now. Stop what was begun: that one takes it up."""


class DiskFull(Transient):
    """There is no room for what was to be written, or the disk refuses it; nothing of it was."""


class DatabaseMoved(StorageError):
    """The file was deleted or moved away while it was in use."""


class NotADatabase(StorageError):
    """The file is damaged or was never a database."""


class NetworkFileSystem(StorageError):
    """SQLite's locks do not hold on a network file system."""


class SchemaOutdated(StorageError):
    """The tables are older than this program, or not there yet."""


class SchemaTooNew(StorageError):
    """The tables were written by a newer version of this program."""


class Fenced(StorageError):
    """A write by somebody who no longer owns the run (or the analysis): it was claimed again, finished or deleted.

    Stop working on it.
    """

    def __init__(self, owned_id: int, epoch: int, what: str = "run") -> None:
        message = f"{what} {owned_id} is no longer running under claim {epoch}; stop, and leave it to its new owner"
        super().__init__(message)


class RunNotFound(StorageError):
    """No run has this id."""

    def __init__(self, run_ids: Iterable[int]) -> None:
        self.run_ids = tuple(sorted(run_ids))
        ids = ", ".join(map(str, self.run_ids))
        super().__init__(f"no run with id {ids}; it may have been deleted: look in the library for those there are")


class AnalysisNotFound(StorageError):
    """No analysis has this id."""

    def __init__(self, analysis_id: int) -> None:
        super().__init__(f"no analysis with id {analysis_id}; its run may have been deleted: ask for it again")


class ExperimentNotFound(StorageError):
    """No experiment has this id."""

    def __init__(self, experiment_id: int) -> None:
        self.experiment_id = experiment_id
        super().__init__(f"no experiment with id {experiment_id}; it may have been deleted: look in the library")


class RunsActive(StorageError):
    """A deletion that would pull running runs away from their worker."""

    def __init__(self, run_ids: Iterable[int]) -> None:
        self.run_ids = tuple(sorted(run_ids))
        ids = ", ".join(map(str, self.run_ids))
        super().__init__(f"run {ids} is still running; cancel it, wait until it has stopped, then delete it")


class ArtifactNotWritten(StorageError):
    """A file that could not be written: the disk is full, or the folder is not ours to write into."""


class ArtifactDamaged(StorageError):
    """An artifact whose file is missing or does not have the bytes that were written."""


class ArchiveInvalid(StorageError):
    """A backup or a bundle that is damaged, of another kind, or none at all."""
