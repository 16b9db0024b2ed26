"""Reads an exported JSON document of unknown origin into runs with their rounds. Everything is validated."""

import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from engine.config.schema import ExperimentConfig, RunConfig, parse_experiment
from engine.config.study import Study
from engine.config.tpe import Point
from engine.config.tune import StudyRun
from engine.core.errors import InvalidConfig, shown
from engine.core.json_values import finite
from engine.core.registry import METRICS
from engine.core.results import RoundResult, RunResult
from engine.core.run_json import PartitionEntry, ProvenanceEntry, Size, problems_of
from engine.core.vocabulary import COSTS, DIAGNOSTICS, MODEL_KINDS, UNSEEN, Ended, add_prefix
from engine.export import diagnostic_groups
from engine.export.choices import ChoiceEntry, by_experiment
from engine.export.document import summary_of
from engine.metrics import of_benign, summarize_clients

Numbers = list[Annotated[float, Field(allow_inf_nan=False)] | None]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Metric = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]  # a name, alone or dotted
Cluster = Annotated[int, Field(ge=-(2**15), lt=2**15)]
Declared = TypeVar("Declared", bound=BaseModel)
MAX_PROBLEMS = 10  # per file; one mistake often repeats in every round
MAX_LEVELS = 50  # of a stored document; a configuration may have 32
OF_PLUGINS = "for a plugin's name, set FEDSCAPE_PLUGINS to its folder"
_UNKNOWN = re.compile(r": no [a-z ]+ named ")
_NESTED = (dict, list)
_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")  # the escape of a null character, after whole escapes of backslashes
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # may be half of a pair without the other half


class RoundEntry(BaseModel):
    round: Size
    cohort: list[Size]
    personalized: dict[Metric, Numbers] | None
    global_: Annotated[dict[Metric, Numbers] | None, Field(alias="global")]
    train_loss: Numbers | None
    clusters: list[Cluster] | None
    bytes_up: Cost | None
    bytes_down: Cost | None
    gradient_evaluations: Cost | None
    seconds: Cost | None
    diagnostics: dict[Metric, Any]
    unseen: dict[Metric, Numbers] | None = None


class RunEntry(BaseModel):
    experiment: str | None = None
    experiment_index: Size | None = None
    algorithm: str
    label: str
    hparams: dict[str, Any]
    seed: int
    data_seed: int | None = None
    study: dict[str, Any] | None = None
    status: Ended
    provenance: dict[str, Any]
    partition: dict[str, Any] | None
    rounds: list[RoundEntry]
    summary: dict[str, Any]


class Document(BaseModel):
    config: dict[str, Any]
    runs: list[RunEntry]
    choices: list[ChoiceEntry] = []


@dataclass(frozen=True)
class ImportedExperiment:
    """The runs of one experiment, each with its configuration, and the choices of a study."""

    config: ExperimentConfig
    runs: tuple[tuple[RunConfig, RunResult], ...]
    numbers: tuple[int, ...]  # indices of these runs in the document
    choices: tuple[ChoiceEntry, ...] = ()
    notes: tuple[str, ...] = ()


def read_export(path: Path) -> list[ImportedExperiment]:
    """Reads an export. Raises InvalidConfig that says what is wrong with the file."""
    try:
        check_regular(path)
        return parse_export(path.read_bytes(), path)
    except OSError as error:
        raise InvalidConfig(
            [f"{path}: cannot be read ({error.strerror or error}); give an exported JSON file"]
        ) from None


def check_regular(path: Path) -> None:
    """Raises InvalidConfig for devices and FIFOs, which might never end or block."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidConfig([f"{path}: is not a regular file; give an exported file"])


def check_no_null(data: bytes, path: Path) -> None:
    """Raises InvalidConfig for a JSON document with a null character in a text, which PostgreSQL cannot read."""
    if b"\\u0000" in data and (found := _NULL.search(data)):
        reason = f"a text has a null character (\\u0000, byte {found.end() - 6}), which cannot be stored; remove it"
        raise InvalidConfig([f"{path}: {reason}"])


def check_levels(documents: Sequence[Any]) -> None:
    """Raises ValueError for lists and objects in so many levels that reading or showing them may fail."""
    level: list[Any] = [documents]
    for _ in range(MAX_LEVELS + 1):
        inside = chain.from_iterable(item.values() if isinstance(item, dict) else item for item in level)
        level = [item for item in inside if isinstance(item, _NESTED)]
    if level:
        raise ValueError(f"is nested more than {MAX_LEVELS} levels deep")


def check_run(provenance: Mapping[str, Any] | None, partition: Mapping[str, Any] | None) -> PartitionEntry | None:
    """Validates the provenance and partition of a run. Raises ValueError."""
    validated(ProvenanceEntry, provenance or {}, "provenance")
    return None if partition is None else validated(PartitionEntry, partition, "partition")


def parse_export(data: bytes, path: Path) -> list[ImportedExperiment]:
    """``read_export`` for a document in memory; ``path`` is its name in messages."""
    document = _document(data, path)
    raw = document.config.get("experiments", [document.config])
    if not isinstance(raw, list) or not raw or not all(isinstance(config, dict) for config in raw):
        raise InvalidConfig([f"{path}: config.experiments: {raw!r}, must be a list of configurations"])
    try:
        experiments = [parse_experiment(config) for config in raw]
    except InvalidConfig as error:
        advice = [f"{path}: {OF_PLUGINS}"] if any(_UNKNOWN.search(problem) for problem in error.problems) else []
        raise InvalidConfig([*(f"{path}: config.{problem}" for problem in error.problems), *advice]) from None
    found: list[list[tuple[RunConfig, RunResult]]] = [[] for _ in experiments]
    numbers: list[list[int]] = [[] for _ in experiments]
    for i, (entry, index, config) in enumerate(_matched(document.runs, experiments, path)):
        try:
            found[index].append((config, _result(entry, config)))
            numbers[index].append(i)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise InvalidConfig([f"{path}: runs.{i}: {error}"]) from None
    for experiment, own in zip(experiments, found, strict=True):
        if experiment.tune is not None:
            _check_points(Study(experiment), [config for config, _ in own], path)
    choices = by_experiment(document.choices, experiments, f"{path}: choices")
    return [
        ImportedExperiment(experiment, tuple(runs), tuple(own), chosen, _left_out([document.runs[i] for i in own]))
        for experiment, runs, own, chosen in zip(experiments, found, numbers, choices, strict=True)
        if runs
    ]


def _left_out(entries: Iterable[RunEntry]) -> tuple[str, ...]:
    """A note on summaries by metrics that are not registered here: summaries are computed anew."""
    summaries = [entry.summary.get(model) for entry in entries for model in (*MODEL_KINDS, UNSEEN)]
    names = {name for summary in summaries if isinstance(summary, dict) for name in summary} - set(METRICS.names())
    if not names:
        return ()
    return (f"summaries without a metric of that name were left out: {shown(sorted(names))}; {OF_PLUGINS}",)


def _matched(
    entries: Sequence[RunEntry], experiments: Sequence[ExperimentConfig], path: Path
) -> Iterable[tuple[RunEntry, int, RunConfig]]:
    """Each entry with the index of its experiment, and its configuration.

    Without ``experiment_index``, equal entries are distributed over the experiments of their name in turn. Otherwise
    names do not matter: files of older versions have an experiment's first name in ``config``.
    """
    known = [_Runs(experiment) for experiment in experiments]
    uses: Counter[tuple[int, str, int | None, int]] = Counter()
    for i, entry in enumerate(entries):
        name, given = entry.experiment or experiments[0].name, entry.experiment_index
        is_only = len(experiments) == 1 and given is None
        indices = [p for p, e in enumerate(experiments) if given == p or is_only or (given is None and e.name == name)]
        found = {index: run for index in indices if (run := known[index].of(entry)) is not None}
        if not found:
            split = "" if entry.data_seed is None else f"split {entry.data_seed}, "
            named = f"{entry.label!r} {split}seed {entry.seed}"
            raise InvalidConfig([f"{path}: runs.{i}: {named} is not a run of the file's config"])
        index = min(found, key=lambda index: uses[index, entry.label, entry.data_seed, entry.seed])
        uses[index, entry.label, entry.data_seed, entry.seed] += 1
        yield entry, index, found[index]


def _check_points(study: Study, runs: Iterable[RunConfig], path: Path) -> None:
    """Raises InvalidConfig if the runs of a trial, or final runs with its settings, have several points."""
    known: dict[tuple[str, int, int], Point | None] = {}
    for run in runs:
        study_run = run.study
        assert study_run is not None
        point = known.setdefault((study_run.entry, study.tuned_on(study_run.split), study_run.trial), study_run.point)
        if point != study_run.point:
            raise InvalidConfig([f"{path}: trial {study_run.trial} of {study_run.entry!r:.60} has several points"])


class _Runs:
    """The runs of an experiment, looked up by the label, data seed and seed of an entry."""

    def __init__(self, experiment: ExperimentConfig) -> None:
        self._study = None if experiment.tune is None else Study(experiment)
        runs = () if self._study else experiment.runs()
        self._known = {(run.label, run.data_seed, run.seed): run for run in runs}

    def of(self, entry: RunEntry) -> RunConfig | None:
        if self._study is None:
            return self._known.get((entry.label, entry.data_seed, entry.seed))
        try:
            run = self._study.found(StudyRun.from_dict(entry.study), entry.seed, entry.label)
        except ValueError:
            return None
        return run if run.data_seed == entry.data_seed else None


def _document(data: bytes, path: Path) -> Document:
    check_no_null(data, path)
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_reject_constant)
        if _SURROGATE.search(data):
            json.dumps(document, ensure_ascii=False).encode()  # lone surrogates are valid JSON but not valid text
        return Document.model_validate(document)
    except ValidationError as error:
        lines = [f"{path}: {problem}" for problem in problems_of(error)]
        rest = [f"{path}: and {len(lines) - MAX_PROBLEMS} more"] if len(lines) > MAX_PROBLEMS else []
        raise InvalidConfig([*lines[:MAX_PROBLEMS], *rest]) from None
    except (ValueError, RecursionError) as error:
        raise InvalidConfig([f"{path}: is not valid JSON ({error}); give a file written by --export"]) from None


def _result(entry: RunEntry, config: RunConfig) -> RunResult:
    check_levels([entry.hparams, entry.study, entry.provenance, entry.partition, entry.summary])
    partition = check_run(entry.provenance, entry.partition)
    if partition is None and entry.rounds:
        raise ValueError("partition must not be null if there are rounds")
    if [r.round for r in entry.rounds] != list(range(len(entry.rounds))):
        raise ValueError("rounds must be numbered 0, 1, 2, ...")
    dtype = np.dtype(config.training.tensor_dtype)
    rounds = tuple(_round(r, partition, dtype) for r in entry.rounds if partition is not None)
    diagnostic_groups.check(rounds, 0 if partition is None else len(partition.test_sizes))
    provenance = finite({**entry.provenance, "imported": True})
    error = provenance.pop("error", None)
    return RunResult(
        experiment=config.name,
        algorithm=entry.algorithm,
        label=entry.label,
        hparams=entry.hparams,
        seed=entry.seed,
        data_seed=entry.data_seed,
        study=entry.study,
        status=entry.status,
        rounds=rounds,
        provenance=provenance,
        partition=finite(entry.partition),
        summary=summary_of(rounds, entry.partition, entry.status),
        error=None if error is None else str(error),
    )


def validated(kind: type[Declared], found: Mapping[str, Any], name: str) -> Declared:
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        raise ValueError("; ".join(problems_of(error, name)[:MAX_PROBLEMS])) from None


def _round(entry: RoundEntry, partition: PartitionEntry, dtype: np.dtype) -> RoundResult:
    N, at = len(partition.test_sizes), f"round {entry.round}"
    measured = add_prefix("personalized", entry.personalized or {}) | add_prefix("global", entry.global_ or {})
    if entry.train_loss is not None:
        measured["train_loss"] = entry.train_loss
    arrays = {name: _measured(values, N, f"{at}: {name}", dtype) for name, values in measured.items()}
    arrays |= _unseen(entry, partition, dtype)
    scalars = {name: _number(getattr(entry, name)) for name in COSTS}
    for name, value in entry.diagnostics.items():
        if isinstance(value, list):
            arrays[f"{DIAGNOSTICS}.{name}"] = _nested(value, f"{at}: diagnostics.{name}")
        else:
            scalars[f"{DIAGNOSTICS}.{name}"] = _number(value)
    for group in (*MODEL_KINDS, UNSEEN):
        of, malicious = (partition.unseen, None) if group == UNSEEN else (partition, partition.malicious)
        if of is not None and (accuracies := arrays.get(f"{group}.accuracy")) is not None:
            scalars |= add_prefix(group, summarize_clients(of_benign(accuracies, malicious), np.array(of.test_sizes)))
    clusters = None if entry.clusters is None else _array(entry.clusters, N, f"{at}: clusters").astype(np.int16)
    if any(client >= N for client in entry.cohort):
        raise ValueError(f"{at}: cohort: client {max(entry.cohort)} is not between 0 and {N - 1}")
    cohort = np.array(entry.cohort, np.int32)
    return RoundResult(entry.round, cohort, scalars, arrays, clusters, entry.personalized is not None)


def _unseen(entry: RoundEntry, partition: PartitionEntry, dtype: np.dtype) -> dict[str, np.ndarray]:
    """The metrics of held-out clients."""
    if entry.unseen is None:
        return {}
    if partition.unseen is None:
        raise ValueError(f"round {entry.round}: has unseen clients, but the partition has none")
    U = len(partition.unseen.test_sizes)
    named = add_prefix(UNSEEN, entry.unseen)
    return {n: _measured(values, U, f"round {entry.round}: {n}", dtype) for n, values in named.items()}


def _array(values: Sequence[float | None], N: int, what: str) -> np.ndarray:
    if len(values) != N:
        raise ValueError(f"{what} has {len(values)} values for {N} clients")
    return np.array(values, dtype=float)  # None becomes NaN


def _measured(values: Sequence[float | None], N: int, what: str, dtype: np.dtype) -> np.ndarray:
    array = _array(values, N, what)
    if what.endswith("accuracy") and not np.all(np.isnan(array) | (array >= 0) & (array <= 1)):
        raise ValueError(f"{what} must be between 0 and 1")
    if np.nanmax(np.abs(array), initial=0) > np.finfo(dtype).max:
        raise ValueError(f"{what} is too large for {dtype}")
    return array.astype(dtype)


def _nested(value: list[Any], what: str) -> np.ndarray:
    try:
        array = np.array(value, dtype=object)
        return np.array([_number(v) for v in array.ravel()], dtype=float).reshape(array.shape)
    except (ValueError, TypeError):
        raise ValueError(f"{what} must be a number or a regular array of numbers") from None


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool | int | float) and isfinite(number := float(value)):
        return number
    raise ValueError(f"{value!r:.40} is not a finite number")


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON; use null for unknown values")
