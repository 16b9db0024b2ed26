"""Exports and imports runs: documents, tables, bundles, imported files, the shipped examples."""

import lzma
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.access import permits
from app.data import queries, shipped
from engine.config.presets import Preset
from engine.config.schema import file_label
from engine.core.errors import InvalidConfig
from engine.core.paths import ASSETS
from engine.core.results import RunResult
from engine.exchange.bundle import write_bundle
from engine.exchange.import_runs import Imported, Progress, import_file
from engine.exchange.records import choices_of, export_config, load_result
from engine.export.document import export_text
from engine.export.reading import read_export
from engine.export.tables import rounds_table, without_formulas
from storage import ArtifactDamaged, ExperimentRecord, RunNotFound, RunRecord

EXAMPLES = ASSETS / "examples" / "runs"


def file_name(runs: Sequence[RunRecord]) -> str:
    """The name of the experiment if there is one, else the number of runs."""
    names = {run.experiment_name for run in runs}
    return file_label(names.pop()) if len(names) == 1 else f"{len(runs)} runs"


def json_of(run_ids: Sequence[int]) -> bytes:
    """The export document of these runs, the same as the command line writes."""
    runs, store = _with_partition(run_ids), queries.store()
    return export_text(export_config(store, runs), _results(runs), choices_of(store, runs)).encode()


def csv_of(run_ids: Sequence[int]) -> bytes:
    """A row per run and round: every scalar, and mean losses."""
    table = rounds_table(_results(_with_partition(run_ids)))
    return without_formulas(table).to_csv(index=False).encode()


def bundle_of(run_ids: Sequence[int]) -> bytes:
    """Runs that have ended, with models, analyses and logs. Raises ArtifactDamaged if one of these is damaged."""
    ended = [run for run in _with_partition(run_ids) if run.is_finished]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        if problems := write_bundle(queries.store(), path, ended):
            raise ArtifactDamaged("; ".join(problems))
        return path.read_bytes()


def import_bytes(name: str, data: bytes, tell: Progress = lambda number, of: None) -> Imported:
    """Import the runs of an exported file. Raises InvalidConfig, and then adds no run."""
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        with permits.allow("import", queries.store(), "Import", of=[name], adds="files") as person:
            return import_file(queries.store(), Path(path), tell, owner=person.name)
    except InvalidConfig as error:
        raise InvalidConfig(problem.replace(path, name) for problem in error.problems) from None
    finally:
        Path(path).unlink(missing_ok=True)


def example_files() -> list[Path]:
    """Results that ship with Fedscape."""
    return sorted(EXAMPLES.glob("*.json"))


def load_examples() -> list[ExperimentRecord]:
    """Load all examples, labeled as such, except those already loaded."""
    known = {experiment.name for experiment in queries.experiments(include_archived=True) if experiment.example}
    loaded: list[ExperimentRecord] = []
    with permits.allow("import", queries.store(), "Load the examples"):
        for path in example_files():
            if not {found.config.name for found in read_export(path)} <= known:
                loaded += import_file(queries.store(), path, example=True).experiments
    return loaded


def load_study(preset: Preset, scale: str, tell: Progress = lambda number, of: None) -> ExperimentRecord:
    """Load the shipped runs of a study, labeled as an example, unless they are loaded already."""
    store, (study,) = queries.store(), preset.configs(scale)
    for known in queries.experiments(include_archived=True):
        if known.example and known.config == study:
            return known
    with permits.allow("import", store, "Load the example study"), tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.zip"
        bundle.write_bytes(lzma.decompress(shipped.path_of(preset, scale).read_bytes()))
        found = import_file(store, bundle, tell, example=True)
    if found.experiments:
        return found.experiments[0]
    return store.experiments.get(store.queue.get(found.known[0].run_id).experiment_id)


def _with_partition(run_ids: Sequence[int]) -> list[RunRecord]:
    """Raises RunNotFound if one was deleted meanwhile."""
    runs = queries.runs(run_ids=run_ids, include_archived=True, with_partition=True)
    if gone := set(run_ids) - {run.id for run in runs}:
        raise RunNotFound(gone)
    return runs


def _results(runs: Iterable[RunRecord]) -> Iterable[RunResult]:
    """Read lazily, one at a time: an export of many runs needs the memory of one."""
    store = queries.store()
    return (load_result(store, run) for run in runs)
