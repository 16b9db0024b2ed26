"""Runs in one file with all that belongs to them: the exported document, their models, analyses and logs.

A zip that any program opens. ``runs.json`` is what ``export --format json`` writes, ``beside.json`` has an entry for
each of its runs, which names the models and results in the folder of the run's number; these are safetensors.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from engine.errors import InvalidConfig
from engine.export import write_export
from engine.reading import ImportedExperiment, parse_export
from engine.worker.records import config_of, outcome
from storage import (
    BUNDLE,
    AnalysisRecord,
    Archive,
    ArchiveInvalid,
    ArchiveWriter,
    ArtifactDamaged,
    FinishedAnalysis,
    FinishedEvent,
    FinishedFile,
    RunRecord,
    Store,
    new_archive,
)

RUNS, BESIDE = "runs.json", "beside.json"
MAX_EVENTS = 100_000  # of a run
MAX_PROBLEMS = 10

Round = Annotated[int, Field(ge=0, lt=2**31)]


class ModelsEntry(BaseModel):
    kind: Literal["model-last", "model-best"]
    round: Round
    member: str


class AnalysisEntry(BaseModel):
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]  # part of a file's name later on
    params: dict[str, Any]
    round: Round
    member: str


class EventEntry(BaseModel):
    at: AwareDatetime
    level: Literal["info", "warning", "error"]
    kind: str
    message: str


class Belongings(BaseModel):
    """What a run has beside its entry in the document."""

    models: list[ModelsEntry] = []
    analyses: list[AnalysisEntry] = []
    events: Annotated[list[EventEntry], Field(max_length=MAX_EVENTS)] = []

    def models_of(self, archive: Archive) -> list[FinishedFile]:
        return [FinishedFile(m.kind, m.round, partial(archive.read, m.member)) for m in self.models]

    def analyses_of(self, archive: Archive) -> list[FinishedAnalysis]:
        return [
            FinishedAnalysis(
                a.kind, a.params, FinishedFile(f"analysis-{a.kind}", a.round, partial(archive.read, a.member))
            )
            for a in self.analyses
        ]

    def log(self) -> list[FinishedEvent]:
        return [FinishedEvent(e.at, e.level, e.kind, e.message) for e in self.events]


def write_bundle(store: Store, path: Path, runs: Sequence[RunRecord]) -> list[str]:
    """Runs that have ended. Answers what could not be read and is not in it, a line each."""
    problems: list[str] = []
    with new_archive(path, BUNDLE) as archive, _written(store, path, runs) as document:
        archive.add_file(RUNS, document)
        beside = [_pack(store, archive, f"{i:04d}", run, problems) for i, run in enumerate(runs)]
        archive.add(BESIDE, json.dumps([entry.model_dump(mode="json") for entry in beside], indent=1).encode())
        archive.facts = {"runs": len(runs)}
    return problems


@contextmanager
def open_bundle(path: Path) -> Iterator[tuple[Archive, list[ImportedExperiment], list[Belongings]]]:
    """Its runs, and what belongs to the run of each number. Raises InvalidConfig, also when a member is read late."""
    try:
        with Archive(path, BUNDLE) as archive:
            found = parse_export(archive.read(RUNS), path / RUNS)
            yield archive, found, _belongings(archive, found)
    except ArchiveInvalid as error:
        raise InvalidConfig([str(error)]) from error


@contextmanager
def _written(store: Store, path: Path, runs: Sequence[RunRecord]) -> Iterator[Path]:
    """The exported document, for a while: written run by run, it may be larger than the memory."""
    document = path.with_name(f".{path.name}.{os.getpid()}.json")
    try:
        write_export(document, config_of(store, runs), (outcome(store, run) for run in runs))
        yield document
    finally:
        document.unlink(missing_ok=True)


def _pack(store: Store, archive: ArchiveWriter, folder: str, run: RunRecord, problems: list[str]) -> Belongings:
    events = store.events.list(run.id, limit=MAX_EVENTS)
    packed = Belongings(events=[EventEntry(at=e.at, level=e.level, kind=e.kind, message=e.message) for e in events])
    analyses = {a.artifact_id: a for a in store.analyses.list(run.id) if a.status == "done"}
    for artifact in reversed(store.artifacts.list(run.id)):
        analysis = analyses.get(artifact.id)
        if not artifact.kind.startswith("model-") and analysis is None:
            continue
        try:
            data = store.artifacts.read(artifact)
        except ArtifactDamaged as error:
            problems.append(str(error))
            continue
        number = "" if analysis is None else f"-{analysis.id}"
        member = f"{folder}/{artifact.kind}{number}.safetensors"
        archive.add(member, data)
        _note(packed, artifact.kind, artifact.round, member, analysis)
    return packed


def _note(packed: Belongings, kind: Any, round: int, member: str, analysis: AnalysisRecord | None) -> None:
    if analysis is None:
        packed.models.append(ModelsEntry(kind=kind, round=round, member=member))
    else:
        packed.analyses.append(AnalysisEntry(kind=analysis.kind, params=analysis.params, round=round, member=member))


def _belongings(archive: Archive, found: Sequence[ImportedExperiment]) -> list[Belongings]:
    at = archive.path / BESIDE
    try:
        beside = TypeAdapter(list[Belongings]).validate_json(archive.read(BESIDE))
    except ValidationError as error:
        lines = [f"{at}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise InvalidConfig(lines[:MAX_PROBLEMS]) from None
    if len(beside) != sum(len(experiment.runs) for experiment in found):
        raise InvalidConfig([f"{at}: has {len(beside)} entries, but one a run is needed; export the runs again"])
    named = {m.member for each in beside for m in each.models} | {a.member for each in beside for a in each.analyses}
    if missing := named - set(archive.members):
        raise InvalidConfig([f"{at}: names {min(missing)!r}, which is not in the file; export the runs again"])
    return beside
