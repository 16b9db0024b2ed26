"""An exported JSON document read back into runs with their rounds. A file is data from outside: nothing is trusted."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from engine.config import ExperimentConfig, RunConfig, parse_experiment
from engine.errors import InvalidConfig
from engine.export import MODELS, RunOutcome
from engine.metrics import summarize_clients
from engine.results import RoundResult

Numbers = list[float | None]
COSTS = ("bytes_up", "bytes_down", "gradient_evaluations", "seconds")
MAX_PROBLEMS = 10  # of a file; one mistake often repeats in every round


class PartitionEntry(BaseModel):
    """What is needed of a partition; the rest is kept as it is."""

    train_sizes: list[int]
    val_sizes: list[int]
    test_sizes: list[int]


class RoundEntry(BaseModel):
    round: Annotated[int, Field(ge=0)]
    cohort: list[Annotated[int, Field(ge=0)]]
    personalized: dict[str, Numbers] | None
    global_: Annotated[dict[str, Numbers] | None, Field(alias="global")]
    train_loss: Numbers | None
    clusters: list[int] | None
    bytes_up: float | None
    bytes_down: float | None
    gradient_evaluations: float | None
    seconds: float | None
    diagnostics: dict[str, Any]


class RunEntry(BaseModel):
    experiment: str | None = None
    algorithm: str
    label: str
    hparams: dict[str, Any]
    seed: int
    status: Literal["done", "diverged", "failed", "cancelled"]
    provenance: dict[str, Any]
    partition: dict[str, Any] | None
    rounds: list[RoundEntry]
    summary: dict[str, Any]


class Document(BaseModel):
    config: dict[str, Any]
    runs: list[RunEntry]


@dataclass(frozen=True)
class ImportedExperiment:
    """The runs of one experiment, each with its configuration."""

    config: ExperimentConfig
    runs: tuple[tuple[RunConfig, RunOutcome], ...]


def read_export(path: Path) -> list[ImportedExperiment]:
    """Raises InvalidConfig that says what in the file is not as an export has it."""
    document = _document(path)
    raw = document.config.get("experiments", [document.config])
    if not isinstance(raw, list) or not raw or not all(isinstance(config, dict) for config in raw):
        raise InvalidConfig([f"{path}: config.experiments: {raw!r}, but a list of configurations is needed"])
    try:
        experiments = [parse_experiment(config) for config in raw]
    except InvalidConfig as error:
        raise InvalidConfig(f"{path}: config.{problem}" for problem in error.problems) from None
    known = {(e.name, r.label, r.seed): (e.name, r) for e in experiments for r in e.runs()}
    found: dict[str, list[tuple[RunConfig, RunOutcome]]] = {e.name: [] for e in experiments}
    for i, entry in enumerate(document.runs):
        key = (entry.experiment or experiments[0].name, entry.label, entry.seed)
        if key not in known:
            raise InvalidConfig([f"{path}: runs.{i}: {entry.label!r} seed {entry.seed} is no run of the file's config"])
        name, config = known[key]
        try:
            found[name].append((config, _outcome(entry, config)))
        except (ValueError, ArithmeticError) as error:
            raise InvalidConfig([f"{path}: runs.{i}: {error}"]) from None
    return [ImportedExperiment(e, tuple(found[e.name])) for e in experiments if found[e.name]]


def _document(path: Path) -> Document:
    try:
        return Document.model_validate(json.loads(path.read_bytes()))
    except OSError as error:
        raise InvalidConfig(
            [f"{path}: cannot be read ({error.strerror or error}); give an exported JSON file"]
        ) from None
    except ValidationError as error:
        lines = [f"{path}: {'.'.join(map(str, e['loc'])) or 'document'}: {e['msg']}" for e in error.errors()]
        rest = [f"{path}: and {len(lines) - MAX_PROBLEMS} more"] if len(lines) > MAX_PROBLEMS else []
        raise InvalidConfig([*lines[:MAX_PROBLEMS], *rest]) from None
    except (ValueError, RecursionError) as error:
        raise InvalidConfig([f"{path}: is no JSON ({error}); give a file that --export wrote"]) from None


def _outcome(entry: RunEntry, config: RunConfig) -> RunOutcome:
    partition = None if entry.partition is None else TypeAdapter(PartitionEntry).validate_python(entry.partition)
    if partition is None and entry.rounds:
        raise ValueError("it has rounds, but partition is null")
    if [r.round for r in entry.rounds] != list(range(len(entry.rounds))):
        raise ValueError("its rounds are not 0, 1, 2, ...")
    dtype = np.dtype(config.training.dtype)
    rounds = tuple(_round(r, partition, dtype) for r in entry.rounds if partition is not None)
    provenance = {**entry.provenance, "imported": True}
    return RunOutcome(
        config.name, entry.algorithm, entry.label, entry.hparams, entry.seed, entry.status, rounds, provenance,
        entry.partition, entry.summary, provenance.pop("error", None),
    )  # fmt: skip


def _round(entry: RoundEntry, partition: PartitionEntry, dtype: np.dtype) -> RoundResult:
    N, at = len(partition.test_sizes), f"round {entry.round}"
    measured = {f"{m}.{n}": v for m, group in zip(MODELS, (entry.personalized, entry.global_), strict=True)
                for n, v in (group or {}).items()}  # fmt: skip
    if entry.train_loss is not None:
        measured["train_loss"] = entry.train_loss
    arrays = {name: _array(values, N, f"{at}: {name}").astype(dtype) for name, values in measured.items()}
    scalars = {name: _number(getattr(entry, name)) for name in COSTS}
    for name, value in entry.diagnostics.items():
        if isinstance(value, list):
            arrays[f"diagnostics.{name}"] = _nested(value, f"{at}: diagnostics.{name}")
        else:
            scalars[f"diagnostics.{name}"] = _number(value)
    for model in MODELS:
        if f"{model}.accuracy" in arrays:
            summary = summarize_clients(arrays[f"{model}.accuracy"], np.array(partition.test_sizes))
            scalars |= {f"{model}.{name}": value for name, value in summary.items()}
    clusters = None if entry.clusters is None else _array(entry.clusters, N, f"{at}: clusters").astype(np.int16)
    cohort = np.array(entry.cohort, np.int32)
    return RoundResult(entry.round, cohort, scalars, arrays, clusters, entry.personalized is not None)


def _array(values: Iterable[float | None], N: int, what: str) -> np.ndarray:
    array = np.array([_number(v) for v in values])
    if len(array) != N:
        raise ValueError(f"{what} has {len(array)} values for {N} clients")
    return array


def _nested(value: list[Any], what: str) -> np.ndarray:
    try:
        array = np.array(value, dtype=object)
        return np.array([_number(v) for v in array.ravel()], dtype=float).reshape(array.shape)
    except (ValueError, TypeError):
        raise ValueError(f"{what} is neither a number nor a regular array of numbers") from None


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool | int | float):
        return float(value)
    raise ValueError(f"{value!r} is no number")
