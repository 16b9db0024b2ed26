"""The errors of storage. Each message says what to do next."""

from collections.abc import Iterable


class StorageError(Exception):
    """Base of all errors of this package. The message is for the user."""


class Transient(StorageError):
    """A temporary failure: the same call may succeed later. Background work retries it."""


class DatabaseLocked(Transient):
    """Another process kept the database locked, or other threads all connections, for longer than the timeout."""


class DatabaseUnavailable(Transient):
    """The database server does not answer or has closed the connection. A commit may or may not have happened."""


class DispatcherLockLost(StorageError):
    """Another process has become the dispatcher. Stop the work in progress: the new one takes it over."""


class DiskFull(Transient):
    """The disk is full or fails; nothing was written."""


class DatabaseMoved(StorageError):
    """The database file was deleted or moved while in use."""


class NotADatabase(StorageError):
    """The file is damaged or was never a database."""


class NetworkFileSystem(StorageError):
    """SQLite's locks are unreliable on a network file system."""


class SchemaOutdated(StorageError):
    """The tables are older than this program, or missing."""


class SchemaTooNew(StorageError):
    """The tables were written by a newer version of this program."""


class Fenced(StorageError):
    """A write by a former owner of a run or analysis: it was claimed again, finished or deleted.

    Stop working on it.
    """

    def __init__(self, owned_id: int, epoch: int, what: str = "run") -> None:
        message = f"{what} {owned_id} is no longer running under claim {epoch}; stop working on it"
        super().__init__(message)


class RunNotFound(StorageError):
    """No run has this id."""

    def __init__(self, run_ids: Iterable[int]) -> None:
        self.run_ids = tuple(sorted(run_ids))
        ids = ", ".join(map(str, self.run_ids))
        super().__init__(f"no run with id {ids}; it may have been deleted: see the Library, or python -m engine runs")


class AnalysisNotFound(StorageError):
    """No analysis has this id."""

    def __init__(self, analysis_id: int) -> None:
        super().__init__(f"no analysis with id {analysis_id}; its run may have been deleted: request it again")


class ExperimentNotFound(StorageError):
    """No experiment has this id."""

    def __init__(self, experiment_id: int) -> None:
        self.experiment_id = experiment_id
        where = "see the Library, or python -m engine runs"
        super().__init__(f"no experiment with id {experiment_id}; it may have been deleted: {where}")


class RunsActive(StorageError):
    """Running runs cannot be deleted."""

    def __init__(self, run_ids: Iterable[int]) -> None:
        self.run_ids = tuple(sorted(run_ids))
        ids = ", ".join(map(str, self.run_ids))
        if len(self.run_ids) == 1:
            words = f"run {ids} is still running; cancel it and wait until it has stopped before deleting it"
        else:
            words = f"runs {ids} are still running; cancel them and wait until they have stopped before deleting them"
        super().__init__(words)


class RoomNotFound(StorageError):
    """No room has this code, or another browser leads it."""

    def __init__(self, code: str) -> None:
        super().__init__(f"there is no room {code} to change; it was closed, or another browser leads it")


class RoomsFull(StorageError):
    """No more rooms may be opened."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the limit of {limit} rooms is reached; close one, or try again in ten minutes")


class RoomFull(StorageError):
    """No more readers may join a room."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this room has reached its limit of {limit} readers; watch the lecturer's screen instead")


class ArtifactNotWritten(StorageError):
    """A file could not be written: the disk is full, or the folder is not writable."""


class ArtifactDamaged(StorageError):
    """The file of an artifact is missing or was changed."""


class ArchiveInvalid(StorageError):
    """A backup or bundle that is damaged or of another kind, or a file that is neither."""
