"""A study: an experiment with ``tune:``, expanded into trials and final runs.

Everything is a function of entry, split and trial number, so a study has no state besides its runs and choices. The
later points of ``sampler: tpe`` depend on the results of earlier trials, and are stored with their runs.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from engine.config import tpe
from engine.config.options import Training
from engine.config.sampler import MAX_COLUMNS, MAX_TRIALS, point
from engine.config.schema import AlgorithmEntry, Choice, ExperimentConfig, RunConfig, file_label
from engine.config.tpe import Point
from engine.config.tune import StudyRun, Tune
from engine.core.errors import InvalidConfig, shown
from engine.core.registry import MODELS, Options
from engine.core.spaces import Space, names_of

LR, TRAINING = "training.lr", "training."
DEFAULTS = " defaults"  # ends the label of a final run with the defaults, if another setting was chosen
MAX_POSITION = 1_000_000  # in the database, repeated runs come after it
MAX_LABEL = 180  # characters: labels of trials and final runs are longer
MAX_RUNS = 10_000
MIN_TRIALS = 2  # with a budget of gradients
MAX_WITHOUT_GRADIENTS = 10  # trials of a choice that all failed before their first step
MAX_CHECKED = 64  # trials whose settings are checked in advance, if a study queues its trials one by one
NO_POINTS: Mapping[tuple[str, int], Point | None] = {}


@dataclass(frozen=True)
class Study:
    """The trials and final runs of an experiment with ``tune``."""

    config: ExperimentConfig

    @property
    def tune(self) -> Tune:
        assert self.config.tune is not None
        return self.config.tune

    @property
    def entries(self) -> dict[str, AlgorithmEntry]:
        return {entry.label: entry for entry in self.config.algorithms}

    @property
    def splits(self) -> tuple[int, ...]:
        return tuple(split for split in self.config.splits if split is not None)

    @property
    def tuned(self) -> tuple[tuple[str, int], ...]:
        """(entry, split) of every choice."""
        splits = self.splits if self.tune.per == "split" else self.splits[:1]
        return tuple((entry, split) for entry in self.entries for split in splits)

    @property
    def max_trials(self) -> int:
        return MAX_TRIALS if self.tune.gradients else self.tune.trials

    @property
    def is_sequential(self) -> bool:
        """Whether results of trials determine how many follow, or with which settings."""
        return self.tune.gradients is not None or self.tune.sampler == "tpe"

    def is_spent(self, trials: int, gradients: float) -> bool:
        """Whether a choice has used its budget with this many ended trials and computed gradients."""
        if self.tune.gradients is None:
            return trials >= self.tune.trials
        if not gradients:
            return trials >= MAX_WITHOUT_GRADIENTS
        return trials >= MAX_TRIALS or (trials >= MIN_TRIALS and gradients >= self.tune.gradients)

    def tuned_on(self, split: int) -> int:
        """The split on which the settings for ``split`` are chosen."""
        return split if self.tune.per == "split" else self.splits[0]

    def spaces(self, entry: str) -> dict[str, Space]:
        """The search spaces of an entry by name, in the order of their columns, with numbers for bounds."""
        found = spaces_of(self.entries[entry])
        return {name: found[name].resolved(self._sizes(entry)) for name in names_of(found)}

    def setting(self, entry: str, split: int, trial: int, drawn: Point | None = None) -> dict[str, Any]:
        """The drawn values by name; none for trial 0, the defaults. ``drawn``: the point, if it depends on results."""
        dimensions = len(self.spaces(entry))
        if not trial or not dimensions:
            return {}
        u = drawn or self._point(split, trial, dimensions)
        return self._values(entry, u)

    def _point(self, split: int, trial: int, dimensions: int) -> Point:
        """The point of a trial that does not depend on results."""
        return tuple(map(float, point(self.tune.sampler, split, trial, dimensions)))

    def defaults(self, entry: str) -> dict[str, Any]:
        """The values of the tuned parameters in trial 0, by name."""
        of = self.entries[entry]
        training, own = of.training, of.choice.options
        return {
            name: getattr(training, name.removeprefix(TRAINING)) if name.startswith(TRAINING) else getattr(own, name)
            for name in self.spaces(entry)
        }

    def _values(self, entry: str, u: Point) -> dict[str, Any]:
        """The values at a point, by name."""
        spaces, method = self.spaces(entry), self.entries[entry]
        draw = {name: space.value(at) for (name, space), at in zip(spaces.items(), u, strict=True)}
        return draw if LR in (method.tune or {}) else method.choice.options.from_draw(draw)

    def is_drawn_by_results(self, entry: str, trial: int) -> bool:
        return self.tune.sampler == "tpe" and trial >= tpe.STARTUP and bool(self.spaces(entry))

    def next_point(
        self, entry: str, split: int, values: Mapping[int, float], points: Mapping[int, Point | None]
    ) -> Point | None:
        """The point of the next trial, if it depends on the ``values`` of the earlier ones.

        ``points``: the points of earlier trials that depended on results. Larger values are better. A trial that failed
        has -inf and not Optuna's state FAIL, which TPE ignores: it would return to where training diverges. Raises
        InvalidConfig if Optuna is not installed.
        """
        trial, dimensions = len(values), len(self.spaces(entry))
        if not self.is_drawn_by_results(entry, trial):
            return None
        defaults = self.point_of_defaults(entry)
        ended = [] if defaults is None else [(defaults, values[0])]
        ended += [(points.get(k) or self._point(split, k, dimensions), values[k]) for k in range(1, trial)]
        return tpe.next_point(ended, dimensions, split, entry, trial)

    def point_of_defaults(self, entry: str) -> Point | None:
        """The point whose values are the defaults; None if there is none.

        A default may be a word or outside of its space, or follow from several drawn values (``from_draw``).
        """
        spaces, values = self.spaces(entry), self.defaults(entry)
        u = tuple(place for name, space in spaces.items() if (place := space.place(values[name])) is not None)
        if len(u) < len(spaces):
            return None
        found = self._values(entry, u)
        return u if all(_are_equal(found[name], value) for name, value in values.items()) else None

    def trials(self, entry: str, split: int, trial: int, drawn: Point | None = None) -> tuple[RunConfig, ...]:
        """The runs of a trial, one for each of ``tune.seeds``; ``drawn`` is a point that depended on results."""
        study_run = StudyRun("trial", entry, split, trial, drawn)
        return tuple(self._run(study_run, seed, f"{entry} trial {trial}") for seed in self.tune.seeds)

    def first_trials(self) -> Iterator[RunConfig]:
        """The trials that are queued at the start: those that depend on no results."""
        count = self._first
        for entry, split in self.tuned:
            for trial in range(count):
                yield from self.trials(entry, split, trial)

    def planned(
        self, gradients: Callable[[RunConfig], float | None] = lambda _: None
    ) -> Iterator[tuple[RunConfig, int]]:
        """For each entry a trial and a final run with the defaults, each with the number of such runs.

        The number of final runs is an upper limit. With a budget of gradients, the number of trials is what the budget
        allows if the ``gradients`` of a trial are known, else a lower limit.
        """
        split = self.splits[0]
        choices = len(self.tuned) // len(self.entries)
        for entry in self.entries:
            trial = self.trials(entry, split, 0)[0]
            yield trial, choices * self.num_trials(gradients(trial)) * len(self.tune.seeds)
            fresh = 1 if self.tune.trials == 1 and not self.tune.gradients else 2
            final = self.final(StudyRun("final", entry, split, 0), self.config.seeds[0], True)
            yield final, fresh * len(self.splits) * len(self.config.seeds)

    def num_trials(self, gradients: float | None) -> int:
        """The number of trials of a choice if each run computes this many ``gradients``; None: unknown."""
        if self.tune.gradients is None:
            return self.tune.trials
        if not gradients:
            return MIN_TRIALS
        spent = gradients * len(self.tune.seeds)
        return min(MAX_TRIALS, max(MIN_TRIALS, math.ceil(self.tune.gradients / spent)))

    def finals(
        self, chosen: Mapping[tuple[str, int], int], points: Mapping[tuple[str, int], Point | None] = NO_POINTS
    ) -> Iterator[RunConfig]:
        """The final runs: choice and defaults on every split with every seed, once if they are the same.

        ``points``: the points of choices that depended on results.
        """
        for entry in self.entries:
            for split in self.splits:
                key = entry, self.tuned_on(split)
                choice = chosen[key]
                for trial in dict.fromkeys((0, choice)):
                    study_run = StudyRun("final", entry, split, trial, points.get(key) if trial else None)
                    for seed in self.config.seeds:
                        yield self.final(study_run, seed, trial == choice)

    def final(self, study_run: StudyRun, seed: int, is_choice: bool) -> RunConfig:
        return self._run(study_run, seed, study_run.entry if is_choice else study_run.entry + DEFAULTS)

    def position(self, run: RunConfig) -> int:
        """The position of a run in the experiment, a function of its ``study`` and seed. Final runs come first."""
        study_run, entries = run.study, list(self.entries)
        assert study_run is not None
        block = entries.index(study_run.entry) * len(self.splits) + self.splits.index(study_run.split)
        if study_run.role == "final":
            return (2 * block + (study_run.trial > 0)) * len(self.config.seeds) + self.config.seeds.index(run.seed)
        at = (block * self.max_trials + study_run.trial) * len(self.tune.seeds) + self.tune.seeds.index(run.seed)
        return self._num_positions_of_finals + at

    def found(self, study_run: StudyRun, seed: int, label: str) -> RunConfig:
        """The run that a document of unknown origin says it has. Raises ValueError if it is not one of the study."""
        seeds = self.tune.seeds if study_run.role == "trial" else self.config.seeds
        if study_run.entry not in self.entries or study_run.split not in self.splits or seed not in seeds:
            raise ValueError("is not a run of the study")
        if study_run.trial >= self.max_trials:
            raise ValueError(f"has trial {study_run.trial}, but the study has {self.max_trials}")
        is_drawn = self.is_drawn_by_results(study_run.entry, study_run.trial)
        expected = len(self.spaces(study_run.entry)) if is_drawn else 0
        if len(study_run.point or ()) != expected:
            raise ValueError(f"has a point of {len(study_run.point or ())} numbers, must have {expected}")
        entry, of_trial = study_run.entry, f"{study_run.entry} trial {study_run.trial}"
        labels = (entry, entry + DEFAULTS) if study_run.role == "final" else (of_trial,)
        if label not in labels:
            raise ValueError(f"has the label {shown(label)}, must be {' or '.join(map(repr, labels))}")
        return self._run(study_run, seed, label)

    @property
    def _first(self) -> int:
        """The trials of a choice that are queued at the start."""
        if self.tune.gradients:
            return MIN_TRIALS
        return min(self.tune.trials, tpe.STARTUP) if self.tune.sampler == "tpe" else self.tune.trials

    @property
    def _num_positions_of_finals(self) -> int:
        return 2 * len(self.entries) * len(self.splits) * len(self.config.seeds)

    @property
    def num_positions(self) -> int:
        blocks = len(self.entries) * len(self.splits)
        return self._num_positions_of_finals + blocks * self.max_trials * len(self.tune.seeds)

    def _run(self, study_run: StudyRun, seed: int, label: str) -> RunConfig:
        """A run with the settings of a trial. Raises InvalidConfig if they are not allowed together."""
        entry, evaluation = self.entries[study_run.entry], self.config.evaluation
        if study_run.point is None and self.is_drawn_by_results(study_run.entry, study_run.trial):
            trial = f"trial {study_run.trial} of {study_run.entry} on split {study_run.split}"
            raise InvalidConfig([f"{label}: {trial} has no point; restore this trial if it was deleted"])
        setting = self.setting(study_run.entry, self.tuned_on(study_run.split), study_run.trial, study_run.point)
        try:
            choice, training = _with_setting(entry, setting)
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise InvalidConfig([f"{label}: {shown(setting)}: {message}; change its search spaces"]) from error
        if study_run.role == "trial":
            evaluation = evaluation.model_copy(update={"on": "val"})
            training = training.model_copy(update={"rounds": self.tune.rounds or training.rounds})
        config = self.config
        return RunConfig(
            config.name,
            label,
            choice,
            config.dataset,
            config.partition,
            config.model,
            training,
            evaluation,
            config.machine,
            seed,
            data_seed=study_run.split,
            study=study_run,
            **entry.dials,
        )

    def _sizes(self, entry: str) -> dict[str, int]:
        """The sizes that bounds of search spaces may depend on, if known before the data are loaded."""
        config, found = self.config, {"rounds": self.tune.rounds or self.entries[entry].training.rounds}
        options = (config.partition.options, config.dataset.options)
        clients = next((n for o in options if (n := getattr(o, "num_clients", None)) is not None), None)
        if clients is not None:
            found["clients"] = round(clients * (1 - getattr(config.partition.options, "holdout_clients", 0.0)))
        model = MODELS.get(config.model.name).make(config.model.options)
        if hasattr(model, "num_layers"):
            found["layers"] = model.num_layers
        return found


def spaces_of(entry: AlgorithmEntry) -> dict[str, Space]:
    """The declared spaces of what an entry does not set, replaced and extended by its own ``tune``."""
    if entry.tune is not None and not entry.tune:
        return {}
    options = entry.choice.options
    skipped = entry.given | options.untuned
    declared = {name: space for name, space in declared_spaces(type(options)).items() if name not in skipped}
    return declared | dict(entry.tune or {})


def declared_spaces(options: type[Options]) -> dict[str, Space]:
    """The search spaces of the learning rate and of a method's ``options``, by name."""
    lr = Training.model_fields["lr"].json_schema_extra
    assert isinstance(lr, dict)
    extras = {name: field.json_schema_extra for name, field in options.model_fields.items()}
    own = {name: extra["tune"] for name, extra in extras.items() if isinstance(extra, dict) and "tune" in extra}
    return {name: Space.of(raw) for name, raw in {LR: options.lr_space or lr["tune"], **own}.items()}


def problems(config: ExperimentConfig) -> list[str]:
    """What makes a study impossible, one line each: field, value, what is allowed."""
    study, tune = Study(config), config.tune
    assert tune is not None
    found = []
    if config.splits == (None,):
        found.append("splits: not set, but tune needs fixed splits; set for instance splits: [0, 1, 2]")
    if getattr(config.partition.options, "val_fraction", None) == 0:
        found.append(
            "partition.val_fraction: 0, but settings are chosen on validation data, and there is none; set "
            "partition.val_fraction, for instance 0.2"
        )
    if shared := sorted(set(tune.seeds) & set(config.seeds)):
        found.append(f"tune.seeds: {shared}, trials and final runs would share a seed; use others, for instance 1000")
    if config.evaluation.on == "val":
        found.append("evaluation.on: 'val', but the final runs of tune need test data; remove it")
    if tune.sampler == "tpe" and tune.gradients is None and tune.trials <= tpe.STARTUP:
        first = f"tpe draws the first {tpe.STARTUP} as sobol does"
        found.append(f"tune.trials: {tune.trials}, but {first}; use more trials, or sampler: sobol")
    for entry in config.algorithms:
        if tune.rounds and tune.rounds > entry.training.rounds:
            most = f"the {entry.training.rounds} rounds of {entry.label}"
            found.append(f"tune.rounds: {tune.rounds}, must be at most {most}")
        if len(entry.label) > MAX_LABEL:
            found.append(f"algorithms: the label {shown(entry.label)} is too long; use at most {MAX_LABEL} characters")
    labels = {file_label(entry.label) for entry in config.algorithms}
    found += [
        f"algorithms: the label {shown(label + DEFAULTS)} is reserved for final runs; choose another"
        for label in labels
        if label + DEFAULTS in labels
    ]
    if not found:
        found = [problem for entry in study.entries for problem in _space_problems(study, entry)]
    runs = len(study.tuned) * study.num_trials(None) * len(tune.seeds)
    runs += 2 * len(study.entries) * len(study.splits) * len(config.seeds)
    if runs > MAX_RUNS or study.num_positions > MAX_POSITION:
        found.append(f"tune: {runs:,} runs, at most {MAX_RUNS:,} are allowed; lower trials, splits or seeds")
    return found


def _space_problems(study: Study, label: str) -> list[str]:
    """Why spaces cannot be drawn from, and which of their values are not allowed."""
    entry, found = study.entries[label], []
    spaces = spaces_of(entry)
    if len(spaces) > MAX_COLUMNS:
        return [f"{label}: {len(spaces)} parameters to tune; at most {MAX_COLUMNS} are possible"]
    for name, space in spaces.items():
        what = f"{label}: tune.{name}: {space.in_words}"
        try:
            ends = space.resolved(study._sizes(label)).ends
        except ValueError as error:
            found.append(f"{what}: {error}")
            continue
        for end in space.choices or dict.fromkeys(ends):
            setting = {name: end} if name in (entry.tune or {}) else entry.choice.options.from_draw({name: end})
            try:
                _with_setting(entry, setting)
            except ValidationError as error:
                message = error.errors()[0]["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
                found.append(f"{what}: {shown(end)} {message}")
                break
    if not found and study.is_sequential and entry.tune and len(spaces) > 1:
        found += _drawn_problems(study, label, len(spaces))
    return found


def _drawn_problems(study: Study, label: str, dimensions: int) -> tuple[str, ...]:
    """The first drawn setting that the method refuses; later, it would stop the study of all methods."""
    split, seed = study.splits[0], study.tune.seeds[0]
    for trial in range(1, MAX_CHECKED):
        study_run = StudyRun("trial", label, split, trial, study._point(split, trial, dimensions))
        try:
            study._run(study_run, seed, f"{label} trial {trial}")
        except InvalidConfig as error:
            return error.problems
    return ()


def _with_setting(entry: AlgorithmEntry, setting: Mapping[str, Any]) -> tuple[Choice, Training]:
    """The method and training of an entry with some values changed. Raises ValidationError."""
    of_training = {k.removeprefix(TRAINING): v for k, v in setting.items() if k.startswith(TRAINING)}
    own = {k: v for k, v in setting.items() if not k.startswith(TRAINING)}
    options, training = entry.choice.options, entry.training
    changed = type(options).model_validate(options.model_dump() | own) if own else options
    training = Training.model_validate(training.model_dump() | of_training) if of_training else training
    return replace(entry.choice, options=changed), training


def _are_equal(a: Any, b: Any) -> bool:
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else bool(a == b)
