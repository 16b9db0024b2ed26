"""What Fedscape remembers: experiments, runs, rounds, artifacts. Speaks in frozen records; ``Store`` is the door."""

from storage.activity import Glance
from storage.archive import BUNDLE, Archive, ArchiveWriter, new_archive
from storage.backup import Backup
from storage.database import DispatcherLock
from storage.errors import (
    AnalysisNotFound,
    ArchiveInvalid,
    ArtifactDamaged,
    ArtifactNotWritten,
    DatabaseLocked,
    DatabaseMoved,
    DatabaseUnavailable,
    DiskFull,
    DispatcherLockLost,
    ExperimentNotFound,
    Fenced,
    NetworkFileSystem,
    NotADatabase,
    RunNotFound,
    RunsActive,
    SchemaOutdated,
    SchemaTooNew,
    StorageError,
    Transient,
)
from storage.records import (
    FINISHED,
    AnalysisRecord,
    AnalysisStatus,
    ArtifactRecord,
    Control,
    DiskUse,
    EngineRecord,
    EventRecord,
    ExperimentRecord,
    FinishedAnalysis,
    FinishedEvent,
    FinishedFile,
    FinishedRun,
    NewArtifact,
    NewRun,
    Place,
    RoundRecord,
    RunRecord,
    SavedViewRecord,
    Status,
)
from storage.restore import Restored
from storage.store import Store, store_from_env

__all__ = [
    "BUNDLE", "FINISHED", "AnalysisNotFound", "AnalysisRecord", "AnalysisStatus", "Archive", "ArchiveInvalid",
    "ArchiveWriter", "ArtifactDamaged", "ArtifactNotWritten", "ArtifactRecord", "Backup", "Control", "DatabaseLocked",
    "DatabaseMoved", "DatabaseUnavailable", "DiskFull", "DiskUse", "DispatcherLock", "DispatcherLockLost",
    "EngineRecord", "EventRecord", "ExperimentNotFound", "ExperimentRecord", "Fenced", "FinishedAnalysis",
    "FinishedEvent", "FinishedFile", "FinishedRun", "Glance", "NetworkFileSystem", "NewArtifact", "NewRun",
    "NotADatabase", "Place", "Restored", "RoundRecord", "RunNotFound", "RunRecord", "RunsActive", "SavedViewRecord",
    "SchemaOutdated", "SchemaTooNew", "Status", "StorageError", "Store", "Transient", "new_archive", "store_from_env",
]
