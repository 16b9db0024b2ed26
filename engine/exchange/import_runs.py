"""Files of runs that were computed elsewhere, taken into a database: exported documents and bundles."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from engine.config.schema import RunConfig
from engine.core.errors import InvalidConfig
from engine.exchange.bundle import Belongings, open_bundle
from engine.exchange.records import finished_run, outcome
from engine.export.document import RunOutcome, run_document
from engine.export.reading import ImportedExperiment, check_regular, read_export
from storage import Archive, ExperimentRecord, FinishedRun, RunRecord, Store

Progress = Callable[[int, int], None]  # which run of how many
Belong = Callable[[int, FinishedRun], FinishedRun]  # the run of this number in the file with its models and log


@dataclass(frozen=True)
class Known:
    """A run of the file that an import has brought before; ``added``: how many models and analyses it lacked."""

    label: str
    seed: int
    run_id: int
    added: int = 0


@dataclass(frozen=True)
class Imported:
    """New experiments, and what of the file was there."""

    experiments: tuple[ExperimentRecord, ...]
    known: tuple[Known, ...]


@dataclass(frozen=True)
class RunsFile:
    """What is in a file; models, analyses and logs are read when it is their turn."""

    experiments: Sequence[ImportedExperiment]
    belong: Belong

    def runs_of(self, experiment: ImportedExperiment) -> Iterator[tuple[int, FinishedRun]]:
        """Each with its number in the file."""
        for number, (config, run) in zip(experiment.numbers, experiment.runs, strict=True):
            yield number, self.belong(number, finished_run(config, run))


def import_file(
    store: Store, path: Path, tell: Progress = lambda number, of: None, *, example: bool = False
) -> Imported:
    """A document or a bundle. Raises InvalidConfig or StorageError, and keeps nothing then."""
    with opened(path) as file:
        return take_in(store, file, tell, example=example)


@contextmanager
def opened(path: Path) -> Iterator[RunsFile]:
    """Raises InvalidConfig that says what is wrong with the file; of a bundle also later, when its models are read."""
    if not _is_zip(path):
        yield RunsFile(read_export(path), lambda number, run: run)
        return
    with open_bundle(path) as (archive, found, beside):
        yield RunsFile(found, lambda number, run: _with(run, beside[number], archive))


def _is_zip(path: Path) -> bool:
    try:
        check_regular(path)
    except OSError as error:
        raise InvalidConfig([f"{path}: cannot be read ({error.strerror or error}); give an exported file"]) from None
    return zipfile.is_zipfile(path)


def take_in(
    store: Store, file: RunsFile, tell: Progress = lambda number, of: None, *, example: bool = False
) -> Imported:
    """All runs of the file that no import has brought before; none where an error comes in between.

    Those that are there already only get what they lack.
    """
    known = _known(store, file.experiments)
    numbers, of = count(1), sum(len(experiment.runs) for experiment in file.experiments) - len(known)

    def new_runs(experiment: ImportedExperiment) -> Iterator[FinishedRun]:
        for number, run in file.runs_of(experiment):
            if number not in known:
                tell(next(numbers), of)
                yield run

    kept: list[ExperimentRecord] = []
    try:
        for found in file.experiments:
            if not known.keys() >= set(found.numbers):
                name, config = found.config.name, found.config.raw
                kept.append(store.experiments.import_finished(name, config, new_runs(found), example))
        completed = [
            _completed(store, known[number], run)
            for experiment in file.experiments
            for number, run in file.runs_of(experiment)
            if number in known
        ]
    except BaseException:
        store.experiments.delete([experiment.id for experiment in kept])
        raise
    return Imported(tuple(kept), tuple(completed))


def _completed(store: Store, known: Known, run: FinishedRun) -> Known:
    """Models that were dropped since, or that an import which was killed did not come to, are added."""
    kinds = {artifact.kind for artifact in store.artifacts.list(known.run_id)}
    models = [model for model in run.models if model.kind not in kinds]
    analyses = [a for a in run.analyses if store.analyses.find(known.run_id, a.kind, a.params) is None]
    store.experiments.take_files(known.run_id, replace(run, models=models, analyses=analyses))
    return replace(known, added=len(models) + len(analyses))


def _with(run: FinishedRun, belongings: Belongings, archive: Archive) -> FinishedRun:
    return replace(
        run, models=belongings.models_of(archive), analyses=belongings.analyses_of(archive), events=belongings.log()
    )


def _known(store: Store, found: Sequence[ImportedExperiment]) -> dict[int, Known]:
    """By its number, each run of the file that was imported before with the same content."""
    runs = [(n, *run) for e in found for n, run in zip(e.numbers, e.runs, strict=True)]
    there: dict[str, list[RunRecord]] = {}
    for run in store.queue.find_by_digest({config.digest for _, config, _ in runs}):
        if (run.provenance or {}).get("imported"):
            there.setdefault(run.digest, []).append(run)
    matches = {n: _match(store, config, came_to, there) for n, config, came_to in runs}
    return {n: Known(run.label, run.seed, run.id) for n, run in matches.items() if run is not None}


def _match(
    store: Store, config: RunConfig, came_to: RunOutcome, there: Mapping[str, Sequence[RunRecord]]
) -> RunRecord | None:
    candidates = there.get(config.digest)
    if not candidates:
        return None
    content = _content(came_to)
    return next((run for run in candidates if _content(outcome(store, run)) == content), None)


def _content(run: RunOutcome) -> str:
    """What makes it the run it is, whatever its experiment is called."""
    return json.dumps(run_document(replace(run, experiment="")), sort_keys=True, default=str)
