"""What Fedscape remembers: experiments, runs, rounds, artifacts. Speaks in frozen records; ``Store`` is the door."""

from storage.database import DispatcherLock
from storage.errors import (
    AnalysisNotFound,
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
    FinishedRun,
    NewArtifact,
    NewRun,
    Place,
    RoundRecord,
    RunRecord,
    SavedViewRecord,
    Status,
)
from storage.store import Store, store_from_env

__all__ = [
    "FINISHED", "AnalysisNotFound", "AnalysisRecord", "AnalysisStatus", "ArtifactDamaged", "ArtifactNotWritten",
    "ArtifactRecord", "Control", "DatabaseLocked", "DatabaseMoved", "DatabaseUnavailable", "DiskFull", "DiskUse",
    "DispatcherLock", "DispatcherLockLost", "EngineRecord", "EventRecord", "ExperimentNotFound", "ExperimentRecord",
    "Fenced", "FinishedRun", "NetworkFileSystem", "NewArtifact", "NewRun", "NotADatabase", "Place", "RoundRecord",
    "RunNotFound", "RunRecord", "RunsActive", "SavedViewRecord", "SchemaOutdated", "SchemaTooNew", "Status",
    "StorageError", "Store", "Transient", "store_from_env",
]
