"""The export: one JSON document of an experiment's runs, identical from the command line, the app and Python.

NaN, infinity and absent values are all ``null``, so the document is strict JSON. It is written run by run, so that an
export of many runs needs the memory of one.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO, TextIOBase
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

MODELS = ("personalized", "global")
UNSEEN = "unseen"  # clients that never trained; only if some were held out
ENDED = ("done", "diverged", "failed", "cancelled")
Status = Literal["queued", "running", "paused", "done", "failed", "cancelled", "diverged"]


class Round(Protocol):
    """One round, as returned by the engine or loaded from storage."""

    @property
    def round(self) -> int: ...
    @property
    def cohort(self) -> np.ndarray: ...
    @property
    def scalars(self) -> Mapping[str, float]: ...
    @property
    def arrays(self) -> Mapping[str, np.ndarray]: ...
    @property
    def clusters(self) -> np.ndarray | None: ...
    @property
    def evaluated(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """One run with its rounds and status: the input of exports and tables."""

    experiment: str
    algorithm: str
    label: str
    hparams: dict[str, Any]
    seed: int
    status: Status
    rounds: Sequence[Any] = field(repr=False)  # of Round
    provenance: dict[str, Any] | None = field(default=None, repr=False)
    partition: dict[str, Any] | None = field(default=None, repr=False)
    summary: dict[str, Any] | None = field(default=None, repr=False)
    error: str | None = None
    experiment_id: int | None = None  # distinguishes experiments of the same name


def write_export(path: Path, config: Mapping[str, Any], runs: Iterable[RunOutcome]) -> None:
    """Writes the document to a file, completely or not at all. Runs that have not ended are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            _write(file, config, runs)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def export_text(config: Mapping[str, Any], runs: Iterable[RunOutcome]) -> str:
    text = StringIO()
    _write(text, config, runs)
    return text.getvalue()


def joint_config(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The ``config`` of an export: the experiment's own, or ``{"experiments": [...]}`` for several.

    They are in the order in which the runs first refer to them.
    """
    return dict(configs[0]) if len(configs) == 1 else {"experiments": [dict(c) for c in configs]}


def run_document(run: RunOutcome) -> dict[str, Any]:
    """One entry of ``runs``."""
    provenance = dict(run.provenance or {})
    if run.error:
        provenance["error"] = run.error
    return {
        "experiment": run.experiment,
        "algorithm": run.algorithm,
        "label": run.label,
        "hparams": finite(run.hparams),
        "seed": run.seed,
        "status": run.status,
        "provenance": finite(provenance),
        "partition": finite(run.partition),
        "rounds": [round_document(r) for r in run.rounds],
        "summary": finite(run.summary or summary_of(run.rounds, run.partition)),
    }


def round_document(r: Round) -> dict[str, Any]:
    """One entry of ``rounds``. Dotted names become nested objects; costs become whole numbers."""
    named: Mapping[str, Any] = {**r.scalars, **r.arrays}
    unseen = _with_prefix(r.arrays, UNSEEN)
    costs = {name: _whole(r.scalars.get(name, 0.0)) for name in ("bytes_up", "bytes_down", "gradient_evaluations")}
    return {
        "round": int(r.round),
        "cohort": r.cohort.tolist(),
        **{model: finite(_with_prefix(r.arrays, model)) or None for model in MODELS},
        "train_loss": finite(r.arrays.get("train_loss")),
        "clusters": finite(r.clusters),
        **costs,
        "seconds": finite(r.scalars.get("seconds")),
        "diagnostics": finite(_with_prefix(named, "diagnostics")),
        **({UNSEEN: finite(unseen)} if unseen else {}),
    }


def summary_of(rounds: Sequence[Round], partition: Mapping[str, Any] | None) -> dict[str, Any]:
    """Computes the summary of a run that was stopped before it wrote one, from its last and best evaluated rounds."""
    summary: dict[str, Any] = dict.fromkeys(MODELS)
    best: dict[str, Any] = dict.fromkeys(MODELS)
    for model in MODELS:
        found = [(r, _summaries(r, model)) for r in rounds if f"{model}.accuracy" in r.arrays]
        if found:
            summary[model] = found[-1][1]
            scores = [_score(r, model, partition) for r, _ in found]
            if np.isfinite(scores).any():
                chosen, values = found[int(np.nanargmax(scores))]
                best[model] = {"round": int(chosen.round), **values}
    if rounds and f"{UNSEEN}.accuracy" in rounds[-1].arrays:
        summary[UNSEEN] = _summaries(rounds[-1], UNSEEN)
    return {**summary, "best": best}


def finite(value: Any) -> Any:
    """Converts mappings, sequences, arrays and numbers to plain JSON values, with None for non-finite numbers."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "f" or np.isfinite(value).all():
            return value.tolist()
        plain = value.astype(object)
        plain[~np.isfinite(value)] = None
        return plain.tolist()
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _write(file: TextIOBase, config: Mapping[str, Any], runs: Iterable[RunOutcome]) -> None:
    file.write(f'{{"config": {_json(finite(config))},\n"runs": [')
    for text in _separated(map(_json, _run_documents(runs, "experiments" in config))):
        file.write(text)
    file.write("\n]}\n")


def _run_documents(runs: Iterable[RunOutcome], has_several: bool) -> Iterator[dict[str, Any]]:
    """The entries of ``runs``. With several experiments, each has its index in ``config.experiments``."""
    indices: dict[int | None, int] = {}
    for run in runs:
        index = indices.setdefault(run.experiment_id, len(indices))
        if run.status in ENDED:
            has_index = has_several and run.experiment_id is not None
            yield run_document(run) | ({"experiment_index": index} if has_index else {})


def _separated(texts: Iterable[str]) -> Iterator[str]:
    for i, text in enumerate(texts):
        yield f"{',' if i else ''}\n{text}"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, default=str)  # str: for dates in a YAML config


def _with_prefix(named: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose name starts with ``prefix``, without it: ``personalized.accuracy`` -> ``accuracy``."""
    return {n.removeprefix(f"{prefix}."): v for n, v in named.items() if n.startswith(f"{prefix}.")}


def _summaries(r: Round, model: str) -> dict[str, float]:
    """The client summaries of a round, by name."""
    return _with_prefix(r.scalars, model)


def _score(r: Round, model: str, partition: Mapping[str, Any] | None) -> float:
    """The criterion for the best round: the weighted mean, on validation data if there is any."""
    values = r.arrays.get(f"{model}.val_accuracy")
    sizes = np.array(partition["val_sizes"] if partition and values is not None else (), dtype=float)
    if values is None or not sizes.sum():
        return r.scalars.get(f"{model}.weighted_mean", np.nan)
    known = ~np.isnan(values)
    return float(np.average(values[known], weights=sizes[known])) if sizes[known].sum() else float("nan")


def _whole(value: float) -> int | float | None:
    return int(value) if np.isfinite(value) and value == int(value) else finite(value)
