"""The state of Compare: the methods, the choices in the address, and the tables that all panels share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import pandas as pd

from app.charts import curves_over_seeds, sweep
from app.charts.plot import figure_cache
from app.compare.comparability import conflicts
from app.compare.headline import means
from app.data import config_fields, queries
from app.data.averages import malicious_of
from app.data.comparison import REFERENCES, Method, per_method, per_run, pooled, with_methods
from app.data.costs import SIMULATED_CLOCK, Axis, recorded, simulated, spent
from app.data.source import Source
from app.state import url_state
from app.wording import MODELS, WHEN, clients, plural, setting
from engine.core.vocabulary import COSTS, ModelKind, When
from engine.metrics import TAIL_SHARE
from storage import RunRecord

TAILS = {"5": "5 %", "10": "10 %"}
ROUNDS = {"last": "Last round", "best": "Best round"}
SORTS = {"mean": "mean", "lowest": "lowest", "top": "top", "spread": "most even"}
METHOD = "method"  # the default grouping of rows

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """One comparison. ``clients`` are those of the model and round that the address chooses.

    If ``by`` is a field of the configuration, each of ``methods`` is all runs with one value of that field. ``source``
    has the numbers of the runs: the database, unless they ship with the product.
    """

    methods: tuple[Method, ...]
    model: ModelKind = "personalized"
    when: When = "last"
    tail: int = 5
    by: str = METHOD
    source: Source = queries

    @classmethod
    def from_address(cls, methods: tuple[Method, ...]) -> "View":
        model = cast(ModelKind, url_state.value("model", MODELS, cls.model))
        when = cast(When, url_state.value("when", ROUNDS, cls.when))
        return cls(methods, model, when, int(url_state.value("tail", TAILS, str(cls.tail))))

    def pooled(self, by: str) -> "View":
        """The same runs, grouped by the values of a field."""
        if by == METHOD:
            return self
        groups = pooled(self.methods, lambda run: config_fields.value_of(by, run))
        return replace(self, methods=tuple(groups), by=by)

    @property
    def share(self) -> float:
        return self.tail / 100

    @property
    def other_model(self) -> ModelKind:
        return "global" if self.model == "personalized" else "personalized"

    @property
    def runs(self) -> dict[int, RunRecord]:
        return {run.id: run for method in self.methods for run in method.runs}

    @property
    def setting(self) -> str:
        """``Digits · 40 clients · 3 classes each · 3 seeds``, for each setting that occurs."""
        return setting(list(self.runs.values()))

    @property
    def rule(self) -> str:
        """``personalized model, best round, chosen on test``."""
        return f"{self.model} model, {WHEN[self.chosen_by(self.when)]}"

    def chosen_by(self, when: When) -> str:
        """The key of ``WHEN`` for a round: the best one is chosen on the validation data of runs that have it."""
        if when == "last" or not any(self._are_validated):
            return when
        return "best_val" if all(self._are_validated) else "best_some_val"

    @property
    def is_stored(self) -> bool:
        """Whether the runs are in the database, where a page shows each of them."""
        return self.source is queries

    @property
    def _are_validated(self) -> list[bool]:
        """Which runs have validation data."""
        return [bool(run.config["partition"].get("val_fraction")) for run in self.runs.values()]

    @cached_property
    def has_malicious(self) -> bool:
        """Whether some run has malicious clients, which summaries leave out."""
        return any(malicious_of(run.partition) for run in self.runs.values())

    @cached_property
    def is_ranked(self) -> bool:
        """Whether the rows are methods on the same data and clients; otherwise they are not ranked."""
        return self.by == METHOD and not conflicts(self.methods)

    @property
    def spread(self) -> str:
        """The unit over which ± is computed: ``seeds``, ``splits`` or ``pooled runs``."""
        if any(run.split != run.seed for run in self.runs.values()):
            return "splits"
        return "seeds" if self.by == METHOD else "pooled runs"

    @property
    def whisker(self) -> str:
        """What whiskers show."""
        return f"± one standard deviation over {self.spread}"

    def clients(self, model: ModelKind | None = None, when: When | None = None) -> pd.DataFrame:
        """[run, method, algorithm, split, seed, client, accuracy, test_size]."""
        model, when = model or self.model, when or self.when
        return self._keep(
            ("clients", model, when), lambda: self._named(self.source.final_clients(self._all, model, when))
        )

    def unseen_clients(self) -> pd.DataFrame:
        """[run, method, algorithm, split, seed, client, accuracy, test_size] of newcomers, last round."""
        return self._keep("unseen", lambda: self._named(self.source.unseen_clients(self._all)))

    def series(self, axis: Axis = "round") -> pd.DataFrame:
        """[run, method, algorithm, split, seed, round, name, value]: accuracies of every round, costs of an axis."""
        names = [f"{self.model}.mean", f"{self.model}.lowest5", *recorded(axis)]
        return self._keep(
            ("series", axis, self.model), lambda: self._named(self.source.scalar_series(self._all, names))
        )

    def curves(self, axis: Axis) -> pd.DataFrame:
        """A row per method and round: [method, algorithm, round, x, mean, mean_pm, lowest, seeds]."""
        return self.keep(
            ("curves", axis), lambda: self._with_samples(curves_over_seeds.data(self.series(axis), self.model, axis))
        )

    def _with_samples(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Adds how many test samples are behind the means and the lowest 5 % of each method."""
        found = per_method(per_run(self.clients(), TAIL_SHARE), ("mean",))[["method", "samples", "tail_samples"]]
        return lines.merge(found, on="method", how="left")

    def keep(self, what: object, make: Callable[[], T]) -> T:
        """Caches what is computed from these runs, this model, round and tail, until the runs change."""
        return self._keep((what, self.model, self.when, self.tail), make)

    def means(self, name: str) -> pd.Series:
        """run -> mean over clients of one array of the chosen model and round, such as ``total_error``."""
        return self.source.final_means(self._all, f"{self.model}.{name}", self.model, self.when)

    def last(self, name: str) -> pd.Series:
        """run -> the last stored value of a scalar."""
        return self.source.final_scalars(self._all, name)

    def per_run(self, model: ModelKind | None = None, when: When | None = None) -> pd.DataFrame:
        """A row per run with its summaries over clients."""
        model, when = model or self.model, when or self.when
        return self._keep(("runs", model, when, self.tail), lambda: per_run(self.clients(model, when), self.share))

    def with_costs(self, model: ModelKind | None = None, when: When | None = None) -> pd.DataFrame:
        """A row per run with its summaries, and the cost up to that round; NaN for a last round that diverged."""
        until, broken = {}, []
        for run_id, run in self.runs.items():
            best = queries.best_round(run, model or self.model) if (when or self.when) == "best" else None
            until[run_id] = self.last_evaluated.get(run_id, run.round) if best is None else best
            if best is None and run.status == "diverged":
                broken.append(run_id)
        costs = self.costs_until(until).set_index("run")
        costs.loc[costs.index.isin(broken)] = np.nan
        return self.per_run(model, when).merge(costs.reset_index(), on="run", how="left")

    @property
    def last_evaluated(self) -> dict[int, int]:
        """run -> its last round with accuracies, which may not be the last one before it has ended."""
        series = self.series()
        known = series[(series["name"] == f"{self.model}.mean") & series["value"].notna()]
        return known.groupby("run")["round"].max().to_dict()

    def costs_until(self, until: Mapping[int, int]) -> pd.DataFrame:
        """[run, megabytes, gradient_evaluations, seconds] up to round ``until[run]``; simulated_s if some have it."""
        costs = spent(self.source.scalar_totals(until, COSTS))
        if self._clock.empty:
            return costs
        return costs.assign(simulated_s=costs["run"].map(simulated(self._clock, until)))

    @property
    def is_simulated(self) -> bool:
        """Whether every run records simulated seconds."""
        return set(self._clock["run"]) == set(self.runs)

    @property
    def _clock(self) -> pd.DataFrame:
        """[run, round, value]: the simulated clock of each round."""
        return self._keep("clock", lambda: self.source.scalar_series(self._all, [SIMULATED_CLOCK]))

    def with_options(self) -> pd.DataFrame:
        """A row per run with its summaries, and the options that a sweep may vary."""
        given = {run_id: sweep.options(run.config) for run_id, run in self.runs.items()}
        runs = self.per_run()
        return runs.assign(options=runs["run"].map(given))

    def best_first(self) -> list[Method]:
        of_method = means(self.per_run(), "mean")
        return sorted(self.methods, key=lambda method: -of_method.get(method.name, -1.0))

    def ranked(self) -> list[str]:
        """The names of the methods with results here, highest mean first."""
        known = set(self.clients()["method"].unique())
        return [method.name for method in self.best_first() if method.name in known]

    def drawn(self, limit: int) -> list[str]:
        """The methods that a chart of at most ``limit`` lines draws: the references, and the best by their mean."""
        known = set(self.clients()["method"].unique())
        ranked = [method for method in self.best_first() if method.name in known]
        references = [next((m for m in self.methods if m in ranked and m.algorithm == a), None) for a in REFERENCES]
        first = [m for m in references if m is not None]
        chosen = {m.name for m in [*first, *(m for m in ranked if m not in first)][:limit]}
        return [method.name for method in self.methods if method.name in chosen]

    def tail_words(self, rows: pd.DataFrame) -> str:
        """``lowest 5 % = 2 of 40 clients``, ``2 of 32 benign clients``; [tail, clients]."""
        counts = {f"{row.tail} of {clients(row.clients, self.has_malicious)}" for row in rows.itertuples()}
        return f"lowest {self.tail} % = {' or '.join(sorted(counts))}"

    @property
    def _all(self) -> list[RunRecord]:
        return list(self.runs.values())

    def _keep(self, key: object, make: Callable[[], T]) -> T:
        """Panels share tables, also across visits. A copy lets each caller add columns."""
        if key not in self._kept:
            self._kept[key] = make()
        found = self._kept[key]
        return cast(T, found.copy(deep=False) if isinstance(found, pd.DataFrame) else found)

    @cached_property
    def _kept(self) -> dict[object, object]:
        of = (self.by, tuple((method.name, method.run_ids) for method in self.methods))
        version = tuple((run.epoch, run.round, run.status) for run in self._all)
        return figure_cache.tables(queries.store().url, of, version)

    def _named(self, table: pd.DataFrame) -> pd.DataFrame:
        return with_methods(table, self.methods)


def more(count: int, shown: int) -> str:
    """``19 more methods are in the table.``, or nothing where all are drawn."""
    return f" {plural(count - shown, 'more method is', 'more methods are')} in the table." if count > shown else ""
