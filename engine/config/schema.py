"""The schema of experiments and runs: the only definition of what a configuration may contain.

An experiment is algorithms x sweep x splits x seeds over one dataset, partition and model; ``ExperimentConfig.runs()``
gives a ``RunConfig`` for each. All mistakes of a configuration are reported together, as ``field: value, what is
allowed``.
"""

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from engine.config.files import set_value
from engine.config.options import Evaluation, Machine, Training
from engine.config.privacy import Privacy
from engine.config.system import System
from engine.config.tune import StudyRun, Tune
from engine.config.yaml_text import as_plain, problem_in
from engine.core.errors import MAX_PROBLEMS, MAX_SHOWN, InvalidConfig, UnknownName, cut, shown, suggestion
from engine.core.registry import (
    AGGREGATORS,
    ALGORITHMS,
    ATTACKS,
    COMPRESSORS,
    DATASETS,
    MODELS,
    PARTITIONERS,
    Options,
    Registry,
)
from engine.core.spaces import Space

VERSION = 1
DIALS = {"attack": ATTACKS, "aggregator": AGGREGATORS, "compression": COMPRESSORS}  # absent where they are off
OPTION_DIALS: dict[str, type[Options]] = {"privacy": Privacy, "system": System}  # the same, with keys but no name
DIAL_KEYS = (*DIALS, *OPTION_DIALS)
_SHARED_KEYS = ("evaluation", *DIAL_KEYS)
_DATA_KEYS = ("name", "dataset", "partition", "model", "training")
_EXPERIMENT_KEYS = (*_DATA_KEYS, "algorithms", "splits", "seeds", "tune", *_SHARED_KEYS)
_RUN_KEYS = ("version", "label", "seed", "data_seed", "study", "algorithm", *_DATA_KEYS, *_SHARED_KEYS)
NUM_SEEDS = 2**32
_MAX_RUNS = 10_000
_MAX_COLLECTED = MAX_PROBLEMS + 1  # mistakes; finding more takes time
_MAX_LINE = 200  # characters of a name or label, which becomes a file name
_REQUIRED = "required; "
NOT_SET = (_REQUIRED, "[], ")  # how a problem begins, after its field, if a value is not set yet
OptionsT = TypeVar("OptionsT", bound=Options)


@dataclass(frozen=True)
class Choice:
    """A registered name with its validated options."""

    name: str
    options: Options

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.options.model_dump(mode="json")}


@dataclass(frozen=True)
class RunConfig:
    """One run: one method, one split and one seed. All options are resolved.

    ``data_seed`` draws data, partition and held-out clients; None: the ``seed``, which draws everything else. ``study``
    is the run's place in a study.
    """

    name: str
    label: str
    algorithm: Choice
    dataset: Choice
    partition: Choice
    model: Choice
    training: Training
    evaluation: Evaluation
    machine: Machine
    seed: int
    attack: Choice | None = None
    aggregator: Choice | None = None
    compression: Choice | None = None
    privacy: Privacy | None = None
    system: System | None = None
    data_seed: int | None = None
    study: StudyRun | None = None

    @property
    def split(self) -> int:
        """The seed of the data: runs with equal data settings and equal splits have the same clients."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def hparams(self) -> dict[str, Any]:
        """All hyper-parameters of the method, with ``"training"`` replaced by the value it refers to."""
        return resolve_hparams(self.algorithm.options, self.training).model_dump(mode="json")

    @property
    def sampled_share(self) -> float:
        """The share of clients sampled in a round, including over-selected ones."""
        return min(1.0, self.training.participation * (self.system.over_select if self.system else 1.0))

    @property
    def digest(self) -> str:
        """Equal for runs that compute the same numbers, regardless of their labels and machines."""
        unused = (
            "name",
            "label",
            "study",
            *Machine.model_fields,
            *(["data_seed"] if self.data_seed == self.seed else []),
        )
        what = {k: v for k, v in self.to_dict().items() if k not in unused}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "name": self.name,
            "label": self.label,
            "seed": self.seed,
            **({} if self.data_seed is None else {"data_seed": self.data_seed}),
            **({} if self.study is None else {"study": self.study.to_dict()}),
            "algorithm": self.algorithm.to_dict(),
            "dataset": self.dataset.to_dict(),
            "partition": self.partition.to_dict(),
            "model": self.model.to_dict(),
            "training": self.training.model_dump(mode="json"),
            "evaluation": self.evaluation.model_dump(mode="json"),
            **{name: choice.to_dict() for name in DIALS if (choice := getattr(self, name)) is not None},
            **{name: s.model_dump(mode="json") for name in OPTION_DIALS if (s := getattr(self, name)) is not None},
            **self.machine.model_dump(mode="json"),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> "RunConfig":
        """Inverse of ``to_dict``. Raises InvalidConfig with one line per mistake."""
        problems: list[str] = []
        raw = _known_keys(raw, _RUN_KEYS, problems)
        algorithm = _choice(ALGORITHMS, raw.get("algorithm"), "algorithm", problems)
        sections = _sections(raw, problems)
        problems += _seed_problems(raw.get("seed"), "seed")
        if raw.get("data_seed") is not None:
            problems += _seed_problems(raw["data_seed"], "data_seed")
        study = None
        try:
            study = None if raw.get("study") is None else StudyRun.from_dict(raw["study"])
        except ValueError as error:
            problems.append(f"study: {shown(raw['study'])}, {error}")
        problems += [problem for key in ("name", "label") for problem in _line_problems(raw.get(key), key, key)]
        if problems or algorithm is None:
            raise InvalidConfig(dict.fromkeys(problems))
        seed, data_seed = raw["seed"], raw.get("data_seed")
        return cls(label=raw["label"], algorithm=algorithm, seed=seed, data_seed=data_seed, study=study, **sections)

    def as_experiment(self) -> dict[str, Any]:
        """The experiment of this run only."""
        own = ("version", "algorithm", "label", "seed", "data_seed", "study")
        shared = {k: v for k, v in self.to_dict().items() if k not in own}
        splits = {} if self.data_seed is None else {"splits": [self.data_seed]}
        method = {**self.algorithm.to_dict(), "label": self.label}
        return {**shared, "algorithms": [method], **splits, "seeds": [self.seed]}


@dataclass(frozen=True)
class AlgorithmEntry:
    """One entry of ``algorithms``, after its sweep is expanded.

    ``given`` are the options that it sets, like ``lam`` and ``training.lr``; ``tune`` its own search spaces.
    """

    choice: Choice
    label: str
    training: Training
    dials: Mapping[str, Any]  # Choice or Options, None where off
    given: frozenset[str] = frozenset()
    tune: Mapping[str, Space] | None = None


@dataclass(frozen=True)
class ExperimentConfig:
    """A validated experiment; ``raw`` is the configuration as written."""

    raw: dict[str, Any]
    name: str
    dataset: Choice
    partition: Choice
    model: Choice
    algorithms: tuple[AlgorithmEntry, ...]
    splits: tuple[int | None, ...]  # data seeds; (None,): each run's own seed
    seeds: tuple[int, ...]
    evaluation: Evaluation
    machine: Machine
    tune: Tune | None = None

    def runs(self) -> tuple[RunConfig, ...]:
        """One run per algorithm, sweep value, split and seed; the runs of a method are consecutive.

        With ``tune`` the first trials; the rest of a study depends on their results (``engine.config.study``).
        """
        if self.tune is not None:
            from engine.config.study import Study

            return tuple(Study(self).first_trials())
        return tuple(
            RunConfig(
                self.name,
                a.label,
                a.choice,
                self.dataset,
                self.partition,
                self.model,
                a.training,
                self.evaluation,
                self.machine,
                seed,
                data_seed=split,
                study=None,
                **a.dials,
            )
            for a in self.algorithms
            for split in self.splits
            for seed in self.seeds
        )


def parse_experiment(raw: Mapping[Any, Any]) -> ExperimentConfig:
    """Validates an experiment. Raises InvalidConfig with one line per mistake."""
    problems: list[str] = []
    raw = _known_keys(raw, _EXPERIMENT_KEYS, problems)
    sections = _sections(raw, problems)
    algorithms = _algorithms(raw.get("algorithms"), raw, problems)
    seeds = _seeds(raw.get("seeds", [0]), "seeds", problems)
    splits = _seeds(raw["splits"], "splits", problems) if raw.get("splits") is not None else (None,)
    if len(algorithms) * len(splits) * len(seeds) > _MAX_RUNS:
        each = f"{len(seeds)} seeds" + (f" on {len(splits)} splits" if raw.get("splits") is not None else "")
        problems.append(f"seeds: {each} of {len(algorithms)} methods exceed the limit of {_MAX_RUNS} runs")
    problems += _line_problems(sections["name"], "name", "name")
    tune = None if raw.get("tune") is None else _section(Tune, raw, "tune", problems)
    if raw.get("tune") is None and any(entry.tune is not None for entry in algorithms):
        problems.append(
            "algorithms: tune has no effect without tune at the top level; add for instance tune: {trials: 16}"
        )
    if problems:
        raise InvalidConfig(dict.fromkeys(problems))
    for name in ("training", *DIAL_KEYS):  # each algorithm has its own
        del sections[name]
    config = ExperimentConfig(dict(raw), algorithms=algorithms, splits=splits, seeds=seeds, tune=tune, **sections)
    if tune is not None:
        from engine.config import study

        if found := study.problems(config):
            raise InvalidConfig(dict.fromkeys(found))
    return config


def _known_keys(raw: Mapping[Any, Any], sections: Sequence[str], problems: list[str]) -> Mapping[str, Any]:
    """The configuration with its keys as text; other keys than sections and fields of ``Machine`` are problems."""
    if reason := problem_in(raw):
        raise InvalidConfig([f"the configuration cannot be used: {reason}"])
    raw, known = _mapping(as_plain(raw), "", problems), (*sections, *Machine.model_fields)
    unknown = [key for key in raw if key not in known]
    problems += [_unknown_key(key, raw[key], known) for key in unknown[:_MAX_COLLECTED]]
    return raw


def _sections(raw: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The validated sections that experiments and runs have in common; None for invalid ones."""
    return {
        "name": raw.get("name", "experiment"),
        "dataset": _choice(DATASETS, raw.get("dataset"), "dataset", problems),
        "partition": _choice(PARTITIONERS, raw.get("partition"), "partition", problems),
        "model": _choice(MODELS, raw.get("model"), "model", problems),
        "training": _section(Training, raw, "training", problems),
        "evaluation": _section(Evaluation, raw, "evaluation", problems),
        "machine": _options(Machine, {k: raw[k] for k in Machine.model_fields if k in raw}, "", problems),
        **_dials(raw, "", problems),
    }


def _dials(raw: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Choice | Options | None]:
    chosen: dict[str, Choice | Options | None] = {
        name: None if raw.get(name) is None else _choice(registry, raw[name], f"{path}{name}", problems)
        for name, registry in DIALS.items()
    }
    given = {name: kind for name, kind in OPTION_DIALS.items() if raw.get(name) is not None}
    options = {
        name: _options(kind, _mapping(raw[name], f"{path}{name}", problems), f"{path}{name}", problems)
        for name, kind in given.items()
    }
    return chosen | dict.fromkeys(OPTION_DIALS) | options


def _section(kind: type[OptionsT], raw: Mapping[str, Any], name: str, problems: list[str]) -> OptionsT | None:
    return _options(kind, _mapping(raw.get(name, {}), name, problems), name, problems)


def resolve_hparams(hparams: Options, training: Training) -> Options:
    """Replaces each ``"training"`` by the training value of its field (``json_schema_extra={"training": "lr"}``).

    With ``local_epochs`` the number of steps has no single value, so ``"training"`` remains: as many as in training.
    """
    update = {}
    for field_name, field in type(hparams).model_fields.items():
        extra = field.json_schema_extra
        if getattr(hparams, field_name) == "training" and isinstance(extra, dict):
            value = getattr(training, str(extra["training"]))
            if value is not None:
                update[field_name] = value
    return hparams.model_copy(update=update)


def file_label(label: str) -> str:
    """The label as used in file and folder names."""
    return re.sub(r"[^A-Za-z0-9 ._=\-]", "_", label)


def _algorithms(raw: Any, base: Mapping[str, Any], problems: list[str]) -> tuple[AlgorithmEntry, ...]:
    if not isinstance(raw, list) or not raw:
        problems.append(f"algorithms: {shown(raw)}, must be a list with at least one entry like {{name: fedavg}}")
        return ()
    entries = [e for i, item in enumerate(raw) for e in _unfold(item, f"algorithms.{i}", base, problems)]
    seen: set[str] = set()
    for entry in entries:
        if file_label(entry.label) in seen:
            problems.append(
                f"algorithms: the label {shown(entry.label)} is used twice; give each entry its own `label`"
            )
        seen.add(file_label(entry.label))
    return tuple(entries)


def _unfold(raw: Any, path: str, base: Mapping[str, Any], problems: list[str]) -> list[AlgorithmEntry]:
    """One entry per combination of the values in its sweep."""
    entry = dict(_mapping({"name": raw} if isinstance(raw, str) else raw, path, problems))
    sweep = dict(_mapping(entry.pop("sweep", {}), f"{path}.sweep", problems))
    tune = _spaces(entry.pop("tune"), f"{path}.tune", problems) if entry.get("tune") is not None else None
    entry.pop("tune", None)
    if sweep and tune is not None:
        problems.append(f"{path}: sweep and tune are mutually exclusive; set only one")
    label = entry.pop("label", None)
    if label is not None and (wrong := _line_problems(label, f"{path}.label", "label")):
        problems += wrong
        label = None
    for key, values in sweep.items():
        if not isinstance(values, list) or not values:
            problems.append(f"{path}.sweep.{cut(key, 40)}: {shown(values)}, must be a list of at least one value")
            sweep[key] = []
        elif repeated := [value for value, n in Counter(map(_hashable, values)).items() if n > 1]:
            problems.append(f"{path}.sweep.{cut(key, 40)}: {shown(repeated[0])} is listed twice; remove one")
            sweep[key] = []
    if math.prod(map(len, sweep.values())) > _MAX_RUNS:
        problems.append(f"{path}.sweep: more than {_MAX_RUNS} combinations; sweep fewer values")
        return []
    is_short = {key: len(set(map(_plain, values))) == len(values) for key, values in sweep.items()}
    unfolded = []
    for values in itertools.product(*sweep.values()):
        if len(problems) >= _MAX_COLLECTED:
            return []
        point = dict(zip(sweep, values, strict=True))
        varied = entry
        try:
            for key, value in point.items():
                varied = set_value(varied, key, value)
        except InvalidConfig as error:
            problems += [f"{path}.sweep: {problem}" for problem in error.problems]
            return []
        name = label or str(varied.get("name", ""))
        text = " ".join([name, *(f"{_short(k)}={_plain(v) if is_short[k] else v}" for k, v in point.items())])
        if len(text) > _MAX_LINE:
            advice = "set a shorter `label`, or sweep fewer options"
            problems.append(f"{path}.sweep: {shown(text)} is too long for a label; {advice}")
            return []
        made = _entry(varied, text, path, base, tune, problems)
        if made:
            unfolded.append(made)
    return unfolded


def _spaces(raw: Any, path: str, problems: list[str]) -> dict[str, Space]:
    """The search spaces of an entry by option."""
    found = {}
    for name, space in _mapping(raw, path, problems).items():
        try:
            found[name] = Space.of(space)
        except ValueError as error:
            problems.append(f"{path}.{cut(name, 40)}: {shown(space)} {error}")
    return found


def _entry(
    entry: Mapping[str, Any],
    label: str,
    path: str,
    base: Mapping[str, Any],
    tune: Mapping[str, Space] | None,
    problems: list[str],
) -> AlgorithmEntry | None:
    override = dict(_mapping(entry.get("training", {}), f"{path}.training", problems))
    merged = {**_mapping(base.get("training"), "", []), **override}
    for one, other in (("local_steps", "local_epochs"), ("local_epochs", "local_steps")):
        if override.get(one) is not None and override.get(other) is None:
            merged.pop(other, None)
    training = _options(Training, merged, f"{path}.training", problems if override else [])
    own = own_dials(entry, base)
    dials = _dials({**base, **own}, f"{path}.", problems if own else [])
    own_keys = ("training", *DIAL_KEYS)
    choice = _choice(ALGORITHMS, {k: v for k, v in entry.items() if k not in own_keys}, path, problems)
    if not choice or not training:
        return None
    given = {k for k in entry if k not in ("name", *own_keys)} | {f"training.{k}" for k in override}
    if tune:
        shared = {f"training.{k}" for k in Training.model_fields if k != "rounds"}
        known = (*type(choice.options).model_fields, *sorted(shared))
        problems += [_unknown_key(f"{path}.tune.{k}", tune[k].to_list(), known) for k in tune if k not in known]
        problems += [f"{path}.tune.{k}: is also set by the entry; remove one of them" for k in tune if k in given]
    return AlgorithmEntry(choice, label, training, dials, frozenset(given), tune)


def own_dials(entry: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The dials that an entry sets. Without a ``name`` it changes single keys of the experiment's; null removes it."""
    own = {}
    for name in (name for name in DIAL_KEYS if name in entry):
        first, value = base.get(name), entry[name]
        first = {"name": first} if isinstance(first, str) else first
        if isinstance(first, Mapping) and isinstance(value, Mapping) and "name" not in value:
            replaced = OPTION_DIALS[name].is_replaced if name in OPTION_DIALS else Options.is_replaced
            value = {k: v for k, v in first.items() if not replaced(k, value)} | {**value}
        own[name] = value
    return own


def _choice(registry: Registry, raw: Any, path: str, problems: list[str]) -> Choice | None:
    if isinstance(raw, str):
        raw = {"name": raw}
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
        names = ", ".join(registry.names())
        problems.append(f"{path}: {shown(raw)}, must be a mapping with a `name`; {registry.kind}s: {names}")
        return None
    try:
        entry = registry.get(raw["name"])
    except UnknownName as error:
        problems.append(f"{path}.name: {error}")
        return None
    options = _options(entry.options, {k: v for k, v in raw.items() if k != "name"}, path, problems)
    return Choice(entry.name, options) if options else None


def read_options(kind: type[OptionsT], raw: Mapping[str, Any], path: str) -> OptionsT:
    """Validates options. Raises InvalidConfig with one line per mistake."""
    problems: list[str] = []
    options = _options(kind, raw, path, problems)
    if options is None:
        raise InvalidConfig(problems)
    return options


def _options(kind: type[OptionsT], raw: Mapping[str, Any], path: str, problems: list[str]) -> OptionsT | None:
    try:
        return kind.model_validate(dict(raw))
    except ValidationError as error:
        seen: dict[str, list[str]] = {}
        for e in error.errors()[:_MAX_COLLECTED]:
            at = ".".join(filter(None, [path, str(e["loc"][0]) if e["loc"] else ""]))
            if e["type"] == "extra_forbidden":
                problems.append(_unknown_key(at, e["input"], tuple(kind.model_fields)))
            elif e["type"] == "missing":
                field = kind.model_fields[str(e["loc"][0])]
                problems.append(f"{at}: {_REQUIRED}{field.description or 'set a value'}")
            else:
                message = e["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
                given = raw.get(str(e["loc"][0]), e["input"]) if e["loc"] else None
                seen.setdefault(f"{at}: {shown(given)}" if e["loc"] else at, []).append(message)
        problems += [f"{at}: {'; or '.join(dict.fromkeys(messages))}" for at, messages in seen.items()]
        return None


def _is_seed(raw: Any) -> bool:
    return type(raw) is int and 0 <= raw < NUM_SEEDS


def _seed_problems(raw: Any, path: str) -> list[str]:
    """What is wrong with the seed of a run."""
    return [] if _is_seed(raw) else [f"{path}: {shown(raw)}, must be one whole number from 0 to {NUM_SEEDS - 1}"]


def _seeds(raw: Any, path: str, problems: list[str]) -> tuple[int, ...]:
    if isinstance(raw, int) and not isinstance(raw, bool):
        raw = [raw]
    good = isinstance(raw, list) and raw and all(map(_is_seed, raw))
    if not good or len(set(raw)) != len(raw):
        expected = f"a list of distinct whole numbers from 0 to {NUM_SEEDS - 1}, like [0, 1, 2]"
        problems.append(f"{path}: {shown(raw)}, must be {expected}")
        return ()
    return tuple(raw)


def _mapping(raw: Any, path: str, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(raw, Mapping):
        return {str(key): value for key, value in raw.items()}
    if raw is not None:
        problems.append(f"{path}: {shown(raw)}, must be a mapping of keys to values")
    return {}


def _line_problems(raw: Any, path: str, kind: str) -> list[str]:
    if not isinstance(raw, str) or not raw.strip():
        return [f"{path}: {shown(raw)}, must be a non-empty string"]
    if len(raw) > _MAX_LINE or len(raw.splitlines()) > 1:
        return [f"{path}: {shown(raw)}, must be one line of at most {_MAX_LINE} characters"]
    return []


def _unknown_key(path: str, value: Any, known: tuple[str, ...]) -> str:
    key = path.rpartition(".")[2]
    closest = f"; did you mean training.{key}?" if key in Training.model_fields else suggestion(key, known)
    options = f"known: {', '.join(known)}" if known else "there are none here"
    return f"{cut(path, MAX_SHOWN)}: {shown(value, 40)}, unknown key{closest}; {options}"


def _short(key: str) -> str:
    """The name of a swept option in a label."""
    section, _, name = key.partition(".")
    return name if name and section in ("training", *OPTION_DIALS) else key


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else str(value)


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
