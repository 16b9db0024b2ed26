"""Imports runs that were computed elsewhere, from export documents and bundles."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from engine.config.study import Study
from engine.core.errors import InvalidConfig
from engine.core.results import RunResult
from engine.exchange.bundle import Attachments, open_bundle
from engine.exchange.records import choice_record, finished_run, load_result
from engine.export.document import run_document
from engine.export.reading import ImportedExperiment, check_regular, read_export
from storage import Archive, ExperimentRecord, FinishedRun, RunRecord, Store

Progress = Callable[[int, int], None]  # number of the run, total
AddAttachments = Callable[[int, FinishedRun], FinishedRun]  # adds models, analyses and log to the run with this number


@dataclass(frozen=True)
class Known:
    """A run of the file that had been imported before; ``added`` is how many models and analyses were missing."""

    label: str
    seeds: str  # in words, with the split if the data have a seed of their own
    run_id: int
    added: int = 0


@dataclass(frozen=True)
class Imported:
    """The experiments with new runs, the runs imported before, and notes on what was left out."""

    experiments: tuple[ExperimentRecord, ...]
    known: tuple[Known, ...]
    notes: tuple[str, ...] = ()
    new_runs: Mapping[int, Sequence[int]] = field(default_factory=dict)  # of each experiment, by id


@dataclass(frozen=True)
class RunsFile:
    """The content of a file; models, analyses and logs are read only when needed."""

    experiments: Sequence[ImportedExperiment]
    add_attachments: AddAttachments

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
    """Imports a document or a bundle. Raises InvalidConfig or StorageError, and adds no run then."""
    with open_export(path) as file:
        return import_runs(store, file, progress, example=example, owner=owner)


@contextmanager
def open_export(path: Path) -> Iterator[RunsFile]:
    """Opens an export. Raises InvalidConfig; for a bundle also later, when its models are read."""
    if not _is_zip(path):
        yield RunsFile(read_export(path), lambda number, run: run)
        return
    with open_bundle(path) as (archive, found, attachments):
        yield RunsFile(found, lambda number, run: _with_attachments(run, attachments[number], archive))


def _is_zip(path: Path) -> bool:
    """Whether it is a bundle. Raises InvalidConfig if it cannot be read."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            begins_as_zip = file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise InvalidConfig([f"{path}: cannot be read ({error.strerror or error}); give an exported file"]) from None
    is_zip = zipfile.is_zipfile(path)
    if begins_as_zip and not is_zip:  # its table of contents is at the end
        raise InvalidConfig([f"{path}: is a damaged or incomplete bundle; export it again"])
    return is_zip


def import_runs(
    store: Store,
    file: RunsFile,
    progress: Progress = lambda number, total: None,
    *,
    example: bool = False,
    owner: str = "",
) -> Imported:
    """Imports the runs of a file that no earlier import has added; on an error no run is added.

    Runs that exist already only get missing models and analyses, and studies their missing choices; an error later on
    does not remove these. Further runs of an experiment are added to it; a study of which only a part exists is
    imported whole. An ``owner`` adds nothing to the runs of others, and gets copies of them.
    """
    known = _find_known(store, file.experiments, owner)
    numbers, total = count(1), sum(len(experiment.runs) for experiment in file.experiments) - len(known)

    def new_runs(experiment: ImportedExperiment) -> Iterator[FinishedRun]:
        for number, run in file.runs_of(experiment):
            if number not in known:
                progress(next(numbers), total)
                yield run

    created: list[int] = []
    added: dict[int, Sequence[int]] = {}  # experiment -> its new runs
    notes: list[str] = []
    try:
        for found in file.experiments:
            experiment_id = _experiment_of(store, found, known, example)
            if experiment_id is None:
                name, config = found.config.name, found.config.raw
                experiment_id = store.experiments.import_finished(name, config, new_runs(found), example, owner).id
                created.append(experiment_id)
                added[experiment_id] = [run.id for run in _runs_of(store, experiment_id)]
            elif further := store.experiments.add_finished(experiment_id, new_runs(found)):
                added[experiment_id] = [*added.get(experiment_id, ()), *further]  # one may occur twice in a file
            notes += found.notes
            if found.config.tune is not None:
                notes += _add_choices(store, experiment_id, found)
        completed = [
            _add_missing(store, known[number], run)
            for experiment in file.experiments
            for number, run in file.runs_of(experiment)
            if number in known
        ]
    except BaseException:
        store.experiments.delete(created)
        store.queue.delete([run_id for new in added.values() for run_id in new])
        raise
    return Imported(tuple(map(store.experiments.get, added)), tuple(completed), tuple(notes), added)


def _runs_of(store: Store, experiment_id: int) -> list[RunRecord]:
    return store.queue.runs(experiment_ids=[experiment_id], newest_first=False, with_partition=False)


def _experiment_of(store: Store, found: ImportedExperiment, known: Mapping[int, Known], example: bool) -> int | None:
    """The experiment into which all known runs of ``found`` were imported, if it has the same configuration."""
    runs = [store.queue.get(known[number].run_id) for number in found.numbers if number in known]
    if len(runs) == len(found.numbers):
        return runs[0].experiment_id
    if len(ids := {run.experiment_id for run in runs}) == 1:
        (experiment_id,) = ids
        existing = store.experiments.get(experiment_id)
        if existing.example == example and _is_config(found, existing):
            return experiment_id
    return None


def _add_choices(store: Store, experiment_id: int, found: ImportedExperiment) -> list[str]:
    """Adds the choices that the study lacks. Returns a note if some are missing in the file, too."""
    store.studies.insert(experiment_id, [choice_record(experiment_id, choice) for choice in found.choices])
    chosen = {(choice.entry, choice.split) for choice in store.studies.choices(experiment_id)}
    has_finals = any(config.study is not None and config.study.role == "final" for config, _ in found.runs)
    if not has_finals or chosen >= set(Study(found.config).tuned):
        return []
    reason = "the file does not have all choices of this study, without which the Study page shows no results"
    return [f"{found.config.name}: {reason}; export the study again and import that file"]


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
    digests = {config.digest for experiment in found for config, _ in experiment.runs}
    existing = [
        run
        for run in store.queue.find_by_digest(digests)
        if (run.provenance or {}).get("imported") and owner in ("", run.owner)
    ]
    known: dict[int, Known] = {}
    for experiment in found:
        find = _find_runs if experiment.config.tune is None else _find_study
        matches = zip(experiment.numbers, find(store, experiment, existing), strict=True)
        known |= {number: Known(run.label, run.seeds_in_words, run.id) for number, run in matches if run is not None}
    return known


def _find_runs(store: Store, found: ImportedExperiment, existing: Sequence[RunRecord]) -> list[RunRecord | None]:
    """For each run the existing one with its content."""
    by_digest: dict[str, list[RunRecord]] = {}
    for run in existing:
        by_digest.setdefault(run.digest, []).append(run)
    return [_match(store, imported, by_digest.get(config.digest, ())) for config, imported in found.runs]


def _find_study(store: Store, found: ImportedExperiment, existing: Sequence[RunRecord]) -> list[RunRecord | None]:
    """The runs of the experiment that has all of them, if there is one: parts of a study have no results."""
    digests = {config.digest for config, _ in found.runs}
    for experiment_id in dict.fromkeys(run.experiment_id for run in existing):
        own = [run for run in existing if run.experiment_id == experiment_id]
        if digests <= {run.digest for run in own} and _is_config(found, store.experiments.get(experiment_id)):
            matches = _find_runs(store, found, own)
            if None not in matches:
                return matches
    return [None] * len(found.runs)


def _is_config(found: ImportedExperiment, existing: ExperimentRecord) -> bool:
    """Whether the configurations are the same, apart from the name."""
    return {**existing.config, "name": None} == {**found.config.raw, "name": None}


def _match(store: Store, imported: RunResult, candidates: Sequence[RunRecord]) -> RunRecord | None:
    content = _content(imported) if candidates else ""
    return next((run for run in candidates if _content(load_result(store, run)) == content), None)


def _content(run: RunResult) -> str:
    """The content of a run, without its experiment's name."""
    return json.dumps(run_document(replace(run, experiment="")), sort_keys=True, default=str)
