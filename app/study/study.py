"""A study: its trials, the choices made from them, and the final runs, as tables.

A run of a study has ``study: {role, entry, split, trial}`` in its configuration. Trial 0 has the settings as written.
The final runs with the trial that was chosen are ``tuned``, those with trial 0 ``default``: the same runs where the
defaults were chosen.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from app.charts.plot import figure_cache
from app.charts.tuning_axes import Axis
from app.data import config_fields, queries
from app.data.comparison import REFERENCES, method_name, per_run
from app.data.costs import spent
from engine.config.study import Study as StudyConfig
from engine.config.tune import Select
from engine.core.spaces import Space
from engine.core.vocabulary import COSTS, ModelKind
from engine.simulation.selection import Validation
from engine.worker.study_progress import StudyProgress
from storage import ChoiceRecord, ExperimentRecord, RunRecord

T = TypeVar("T")
SETTINGS = {"default": "defaults", "tuned": "tuned"}
SHARE = 0.1  # of the clients: the lowest decile
SELECT: dict[Select, str] = {
    "mean": "mean validation accuracy",
    "weighted_mean": "weighted mean validation accuracy",
    "lowest10": "validation accuracy of the lowest 10 %",
    "lowest5": "validation accuracy of the lowest 5 %",
    "loss": "validation loss",
}


@dataclass(frozen=True)
class Entry:
    """An entry of ``algorithms``; ``label`` is its label in the configuration, ``name`` that on the page."""

    label: str
    name: str
    algorithm: str


@dataclass(frozen=True)
class Study:
    """An experiment with ``tune``: what is planned, and which of it is stored."""

    experiment: ExperimentRecord
    plan: StudyConfig
    progress: StudyProgress

    @cached_property
    def trials(self) -> tuple[RunRecord, ...]:
        return tuple(sorted(self.progress.trial_runs, key=lambda run: run.position))

    @property
    def finals(self) -> tuple[RunRecord, ...]:
        return self.progress.finals

    @cached_property
    def runs(self) -> tuple[RunRecord, ...]:
        return (*self.trials, *self.finals)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        named = {label: method_name(label, entry.choice.name) for label, entry in self.plan.entries.items()}
        often = Counter(named.values())
        return tuple(
            Entry(label, named[label] if often[named[label]] == 1 else label, entry.choice.name)
            for label, entry in self.plan.entries.items()
        )

    @property
    def reference(self) -> str | None:
        """LocalTrain, or FedAvg where the study has no LocalTrain."""
        for algorithm in reversed(REFERENCES):
            for entry in self.entries:
                if entry.algorithm == algorithm:
                    return entry.name
        return None

    @property
    def splits(self) -> tuple[int, ...]:
        return self.plan.splits

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.plan.config.seeds

    @property
    def budget(self) -> int:
        """The most trials of a method on a split."""
        return max((study_entry(run)["trial"] for run in self.trials), default=-1) + 1

    @property
    def select(self) -> Select:
        """What settings are chosen by."""
        return self.plan.tune.select

    @property
    def shown_by(self) -> Select:
        """The validation accuracy that figures of trials show: what settings are chosen by, unless it is the loss."""
        return "mean" if self.plan.tune.select == "loss" else self.plan.tune.select

    @property
    def has_malicious(self) -> bool:
        """Whether some clients are malicious, which summaries leave out."""
        return any(entry.dials["attack"] is not None for entry in self.plan.entries.values())

    @property
    def is_finished(self) -> bool:
        """Whether all settings are chosen, and every final run has ended."""
        return bool(self.finals) and all(run.is_finished for run in self.finals)

    @property
    def opened_at(self) -> datetime | None:
        """When the first final run started, which is when the test data was first used."""
        return min((run.started_at for run in self.finals if run.started_at is not None), default=None)

    def keep(self, what: str, make: Callable[[], T]) -> T:
        """Caches what is computed from these runs and choices, also across visits, until they change."""
        version = (len(self.progress.choices), tuple((run.epoch, run.round, run.status) for run in self.runs))
        kept = figure_cache.tables(queries.store().url, ("study", *(run.id for run in self.runs)), version)
        if what not in kept:
            kept[what] = make()
        found = kept[what]
        return cast(T, found.copy(deep=False) if isinstance(found, pd.DataFrame) else found)

    @cached_property
    def names(self) -> dict[str, Entry]:
        return {entry.label: entry for entry in self.entries}

    def choice(self, entry: str, split: int) -> ChoiceRecord | None:
        """The choice for an entry on a split; with ``per: first``, the choice of the first split."""
        return self.progress.choices.get((entry, self.plan.tuned_on(split)))

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Adds ``method`` to rows that have a ``run``."""
        of = {run.id: self.names[study_entry(run)["entry"]].name for run in self.runs}
        return frame.assign(method=frame["run"].map(of))

    def with_settings(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Adds ``setting``: rows of ``default`` and of ``tuned`` runs, twice for a run that is both."""
        parts = [frame[frame["run"].isin(self._runs_with(setting))].assign(setting=setting) for setting in SETTINGS]
        return pd.concat(parts, ignore_index=True)

    def _runs_with(self, setting: str) -> set[int]:
        found = set()
        for run in self.finals:
            own = study_entry(run)
            choice = self.choice(own["entry"], run.split)
            trial = 0 if setting == "default" else choice.trial if choice is not None else None
            if own["trial"] == trial:
                found.add(run.id)
        return found

    @cached_property
    def final_clients(self) -> pd.DataFrame:
        """[run, method, algorithm, split, seed, setting, client, accuracy, test_size] of final runs, on test data."""
        return self.of_finals()

    def of_finals(self, model: ModelKind = "personalized") -> pd.DataFrame:
        return self.with_settings(self.named(queries.final_clients(self._ended, model)))

    def validation(self, run_ids: set[int]) -> pd.DataFrame:
        """[run, split, seed, client, accuracy, val_size] of some final runs, on validation data."""
        return queries.validation_clients([run for run in self._ended if run.id in run_ids], self.model)

    @cached_property
    def final_runs(self) -> pd.DataFrame:
        """A row per final run and setting: its summaries over clients, and its costs."""
        return self.keep("finals", self._final_runs)

    def _final_runs(self) -> pd.DataFrame:
        runs = per_run(self.named(queries.final_clients(self._ended)), SHARE)
        costs = spent(queries.scalar_totals({run.id: run.round for run in self._ended}, COSTS))
        return self.with_settings(runs.merge(costs, on="run", how="left"))

    @property
    def _ended(self) -> list[RunRecord]:
        return [run for run in self.finals if run.status == "done"]

    @cached_property
    def trial_values(self) -> pd.DataFrame:
        """[method, algorithm, split, trial, value, gradients, is_default, is_chosen, settings], a row per trial.

        ``value`` is the validation accuracy by ``shown_by``, averaged over the seeds of the trial; NaN if one of them
        diverged or failed. Trials that have not ended are left out.
        """
        return self.keep("trials", self._trial_values)

    def _trial_values(self) -> pd.DataFrame:
        values, gradients = self._selected(), self._gradients()
        groups: dict[tuple[str, int, int], list[RunRecord]] = {}
        for run in self.trials:
            own = study_entry(run)
            groups.setdefault((own["entry"], run.split, own["trial"]), []).append(run)
        rows = []
        for (entry, split, trial), runs in sorted(groups.items()):
            if all(run.is_finished for run in runs):
                choice, of = self.choice(entry, split), self.names[entry]
                rows.append(
                    {
                        "method": of.name,
                        "algorithm": of.algorithm,
                        "split": split,
                        "trial": trial,
                        "value": float(np.mean([values.get(run.id, np.nan) for run in runs])),
                        "gradients": float(sum(gradients.get(run.id, 0.0) for run in runs)),
                        "is_default": trial == 0,
                        "is_chosen": choice is not None and choice.trial == trial,
                        "settings": settings_of(runs[0]),
                    }
                )
        columns = ["method", "algorithm", "split", "trial", "value", "gradients"]
        return pd.DataFrame(rows, columns=[*columns, "is_default", "is_chosen", "settings"])

    def _selected(self) -> dict[int, float]:
        """run -> its validation accuracy by ``shown_by``."""
        done = [run for run in self.trials if run.status == "done"]
        clients = queries.validation_clients(done, self.model)
        return {
            cast(int, run): Validation(accuracy, np.full_like(accuracy, np.nan), sizes).value(self.shown_by)
            for run, own in clients.groupby("run")
            for accuracy, sizes in [own[["accuracy", "val_size"]].to_numpy(float).T]
        }

    @property
    def model(self) -> ModelKind:
        return self.plan.tune.model

    def _gradients(self) -> dict[int, float]:
        name = "gradient_evaluations"
        totals = queries.scalar_totals({run.id: run.round for run in self.trials}, [name])
        return dict(zip(totals["run"], totals[name], strict=True))

    def axes(self, entry: Entry) -> tuple[Axis, ...]:
        """The parameters that are tuned for an entry, with their ranges."""
        runs = [run for run in self.trials if study_entry(run)["entry"] == entry.label]
        given = [settings_of(run) for run in runs if study_entry(run)["trial"]]
        found = []
        for name, space in self.plan.spaces(entry.label).items():
            field = name if "." in name else f"algorithm.{name}"
            known = config_fields.parameter_of(field, [run.config for run in runs])
            found.append(_axis(name, known.symbol if known else name, space, [own.get(name) for own in given]))
        return tuple(found)


def study_entry(run: RunRecord) -> dict[str, Any]:
    """``{role, entry, split, trial}`` of a run of a study, and a ``point`` if that depended on results."""
    assert run.study is not None
    return run.study


def settings_of(run: RunRecord) -> dict[str, Any]:
    """``{"training.lr": 0.05, "lam": 1.0}``: what tuning may vary."""
    training = {f"training.{name}": value for name, value in run.config["training"].items()}
    return training | {name: value for name, value in run.config["algorithm"].items() if name != "name"}


def _axis(name: str, symbol: str, space: Space, values: Sequence[Any]) -> Axis:
    """The range of the space, wider where a method converts what is drawn (``from_draw``)."""
    if space.choices:
        return Axis(name, symbol, choices=space.choices)
    low, high = map(float, space.ends)
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    least, most = min([low, *numbers]), max([high, *numbers])
    is_log = space.scale in ("log", "intlog")
    return Axis(name, symbol, least, most, is_log, has_edges=(least, most) == (low, high))
