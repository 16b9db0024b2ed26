"""The results for a figure or table: the user's runs once all are done, until then the shipped result, if any."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from app.compare.view import View
from app.data import queries
from app.data.comparison import methods_of
from app.data.preset_catalog import SCALE_WORDS, experiments, preset_runs
from app.data.shipped import Shipped, shipped
from app.data.source import Source
from app.papers.preset_progress import Standing
from app.wording import names, number, percent
from engine.config.presets import Preset
from engine.core.vocabulary import ModelKind, summary_at
from engine.metrics import tail_size
from storage import RunRecord

TAILS = ("lowest5", "top5")


@dataclass(frozen=True)
class Measure:
    """One number of each run, by the run's id, and how it is written."""

    values: dict[int, float]
    say: Callable[[float], str]

    def say_mean(self, values: pd.Series) -> str:
        return self.say(float(values.mean())) if len(values) else "–"


@dataclass(frozen=True, eq=False)
class Results:
    """The runs behind a figure. ``shipped`` is None if they are the reader's own."""

    preset: Preset
    scale: str
    now: Standing
    shipped: Shipped | None = None

    @property
    def source(self) -> Source:
        return self.shipped or queries

    @cached_property
    def runs(self) -> list[RunRecord]:
        """The finished runs, with their clients."""
        if self.shipped or not self.now.done:
            return self.now.done
        return queries.runs(run_ids=[run.id for run in self.now.done], with_partition=True)

    @cached_property
    def view(self) -> View:
        return View(tuple(methods_of(self.runs)), source=self.source)

    @property
    def stamp(self) -> object:
        """Changes with the runs and their analyses: a finished run stays the same, but may be analyzed later."""
        ids = [run.id for run in self.now.done]
        return ids, queries.store().analyses.done(ids) if ids and not self.shipped else []

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.runs})

    @property
    def origin(self) -> str:
        """``Shipped result, quick scale, seed 0, computed by``, which a command follows; empty for own runs."""
        if self.shipped is None:
            return ""
        seeds = f"{'seed' if len(self.seeds) == 1 else 'seeds'} {names(map(str, self.seeds), 20)}"
        return f"Shipped result, {SCALE_WORDS[self.scale]} scale, {seeds}, computed by"

    @cached_property
    def settings(self) -> "list[Setting]":
        """All experiments of the preset. Several of them may have the same run under other labels."""
        configs = {
            one.name: {
                "dataset": one.dataset.to_dict(),
                "partition": one.partition.to_dict(),
                "model": one.model.to_dict(),
            }
            for one in experiments(self.preset, self.scale)
        }
        labels: dict[str, list[str]] = {name: [] for name in configs}
        done: dict[str, dict[tuple[str, int], int]] = {name: {} for name in configs}
        for want, run in self.now.pairs:
            labels[want.experiment].append(want.label)
            if run is not None and run.status == "done":
                done[want.experiment][want.label, want.seed] = run.id
        return [Setting(name, config, done[name], tuple(labels[name])) for name, config in configs.items()]

    @property
    def begun(self) -> "list[Setting]":
        """The experiments with a run that is done."""
        return [setting for setting in self.settings if setting.runs]

    def of_setting(self, setting: "Setting") -> View:
        ids = set(setting.runs.values())
        return View(tuple(methods_of(run for run in self.runs if run.id in ids)), source=self.source)

    def accuracy(self, summary: str = "weighted_mean", model: ModelKind = "personalized") -> Measure:
        """A summary over the clients' test accuracies in the last round."""
        found = {run.id: summary_at(run.summary, model).get(summary) for run in self.runs}
        samples = min((_samples(run, summary in TAILS) for run in self.runs), default=0)
        if summary == "std":
            return Measure(known_values(found), lambda value: f"{100 * value:.1f} points")
        return Measure(known_values(found), lambda value: percent(value, 1, samples=samples))

    def error(self) -> Measure:
        """The squared distance from the true models: of the exact solution, where a method records it."""
        trained = self.source.final_means(self.runs, "personalized.total_error").to_dict()
        exact = self.source.final_scalars(self.runs, "diagnostics.statistical_error_local").to_dict()
        return Measure(trained | exact, lambda value: number(value, 3))

    def error_at(self, share: float) -> Measure:
        """The squared distance from the true models after this share of the rounds."""
        series = self.source.mean_series(self.runs, ["personalized.total_error"])
        return Measure(self._last_until(series, share), lambda value: number(value, 3))

    def accuracy_at(self, share: float) -> Measure:
        """Mean accuracy after this share of the rounds."""
        series = self.source.scalar_series(self.runs, ["personalized.mean"]).dropna(subset=["value"])
        return Measure(self._last_until(series, share), lambda value: percent(value, 1))

    def _last_until(self, series: pd.DataFrame, share: float) -> dict[int, float]:
        """The last value of each run that is not from a later round."""
        until = {run.id: share * run.rounds for run in self.runs}
        early = series[series["round"] <= series["run"].map(until)]
        return early.groupby("run")["value"].last().to_dict()

    def common_error(self) -> Measure:
        """The error on the common test set, mean over the clients' models."""
        found = self.source.final_means(self.runs, "personalized.common_accuracy")
        return Measure((1 - found).to_dict(), lambda value: percent(value, 1))

    def lost(self, smooth: int) -> Measure:
        """Mean accuracy of the best ``smooth`` evaluated rounds in a row, minus that of the last ones."""
        series = self.source.scalar_series(self.runs, ["personalized.mean"]).dropna(subset=["value"])
        smoothed = {run: own.rolling(smooth).mean().dropna() for run, own in series.groupby("run")["value"]}
        lost = {run: own.max() - own.iloc[-1] for run, own in smoothed.items() if len(own)}
        return Measure(lost, lambda value: f"lost {100 * value:.1f} points")

    def moves(self, since: float) -> Measure:
        """The number of cluster changes of clients after this share of the rounds."""
        found = {}
        for run in self.runs:
            at, labels = self.source.clusters(run.id)
            late = labels[at >= since * run.rounds]
            if len(late):
                found[run.id] = float((late[1:] != late[:-1]).sum())
        return Measure(found, lambda value: f"{value:g}")


@dataclass(frozen=True, eq=False)
class Setting:
    """An experiment: its data, partition and model, the ids of the runs that are done by label and seed, all labels."""

    name: str
    config: Mapping[str, Mapping[str, Any]]
    runs: dict[tuple[str, int], int]
    planned: tuple[str, ...]

    def labels(self, starts: str = "") -> list[str]:
        return list(dict.fromkeys(label for label in self.planned if label.startswith(starts)))

    def by_seed(self, measure: Measure, label: str) -> pd.Series:
        """seed -> value"""
        return pd.Series(self._by_seed(measure, label), dtype=float)

    def best(self, measure: Measure, labels: Sequence[str], *, is_low: bool = False) -> str:
        """The label with the highest mean (the lowest with ``is_low``) over the seeds of all labels; "" if none."""
        values = {label: own for label in labels if (own := self._by_seed(measure, label))}
        seeds = sorted(set.intersection(*map(set, values.values()))) if values else []
        if not seeds:
            return ""
        means = {label: fmean(own[seed] for seed in seeds) for label, own in values.items()}
        return (min if is_low else max)(means, key=means.__getitem__)

    def _by_seed(self, measure: Measure, label: str) -> dict[int, float]:
        found = {seed: measure.values.get(run_id) for (own, seed), run_id in self.runs.items() if own == label}
        return known_values(found)


def results_of(preset: Preset, scale: str, own: Standing) -> Results:
    found = None if own.is_complete else shipped(preset, scale)
    if found is None:
        return Results(preset, scale, own)
    pairs = tuple((want, found.by_digest.get(want.digest)) for want in preset_runs(preset, scale))
    return Results(preset, scale, Standing(pairs), found)


def _samples(run: RunRecord, is_tail: bool) -> int:
    """The test samples behind a summary: of all clients, or of those in a tail."""
    sizes = np.sort((run.partition or {}).get("test_sizes") or [0])
    return int(sizes[: tail_size(len(sizes))].sum() if is_tail else sizes.sum())


def known_values(values: Mapping[int, float | None]) -> dict[int, float]:
    """The values that are neither None nor NaN."""
    return {key: float(value) for key, value in values.items() if value is not None and not math.isnan(value)}
