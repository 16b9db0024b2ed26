"""Ships the results of a study preset: ``python -m benchmarks.study_results PRESET [--scale SCALE] --db URL``

    python -m engine run --preset study-digits --db sqlite:///study.db
    python -m benchmarks.study_results study-digits --db sqlite:///study.db

Writes assets/examples/studies/<preset>.<scale>.zip.xz, a compressed bundle of all trials, choices and final runs,
without models and logs. Accuracies and losses have as few digits as give the same float32, which halves the file.
"""

import argparse
import json
import lzma
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.data.preset_catalog import experiments, known
from app.data.shipped import path_of
from engine.exchange.bundle import ATTACHMENTS, CHOICES, RUNS, Attachments
from engine.exchange.records import choices_of, export_config, load_result
from engine.export.document import export_text
from engine.worker.study_progress import progress_of
from storage import BUNDLE, RunRecord, Store, new_archive


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset")
    parser.add_argument("--scale", default="quick")
    parser.add_argument("--db", required=True, help="the database with the finished study")
    given = parser.parse_args(arguments)
    store = Store(given.db)
    preset = known()[given.preset]
    (experiment,) = experiments(preset, given.scale)
    runs = finished(store, experiment.raw)
    path = path_of(preset, given.scale)
    path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle.zip"
        write_small_bundle(store, bundle, runs)
        path.write_bytes(lzma.compress(bundle.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{path.stat().st_size:>9,} bytes  {path.name}, {len(runs)} runs")


def write_small_bundle(store: Store, path: Path, runs: Sequence[RunRecord]) -> None:
    document = export_text(export_config(store, runs), (load_result(store, run) for run in runs))
    with new_archive(path, BUNDLE) as archive:
        archive.add(RUNS, text(shortened(json.loads(document))))
        archive.add(ATTACHMENTS, text([Attachments().model_dump(mode="json") for _ in runs]))
        archive.add(CHOICES, text([choice.model_dump(mode="json") for choice in choices_of(store, runs)]))
        archive.facts = {"runs": len(runs)}


def finished(store: Store, config: dict[str, Any]) -> list[RunRecord]:
    """The trials and final runs of the newest finished study with this configuration. Raises SystemExit."""
    for experiment in store.experiments.list():
        progress = progress_of(store, experiment.id)
        runs = [*progress.trial_runs, *progress.finals]
        if experiment.config == config and progress.finals and all(run.is_finished for run in runs):
            return store.queue.runs(run_ids=[run.id for run in runs], newest_first=False, with_partition=True)
    raise SystemExit(f"no finished study with the configuration of {config['name']!r}")


def shortened(document: dict[str, Any]) -> dict[str, Any]:
    """The same document; the arrays of its rounds, which are float32, have no more digits than that needs."""
    runs = [run | {"rounds": [_with_short_arrays(one) for one in run["rounds"]]} for run in document["runs"]]
    return document | {"runs": runs}


def _with_short_arrays(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(one) if isinstance(one, float) else one for one in value]
    return {key: _with_short_arrays(one) for key, one in value.items()} if isinstance(value, dict) else value


def _short(number: float) -> float:
    own = np.float32(number)
    return float(str(own)) if float(own) == number else number


def text(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


if __name__ == "__main__":
    main(sys.argv[1:])
