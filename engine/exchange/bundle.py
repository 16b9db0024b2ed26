"""Bundles: runs with all their data in one file: the export document, models, analyses and logs.

A plain zip. ``runs.json`` is the output of ``export --format json``, except for the choices of studies, which are in
``choices.json``. ``beside.json`` has an entry per run, which names its models and results, safetensors files in the
folder with the run's number.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from engine.analyses.support.layouts import check_findings
from engine.core.errors import CheckpointInvalid, InvalidConfig
from engine.core.findings import Findings
from engine.core.run_json import problems_of
from engine.core.vocabulary import ModelsFile
from engine.exchange.records import choices_of, export_config, load_result
from engine.export.artifact_checks import check_models
from engine.export.choices import ChoiceEntry, Time, by_experiment
from engine.export.document import NOTHING, write_export
from engine.export.reading import ImportedExperiment, check_no_null, parse_export
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

RUNS, ATTACHMENTS, CHOICES = "runs.json", "beside.json", "choices.json"
MAX_EVENTS = 100_000  # per run
MAX_PROBLEMS = 10
MEMBER = r"^[0-9]{4,9}/[a-z][a-z0-9_-]*\.safetensors$"

Level = Literal["info", "warning", "error"]
Round = Annotated[int, Field(ge=0, lt=2**31)]
Member = Annotated[str, Field(pattern=MEMBER)]


class ModelsEntry(BaseModel):
    kind: ModelsFile
    round: Round
    member: Member


class AnalysisEntry(BaseModel):
    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}$")]  # becomes part of a file name
    params: dict[str, Any]
    round: Round
    member: Member


class EventEntry(BaseModel):
    at: Time
    level: Level
    kind: str
    message: str


class Attachments(BaseModel):
    """The files and events of a run that are not part of the document."""

    models: list[ModelsEntry] = []
    analyses: list[AnalysisEntry] = []
    events: Annotated[list[EventEntry], Field(max_length=MAX_EVENTS)] = []

    @model_validator(mode="after")
    def _check_unique(self) -> Self:
        models = [m.kind for m in self.models]
        if len(set(models)) < len(models):
            raise ValueError("models: each kind must occur only once")
        keys = [_key(a) for a in self.analyses]
        if len(set(keys)) < len(keys):
            raise ValueError("analyses: each analysis must occur only once")
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
        """Checks the files of the run before anything is imported. Raises InvalidConfig."""
        num_clients = len(partition.get("test_sizes", ()))
        for models in self.models:
            with _naming(archive, models.member):
                check_models(archive.read(models.member), num_clients)
        for analysis in self.analyses:
            with _naming(archive, analysis.member):
                found = Findings.from_bytes(archive.read(analysis.member))
                check_findings(analysis.kind, analysis.params, found, partition)

    def log(self) -> list[FinishedEvent]:
        return [FinishedEvent(e.at, e.level, e.kind, e.message) for e in self.events]


def write_bundle(store: Store, path: Path, runs: Sequence[RunRecord]) -> list[str]:
    """Writes finished runs to a bundle. Returns a message for each file that could not be read and was left out.

    Raises InvalidConfig if there are no runs.
    """
    if not runs:
        raise InvalidConfig([NOTHING])
    problems: list[str] = []
    with new_archive(path, BUNDLE) as archive, _temporary_document(store, path, runs) as document:
        archive.add_file(RUNS, document)
        attachments = [_pack(store, archive, f"{i:04d}", run, problems) for i, run in enumerate(runs)]
        archive.add(
            ATTACHMENTS, json.dumps([entry.model_dump(mode="json") for entry in attachments], indent=1).encode()
        )
        if choices := choices_of(store, runs):
            archive.add(CHOICES, json.dumps([choice.model_dump(mode="json") for choice in choices], indent=1).encode())
        archive.facts = {"runs": len(runs)}
    return problems


@contextmanager
def open_bundle(path: Path) -> Iterator[tuple[Archive, list[ImportedExperiment], list[Attachments]]]:
    """Opens a bundle: experiments, and attachments per run. Raises InvalidConfig, also later when reading members."""
    try:
        with Archive(path, BUNDLE) as archive:
            found = parse_export(archive.read(RUNS), path / RUNS)
            attachments = _read_attachments(archive, found)
            for experiment in found:
                for number, (_, run) in zip(experiment.numbers, experiment.runs, strict=True):
                    attachments[number].check(archive, run.partition or {})
            yield archive, _with_choices(archive, found), attachments
    except ArchiveInvalid as error:
        raise InvalidConfig([str(error)]) from error


@contextmanager
def _temporary_document(store: Store, path: Path, runs: Sequence[RunRecord]) -> Iterator[Path]:
    """The document in a temporary file, written run by run, since it may exceed the memory."""
    document = path.with_name(f".{path.name}.{os.getpid()}.json")
    try:
        write_export(document, export_config(store, runs), (load_result(store, run) for run in runs))
        yield document
    finally:
        document.unlink(missing_ok=True)


def _pack(store: Store, archive: ArchiveWriter, folder: str, run: RunRecord, problems: list[str]) -> Attachments:
    events = store.events.list(run.id, limit=MAX_EVENTS)
    packed = Attachments(
        events=[
            EventEntry(at=e.at, level=cast(Level, e.level), kind=e.kind, message=e.message)
            for e in events
            if e.level in get_args(Level)
        ]
    )
    done = {_key(a): a for a in reversed(store.analyses.list(run.id)) if a.status == "done" and a.artifact_id}
    analyses = {a.artifact_id: a for a in done.values()}
    artifacts = store.artifacts.list(run.id)[::-1]
    newest = {a.kind: a.id for a in artifacts if a.kind in get_args(ModelsFile)}
    for artifact in artifacts:
        analysis = analyses.get(artifact.id)
        if artifact.id not in newest.values() and analysis is None:
            continue
        try:
            data = store.artifacts.read(artifact)
            number = "" if analysis is None else f"-{analysis.id}"
            member = f"{folder}/{artifact.kind}{number}.safetensors"
            _add_entry(packed, artifact.kind, artifact.round, member, analysis)
        except ArtifactDamaged as error:
            problems.append(str(error))
        except ValidationError as error:
            problems.append(f"the {artifact.kind} of run {run.id} is left out: {problems_of(error)[0]}")
        else:
            archive.add(member, data)
    return packed


def _key(analysis: AnalysisEntry | AnalysisRecord) -> tuple[str, str]:
    """The key of an analysis: a run has at most one per kind and parameters."""
    return analysis.kind, json.dumps(analysis.params, sort_keys=True, default=str)


def _add_entry(packed: Attachments, kind: Any, round: int, member: str, analysis: AnalysisRecord | None) -> None:
    if analysis is None:
        packed.models.append(ModelsEntry(kind=kind, round=round, member=member))
    else:
        packed.analyses.append(AnalysisEntry(kind=analysis.kind, params=analysis.params, round=round, member=member))


def _read_attachments(archive: Archive, found: Sequence[ImportedExperiment]) -> list[Attachments]:
    at, data = archive.path / ATTACHMENTS, archive.read(ATTACHMENTS)
    check_no_null(data, at)
    try:
        attachments = TypeAdapter(list[Attachments]).validate_json(data)
    except ValidationError as error:
        raise InvalidConfig(f"{at}: {problem}" for problem in problems_of(error)[:MAX_PROBLEMS]) from None
    if len(attachments) != sum(len(experiment.runs) for experiment in found):
        raise InvalidConfig([f"{at}: has {len(attachments)} entries, but must have one per run; export the runs again"])
    named = Counter(member for each in attachments for member in each.members)
    if missing := named.keys() - archive.members.keys():
        raise InvalidConfig([f"{at}: names {min(missing)!r}, which is missing; export the runs again"])
    if repeated := [member for member, times in named.items() if times > 1]:
        raise InvalidConfig([f"{at}: names {min(repeated)!r} more than once; export the runs again"])
    if extra := archive.members.keys() - named.keys() - {RUNS, ATTACHMENTS, CHOICES}:
        raise InvalidConfig([f"{archive.path}: {min(extra)!r} belongs to no run; export the runs again"])
    return attachments


def _with_choices(archive: Archive, found: Sequence[ImportedExperiment]) -> list[ImportedExperiment]:
    if CHOICES not in archive.members:
        return list(found)
    at = archive.path / CHOICES
    try:
        entries = TypeAdapter(list[ChoiceEntry]).validate_json(archive.read(CHOICES))
    except ValidationError as error:
        raise InvalidConfig(f"{at}: {problem}" for problem in problems_of(error)[:MAX_PROBLEMS]) from None
    choices = by_experiment(entries, [experiment.config for experiment in found], at)
    return [replace(experiment, choices=own) for experiment, own in zip(found, choices, strict=True)]


@contextmanager
def _naming(archive: Archive, member: str) -> Iterator[None]:
    try:
        yield
    except CheckpointInvalid as error:
        raise InvalidConfig([f"{archive.path / member}: {error}"]) from error
