"""Exports stored runs to files: one JSON document, tables, models, or everything as a bundle."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engine.cli.stderr import print_errors
from engine.config.schema import file_label
from engine.core.errors import InvalidConfig
from engine.core.vocabulary import MODELS_OF
from engine.core.writable import check_writable
from engine.exchange.bundle import write_bundle
from engine.exchange.records import choices_of, export_config, load_result
from engine.export.document import write_export
from engine.export.model_files import write_models
from engine.export.saved_models import unpack
from engine.export.tables import clients_path, write_tables
from storage import ArtifactRecord, RunRecord, Store

Format = Literal["json", "csv", "parquet", "models", "bundle"]
SUFFIXES: dict[Format, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet", "models": "", "bundle": ".zip"}


def format_of(path: Path | None, chosen: Format | None) -> Format:
    """The chosen format, or else that of the ending of ``path``, or JSON. Raises InvalidConfig if they contradict."""
    of_ending = {suffix: format for format, suffix in SUFFIXES.items() if suffix}
    meant = None if path is None else of_ending.get(path.suffix.lower())
    if path is not None and meant is None and chosen is None and path.suffix[1:].isalpha():
        known = ", ".join(of_ending)
        raise InvalidConfig([f"{path}: no format has this ending; use one of {known}, or give --format"])
    if meant is not None and chosen not in (None, meant, "models"):  # a folder may have any name
        raise InvalidConfig([f"{path}: ends like {meant}, but the format is {chosen}; change one of them"])
    return chosen or meant or "json"


def files_of(path: Path, format: Format) -> Sequence[Path]:
    """What ``write_runs`` writes."""
    return (path, clients_path(path)) if format in ("csv", "parquet") else (path,)


def write_runs(store: Store, path: Path, runs: Sequence[RunRecord], format: Format) -> Sequence[Path]:
    """Writes the runs and returns the files, or the folder. Raises InvalidConfig if there is nothing to write."""
    if format == "models":
        check_writable(folder=path)
        if not _saved_models(store, runs):
            advice = (
                "wait for those that have not ended, and run the others again; imported runs only have models from a "
                "bundle"
            )
            raise InvalidConfig([f"none of these runs has models; {advice}"])
        write_all_models(store, path, runs)
        return (path,)
    check_writable(file=path)
    ended = _ended(runs)
    if format == "bundle":
        print_errors(write_bundle(store, path, ended))
        return (path,)
    results = (load_result(store, run) for run in ended)
    if format == "json":
        write_export(path, export_config(store, ended), results, choices_of(store, ended))
        return (path,)
    return write_tables(path, results, format)


def write_all_models(store: Store, folder: Path, runs: Sequence[RunRecord]) -> None:
    saved = _saved_models(store, runs)
    print_errors(
        f"run {run.id} ({run.label} {run.seeds_in_words}) has no models: it is {run.status}"
        for run in runs
        if run.id not in saved
    )
    for run_id, path in _model_folders([run for run in runs if run.id in saved]).items():
        write_models(folder / path, unpack(store.artifacts.read(saved[run_id])))


def _saved_models(store: Store, runs: Sequence[RunRecord]) -> dict[int, ArtifactRecord]:
    """The models after the last round, by run, of those that have some."""
    latest = {run.id: store.artifacts.latest(run.id, MODELS_OF["last"]) for run in runs}
    return {run_id: artifact for run_id, artifact in latest.items() if artifact is not None}


def file_name(name: str) -> str:
    """A safe file name for any name; never ``..``, which would leave the folder."""
    return file_label(name).strip(" .") or "_"


def _ended(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs that have ended; prints a line for each of the others."""
    ended = [run for run in runs if run.is_finished]
    if not ended:
        raise InvalidConfig(["none of these runs has ended; wait for them or cancel them, then export again"])
    print_errors(
        f"run {run.id} ({run.label} {run.seeds_in_words}) is skipped: it is {run.status}"
        for run in runs
        if not run.is_finished
    )
    return ended


def _model_folders(runs: Sequence[RunRecord]) -> dict[int, Path]:
    """``<label>-seed<seed>`` or ``<label>-split<split>-seed<seed>`` per run, in a folder per experiment if several.

    Equal names, on a disk that may ignore case, are made unique by the runs' ids.
    """
    several = len({run.experiment_id for run in runs}) > 1
    paths = {
        run.id: Path(file_name(run.experiment_name) if several else "") / file_name(f"{run.label}-{_seeds(run)}")
        for run in runs
    }
    times = Counter(str(path).casefold() for path in paths.values())
    return {
        run_id: path if times[str(path).casefold()] == 1 else path.with_name(f"{path.name}-run{run_id}")
        for run_id, path in paths.items()
    }


def _seeds(run: RunRecord) -> str:
    """``seed0``, or ``split3-seed0``."""
    return run.seeds_in_words.replace(" ", "").replace(",", "-")
