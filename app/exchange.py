"""Runs out of the database and into it: exported documents, tables, imported files and the shipped examples."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

from app import queries
from engine.config import RunConfig, file_label
from engine.errors import InvalidConfig
from engine.export import RunOutcome, export_text, joint_config
from engine.reading import read_export
from engine.tables import rounds_table
from engine.worker.records import finished_run, outcome
from storage import ExperimentRecord, FinishedRun, RunRecord

Progress = Callable[[int, int], None]  # which run of how many

EXAMPLES = queries.ROOT / "assets" / "examples" / "runs"


def file_name(runs: Sequence[RunRecord]) -> str:
    """After the experiment where there is one, else after their number."""
    names = {run.experiment_name for run in runs}
    return file_label(names.pop()) if len(names) == 1 else f"{len(runs)} runs"


def json_of(run_ids: Sequence[int]) -> bytes:
    """The export document of these runs, the same as the command line writes."""
    store, runs = queries.store(), _with_partition(run_ids)
    configs = [store.experiments.get(i).config for i in dict.fromkeys(run.experiment_id for run in runs)]
    return export_text(joint_config(configs), _outcomes(runs)).encode()


def csv_of(run_ids: Sequence[int]) -> bytes:
    """A row a run and round, with every scalar."""
    return rounds_table(_outcomes(_with_partition(run_ids))).to_csv(index=False).encode()


def import_bytes(name: str, data: bytes, tell: Progress = lambda number, of: None) -> list[ExperimentRecord]:
    """Runs of an exported document that somebody brings. Raises InvalidConfig, and then keeps nothing."""
    handle, path = tempfile.mkstemp(suffix=".json")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return import_file(Path(path), tell)
    except InvalidConfig as error:
        raise InvalidConfig(problem.replace(path, name) for problem in error.problems) from None
    finally:
        Path(path).unlink(missing_ok=True)


def import_file(
    path: Path, tell: Progress = lambda number, of: None, *, example: bool = False
) -> list[ExperimentRecord]:
    """Raises InvalidConfig."""
    store, documents = queries.store(), read_export(path)
    numbers, of = count(1), sum(len(found.runs) for found in documents)

    def taken(runs: Sequence[tuple[RunConfig, RunOutcome]]) -> Iterator[FinishedRun]:
        for config, run in runs:
            tell(next(numbers), of)
            yield finished_run(config, run)

    return [
        store.experiments.import_finished(found.config.name, found.config.raw, taken(found.runs), example)
        for found in documents
    ]


def example_files() -> list[Path]:
    """Results that ship with the product."""
    return sorted(EXAMPLES.glob("*.json"))


def load_examples() -> list[ExperimentRecord]:
    """All of them, labelled as examples; those that are there already are not loaded again."""
    known = {experiment.name for experiment in queries.experiments(include_archived=True) if experiment.example}
    loaded = []
    for path in example_files():
        if not {found.config.name for found in read_export(path)} <= known:
            loaded += import_file(path, example=True)
    return loaded


def _with_partition(run_ids: Sequence[int]) -> list[RunRecord]:
    return queries.runs(run_ids=run_ids, include_archived=True, with_partition=True)


def _outcomes(runs: Iterable[RunRecord]) -> Iterable[RunOutcome]:
    """Read one after the other: an export of many runs needs the memory of one."""
    store = queries.store()
    return (outcome(store, run) for run in runs)


FORMATS = (("JSON", json_of, "json", "application/json"), ("CSV", csv_of, "csv", "text/csv"))
