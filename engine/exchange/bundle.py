"""Runs in one file with all that belongs to them: the exported document, their models, analyses and logs.

A zip that any program opens. ``runs.json`` is what ``export --format json`` writes, ``beside.json`` has an entry for
each of its runs, which names the models and results in the folder of the run's number; these are safetensors.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError, model_validator

from engine.analyses.support.layouts import check_findings
from engine.core.errors import CheckpointInvalid, InvalidConfig
from engine.core.findings import Findings
from engine.core.run_json import problems_of
from engine.exchange.records import config_of, outcome
from engine.export.artifact_checks import check_models
from engine.export.document import write_export
from engine.export.reading import ImportedExperiment, parse_export
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
MEMBER = r"^[0-9]{4,9}/[a-z][a-z0-9_-]*\.safetensors$"

Level = Literal["info", "warning", "error"]
Kind = Literal["model-last", "model-best"]
Round = Annotated[int, Field(ge=0, lt=2**31)]
Member = Annotated[str, Field(pattern=MEMBER)]


class ModelsEntry(BaseModel):
    kind: Kind
    round: Round
    member: Member


class AnalysisEntry(BaseModel):
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}$")]  # part of a file's name later on
    params: dict[str, Any]
    round: Round
    member: Member


class EventEntry(BaseModel):
    at: AwareDatetime
    level: Level
    kind: str
    message: str


class Belongings(BaseModel):
    """What a run has beside its entry in the document."""

    models: list[ModelsEntry] = []
    analyses: list[AnalysisEntry] = []
    events: Annotated[list[EventEntry], Field(max_length=MAX_EVENTS)] = []

    @model_validator(mode="after")
    def _are_of_one_run_once(self) -> Self:
        models = [m.kind for m in self.models]
        if len(set(models)) < len(models):
            raise ValueError("models: the same kind is there twice")
        asked = [(a.kind, json.dumps(a.params, sort_keys=True, default=str)) for a in self.analyses]
        if len(set(asked)) < len(asked):
            raise ValueError("analyses: the same one is there twice")
        return self

    @property
    def members(self) -> list[str]:
        return [*(m.member for m in self.models), *(a.member for a in self.analyses)]

    def models_of(self, archive: Archive) -> list[FinishedFile]:
        return [FinishedFile(m.kind, m.round, partial(archive.read, m.member)) for m in self.models]

    def analyses_of(self, archive: Archive) -> list[FinishedAnalysis]:
        return [
            FinishedAnalysis(
                a.kind, a.params, FinishedFile(f"analysis-{a.kind}", a.round, partial(archive.read, a.member))
            )
            for a in self.analyses
        ]

    def check(self, archive: Archive, partition: Mapping[str, Any]) -> None:
        """Raises InvalidConfig where a file is not of such a run, before anything of the bundle is kept."""
        num_clients = len(partition.get("test_sizes", ()))
        for models in self.models:
            with _named(archive, models.member):
                check_models(archive.read(models.member), num_clients)
        for analysis in self.analyses:
            with _named(archive, analysis.member):
                found = Findings.from_bytes(archive.read(analysis.member))
                check_findings(analysis.kind, analysis.params, found, partition)

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
            beside = _belongings(archive, found)
            for experiment in found:
                for number, (_, run) in zip(experiment.numbers, experiment.runs, strict=True):
                    beside[number].check(archive, run.partition or {})
            yield archive, found, beside
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
    packed = Belongings(
        events=[
            EventEntry(at=e.at, level=cast(Level, e.level), kind=e.kind, message=e.message)
            for e in events
            if e.level in get_args(Level)
        ]
    )
    analyses = {a.artifact_id: a for a in store.analyses.list(run.id) if a.status == "done"}
    for artifact in reversed(store.artifacts.list(run.id)):
        analysis = analyses.get(artifact.id)
        if artifact.kind not in get_args(Kind) and analysis is None:
            continue
        try:
            data = store.artifacts.read(artifact)
            number = "" if analysis is None else f"-{analysis.id}"
            member = f"{folder}/{artifact.kind}{number}.safetensors"
            _note(packed, artifact.kind, artifact.round, member, analysis)
        except ArtifactDamaged as error:
            problems.append(str(error))
        except ValidationError as error:
            problems.append(f"the {artifact.kind} of run {run.id} is left out: {problems_of(error)[0]}")
        else:
            archive.add(member, data)
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
        raise InvalidConfig(f"{at}: {problem}" for problem in problems_of(error)[:MAX_PROBLEMS]) from None
    if len(beside) != sum(len(experiment.runs) for experiment in found):
        raise InvalidConfig([f"{at}: has {len(beside)} entries, but one a run is needed; export the runs again"])
    named = Counter(member for each in beside for member in each.members)
    if missing := named.keys() - archive.members.keys():
        raise InvalidConfig([f"{at}: names {min(missing)!r}, which is not in the file; export the runs again"])
    if twice := [member for member, times in named.items() if times > 1]:
        raise InvalidConfig([f"{at}: names {min(twice)!r} more than once; export the runs again"])
    if spare := archive.members.keys() - named.keys() - {RUNS, BESIDE}:
        raise InvalidConfig([f"{archive.path}: {min(spare)!r} belongs to none of its runs; export the runs again"])
    return beside


@contextmanager
def _named(archive: Archive, member: str) -> Iterator[None]:
    try:
        yield
    except CheckpointInvalid as error:
        raise InvalidConfig([f"{archive.path / member}: {error}"]) from error
