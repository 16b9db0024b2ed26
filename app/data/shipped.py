"""Results of presets that ship with the product, reduced to what their figures need.

A file per preset and scale, written by ``benchmarks/paper_results.py``. A run is found by its digest, so that a preset
whose settings have changed has no shipped result until it is computed again. Of a study all runs ship, written by
``benchmarks/study_results.py``; the Study page shows them once they are loaded (``app/actions/exchange.py``).
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.data.preset_catalog import experiments, preset_runs
from app.data.run_frames import by_client, joined, labeled
from engine.config.presets import Preset
from engine.config.schema import RunConfig
from engine.core.findings import Findings
from engine.core.paths import ASSETS
from engine.core.vocabulary import MODEL_KINDS, ModelKind, When
from engine.metrics import of_benign, summarize_clients
from storage import RunRecord

FOLDER = ASSETS / "examples" / "papers"
STUDIES = ASSETS / "examples" / "studies"
MAX_EXPERIMENTS = 1_000  # of a preset; their ids are negative, like those of its runs
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)  # a shipped run has no times


@dataclass(frozen=True, eq=False)
class Shipped:
    """The runs of a preset at one scale, each with its numbers. A ``Source`` of these runs, at their last round.

    ``of`` maps a run's id, which is negative, to its entry in the file.
    """

    command: str
    runs: tuple[RunRecord, ...]
    of: Mapping[int, Mapping[str, Any]]

    @cached_property
    def by_digest(self) -> dict[str, RunRecord]:
        return {run.digest: run for run in self.runs}

    def final_clients(
        self, of: Sequence[RunRecord], model: ModelKind = "personalized", when: When = "last"
    ) -> pd.DataFrame:
        found = {run.id: _accuracy(self.of[run.id], model, run.partition or {}) for run in of}
        arrays = {run_id: values for run_id, values in found.items() if values is not None}
        clients = {run_id: np.arange(len(values)) for run_id, values in arrays.items()}
        table = by_client([run.id for run in of], arrays, clients, {run.id: _sizes(run).tolist() for run in of})
        return labeled(table, of, ["client", "accuracy", "test_size"])

    def unseen_clients(self, of: Sequence[RunRecord]) -> pd.DataFrame:
        return labeled(pd.DataFrame(), of, ["client", "accuracy", "test_size"])

    def final_means(
        self, of: Sequence[RunRecord], name: str, model: ModelKind = "personalized", when: When = "last"
    ) -> pd.Series:
        means = {run.id: self.of[run.id]["means"].get(name) for run in of}
        return pd.Series({run_id: mean for run_id, mean in means.items() if mean is not None}, dtype=float)

    def scalar_series(self, of: Sequence[RunRecord], names: Sequence[str]) -> pd.DataFrame:
        parts = [self._curve(run.id, name) for run in of for name in names]
        return labeled(joined(parts, ["run", "round", "name", "value"]), of, ["round", "name", "value"])

    mean_series = scalar_series

    def final_scalars(self, of: Sequence[RunRecord], name: str) -> pd.Series:
        known = {run.id: self.of[run.id]["last"].get(name) for run in of}
        return pd.Series({run_id: value for run_id, value in known.items() if value is not None}, dtype=float)

    def scalar_totals(self, until: Mapping[int, int], names: Sequence[str]) -> pd.DataFrame:
        rows = [
            {"run": run_id, **{name: self._total(run_id, name, at) for name in names}} for run_id, at in until.items()
        ]
        return pd.DataFrame(rows, columns=["run", *names])

    def clustered(self, run_ids: Sequence[int]) -> set[int]:
        return {run_id for run_id in run_ids if self.of[run_id].get("clusters")}

    def clusters(self, run_id: int) -> tuple[np.ndarray, np.ndarray]:
        """(rounds [R], labels [R, N]); the file has a row for each round in which some client moved."""
        changes: Mapping[str, Sequence[int]] = self.of[run_id].get("clusters") or {}
        if not changes:
            return np.zeros(0, int), np.zeros((0, 0), int)
        starts = np.array([int(at) for at in changes])
        rounds = np.arange(starts[0], self.of[run_id]["rounds"][-1] + 1)
        return rounds, np.array(list(changes.values()))[np.searchsorted(starts, rounds, side="right") - 1]

    def analysis(self, run_id: int, kind: str) -> Findings | None:
        found = self.of[run_id].get("analyses", {}).get(kind)
        if found is None:
            return None
        return Findings({name: np.array(values) for name, values in found["arrays"].items()}, found["values"])

    def _curve(self, run_id: int, name: str) -> pd.DataFrame:
        entry = self.of[run_id]
        if name not in entry["series"]:
            return pd.DataFrame()
        first, *rest = entry["series"][name]
        count = len(entry["rounds"]) - 1
        values = [first, *(rest * count if len(rest) == 1 else rest)]  # one number is repeated for all that follow
        return pd.DataFrame({"run": run_id, "round": entry["rounds"], "name": name, "value": values})

    def _total(self, run_id: int, name: str, until: int) -> float:
        curve = self._curve(run_id, name)
        return float(curve.loc[curve["round"] <= until, "value"].sum()) if len(curve) else 0.0


def is_shipped(preset: Preset, scale: str) -> bool:
    return path_of(preset, scale).is_file()


def shipped(preset: Preset, scale: str) -> Shipped | None:
    """The shipped results of a preset that is not a study; None if not every run of the scale has one."""
    if not is_shipped(preset, scale):
        return None
    path = path_of(preset, scale)
    return _load(path, path.stat().st_mtime_ns, repr(preset.configs(scale)), preset, scale)


def checksum(preset: Preset, scale: str) -> int:
    """The checksum of the file and of the preset's runs; 0 if nothing ships."""
    if not is_shipped(preset, scale):
        return 0
    digests = "".join(run.digest for run in preset_runs(preset, scale))
    return zlib.crc32(path_of(preset, scale).read_bytes() + digests.encode())


def path_of(preset: Preset, scale: str) -> Path:
    return STUDIES / f"{preset.name}.{scale}.zip.xz" if preset.is_study else FOLDER / f"{preset.name}.{scale}.json"


@st.cache_resource(show_spinner=False, max_entries=50)
def _load(path: Path, changed_ns: int, settings: str, _preset: Preset, _scale: str) -> Shipped | None:
    raw = json.loads(path.read_text(encoding="utf-8"))
    entries = {entry["digest"]: entry for entry in raw["runs"]}
    configs = [
        (place, position, run)
        for place, experiment in enumerate(experiments(_preset, _scale))
        for position, run in enumerate(experiment.runs())
    ]
    if not all(run.digest in entries for _, _, run in configs):
        return None
    runs, of = [], {}
    for place, position, config in configs:
        entry = entries[config.digest]
        run_id = -1 - zlib.crc32(f"{path.name} {place} {position}".encode())
        runs.append(_record(run_id, place, position, config, entry, raw["clients"][entry["clients"]]))
        of[run_id] = entry
    return Shipped(raw["command"], tuple(runs), of)


def _record(
    run_id: int, place: int, position: int, config: RunConfig, entry: Mapping[str, Any], clients: Mapping[str, Any]
) -> RunRecord:
    sizes = np.array(clients["test_sizes"])
    accuracies = {model: _accuracy(entry, model, clients) for model in MODEL_KINDS}
    return RunRecord(
        id=run_id,
        experiment_id=place - MAX_EXPERIMENTS,
        experiment_name=config.name,
        position=position,
        algorithm=config.algorithm.name,
        label=config.label,
        seed=config.seed,
        hparams=config.hparams,
        config=config.to_dict(),
        digest=config.digest,
        status="done",
        rounds=config.training.rounds,
        round=entry["rounds"][-1],
        epoch=0,
        control="",
        created_at=LONG_AGO,
        started_at=None,
        finished_at=None,
        heartbeat_at=None,
        seconds_per_round=None,
        error=None,
        worker=None,
        provenance={"dataset_fingerprint": clients["dataset_fingerprint"]},
        partition=dict(clients),
        summary={m: summarize_clients(values, sizes) for m, values in accuracies.items() if values is not None},
        archived=False,
        example=True,
    )


def _sizes(run: RunRecord) -> np.ndarray:
    return np.array((run.partition or {})["test_sizes"])


def _accuracy(entry: Mapping[str, Any], model: str, clients: Mapping[str, Any]) -> np.ndarray | None:
    """[N] of the last round: the file counts the correct samples of each client.

    NaN for clients that are malicious or have no test samples.
    """
    correct, sizes = entry["correct"].get(model), np.array(clients["test_sizes"])
    if correct is None:
        return None
    accuracy = np.where(sizes > 0, np.array(correct) / np.maximum(sizes, 1), np.nan)
    return of_benign(accuracy, clients.get("malicious"))
