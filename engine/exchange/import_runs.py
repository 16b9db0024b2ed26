"""Imports runs that were computed elsewhere, from export documents and bundles."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from engine.config.schema import RunConfig
from engine.core.errors import InvalidConfig
from engine.core.results import RunResult
from engine.exchange.bundle import Attachments, open_bundle
from engine.exchange.records import finished_run, load_result
from engine.export.document import run_document
from engine.export.reading import ImportedExperiment, check_regular, read_export
from storage import Archive, ChoiceRecord, ExperimentRecord, FinishedRun, RunRecord, Store

Progress = Callable[[int, int], None]  # number of the run, total
AddAttachments = Callable[[int, FinishedRun], FinishedRun]  # adds models, analyses and log to the run with this number


@dataclass(frozen=True)
class Known:
    """A run of the file that had been imported before; ``added`` is how many models and analyses were missing."""

    label: str
    seed: int
    run_id: int
    added: int = 0


@dataclass(frozen=True)
class Imported:
    """The new experiments, and the runs that had been imported before."""

    experiments: tuple[ExperimentRecord, ...]
    known: tuple[Known, ...]


@dataclass(frozen=True)
class RunsFile:
    """The content of a file; models, analyses and logs are read only when needed."""

    experiments: Sequence[ImportedExperiment]
    add_attachments: AddAttachments
    choices: Sequence[Sequence[ChoiceRecord]] = ()  # of each experiment, if it is a study

    def runs_of(self, experiment: ImportedExperiment) -> Iterator[tuple[int, FinishedRun]]:
        """The runs of an experiment, each with its number in the file."""
        for number, (config, run) in zip(experiment.numbers, experiment.runs, strict=True):
            yield number, self.add_attachments(number, finished_run(config, run))


def import_file(
    store: Store,
    path: Path,
    progress: Progress = lambda number, total: None,
    *,
    example: bool = False,
    owner: str = "",
) -> Imported:
    """Imports a document or a bundle. Raises InvalidConfig or StorageError, and imports nothing then."""
    with open_export(path) as file:
        return import_runs(store, file, progress, example=example, owner=owner)


@contextmanager
def open_export(path: Path) -> Iterator[RunsFile]:
    """Opens an export. Raises InvalidConfig; for a bundle also later, when its models are read."""
    if not _is_zip(path):
        yield RunsFile(read_export(path), lambda number, run: run)
        return
    with open_bundle(path) as (archive, found, attachments, choices):
        yield RunsFile(found, lambda number, run: _with_attachments(run, attachments[number], archive), choices)


def _is_zip(path: Path) -> bool:
    try:
        check_regular(path)
    except OSError as error:
        raise InvalidConfig([f"{path}: cannot be read ({error.strerror or error}); give an exported file"]) from None
    return zipfile.is_zipfile(path)


def import_runs(
    store: Store,
    file: RunsFile,
    progress: Progress = lambda number, total: None,
    *,
    example: bool = False,
    owner: str = "",
) -> Imported:
    """Imports the runs of a file that no earlier import has added; on an error none of them.

    Runs that exist already only get missing models and analyses. An ``owner`` adds nothing to the runs of others, and
    gets copies of them.
    """
    known = _find_known(store, file.experiments, owner)
    numbers, total = count(1), sum(len(experiment.runs) for experiment in file.experiments) - len(known)

    def new_runs(experiment: ImportedExperiment) -> Iterator[FinishedRun]:
        for number, run in file.runs_of(experiment):
            if number not in known:
                progress(next(numbers), total)
                yield run

    created: list[ExperimentRecord] = []
    try:
        for i, found in enumerate(file.experiments):
            if not known.keys() >= set(found.numbers):
                name, config = found.config.name, found.config.raw
                created.append(store.experiments.import_finished(name, config, new_runs(found), example, owner))
                store.studies.insert(created[-1].id, file.choices[i] if file.choices else ())
        completed = [
            _add_missing(store, known[number], run)
            for experiment in file.experiments
            for number, run in file.runs_of(experiment)
            if number in known
        ]
    except BaseException:
        store.experiments.delete([experiment.id for experiment in created])
        raise
    return Imported(tuple(created), tuple(completed))


def _add_missing(store: Store, known: Known, run: FinishedRun) -> Known:
    """Adds models and analyses that were deleted since, or that a killed import did not reach."""
    kinds = {artifact.kind for artifact in store.artifacts.list(known.run_id)}
    models = [model for model in run.models if model.kind not in kinds]
    analyses = [a for a in run.analyses if store.analyses.find(known.run_id, a.kind, a.params) is None]
    added = store.experiments.add_files(known.run_id, replace(run, models=models, analyses=analyses))
    return replace(known, added=added)


def _with_attachments(run: FinishedRun, attachments: Attachments, archive: Archive) -> FinishedRun:
    return replace(
        run, models=attachments.models_of(archive), analyses=attachments.analyses_of(archive), events=attachments.log()
    )


def _find_known(store: Store, found: Sequence[ImportedExperiment], owner: str) -> dict[int, Known]:
    """The runs of the file that were imported before with the same content, by number."""
    runs = [(n, *run) for e in found for n, run in zip(e.numbers, e.runs, strict=True)]
    existing: dict[str, list[RunRecord]] = {}
    for run in store.queue.find_by_digest({config.digest for _, config, _ in runs}):
        if (run.provenance or {}).get("imported") and owner in ("", run.owner):
            existing.setdefault(run.digest, []).append(run)
    matches = {n: _match(store, config, imported, existing) for n, config, imported in runs}
    return {n: Known(run.label, run.seed, run.id) for n, run in matches.items() if run is not None}


def _match(
    store: Store, config: RunConfig, imported: RunResult, existing: Mapping[str, Sequence[RunRecord]]
) -> RunRecord | None:
    candidates = existing.get(config.digest)
    if not candidates:
        return None
    content = _content(imported)
    return next((run for run in candidates if _content(load_result(store, run)) == content), None)


def _content(run: RunResult) -> str:
    """The content of a run, without its experiment's name."""
    return json.dumps(run_document(replace(run, experiment="")), sort_keys=True, default=str)
