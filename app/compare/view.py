"""What Compare shows: the methods, what the address says of them, and the tables that all panels share."""

from dataclasses import dataclass
from typing import cast

import pandas as pd

from app import address, queries
from app.charts import cost, curves_over_seeds, sweep
from app.comparison import Method, per_run, with_methods
from app.wording import MODELS, WHEN, kicker
from storage import RunRecord

TAILS = {"5": "5 %", "10": "10 %"}
ROUNDS = {"last": "Last round", "best": "Best round"}
SORTS = {"mean": "mean", "lowest": "lowest", "top": "top", "spread": "least spread"}
AXES = {"round": "Rounds", "megabytes": "Megabytes", "gradient_evaluations": "Gradients", "seconds": "Seconds"}
COSTS = {name: AXES[name] for name in cost.COST_NAMES}


@dataclass(frozen=True)
class View:
    """One comparison. Of a run, ``clients`` are those of the model and the round that the address chooses."""

    methods: tuple[Method, ...]
    model: queries.Model
    when: queries.When
    tail: int

    @classmethod
    def from_address(cls, methods: tuple[Method, ...]) -> "View":
        model = cast(queries.Model, address.value("model", MODELS, "personalized"))
        when = cast(queries.When, address.value("when", ROUNDS, "last"))
        return cls(methods, model, when, int(address.value("tail", TAILS, "5")))

    @property
    def share(self) -> float:
        return self.tail / 100

    @property
    def other_model(self) -> queries.Model:
        return "global" if self.model == "personalized" else "personalized"

    @property
    def runs(self) -> dict[int, RunRecord]:
        return {run.id: run for method in self.methods for run in method.runs}

    @property
    def setting(self) -> str:
        """``DIGITS · 40 CLIENTS · 3 CLASSES EACH · 3 SEEDS``, for each setting that occurs."""
        groups: dict[str, list[RunRecord]] = {}
        for run in self.runs.values():
            groups.setdefault(repr((run.config["dataset"], run.config["partition"])), []).append(run)
        return " / ".join(dict.fromkeys(kicker(own) for own in groups.values()))

    @property
    def rule(self) -> str:
        """``personalized model, best round, chosen on test``."""
        validated = any(run.config["partition"].get("val_fraction") for run in self.runs.values())
        return f"{self.model} model, {WHEN['best_val' if self.when == 'best' and validated else self.when]}"

    def clients(self, model: queries.Model | None = None, when: queries.When | None = None) -> pd.DataFrame:
        """[run, method, algorithm, seed, client, accuracy, test_size]."""
        return with_methods(
            queries.final_clients(list(self.runs), model or self.model, when or self.when), self.methods
        )

    def unseen_clients(self) -> pd.DataFrame:
        """[run, method, algorithm, seed, client, accuracy, test_size] of clients that never trained, last round."""
        return with_methods(queries.unseen_clients(list(self.runs)), self.methods)

    def series(self) -> pd.DataFrame:
        """[run, method, algorithm, seed, round, name, value]: mean, lowest 5 % and costs of every round."""
        wanted = [f"{self.model}.mean", f"{self.model}.lowest5", *curves_over_seeds.COSTS]
        return with_methods(queries.scalar_series(list(self.runs), wanted), self.methods)

    def with_costs(
        self,
        clients: pd.DataFrame,
        series: pd.DataFrame,
        model: queries.Model | None = None,
        when: queries.When | None = None,
    ) -> pd.DataFrame:
        """A row a run with its summaries, and what it had spent when it was as good as that."""
        until = {}
        for run_id, run in self.runs.items():
            best = queries.best_round(run, model or self.model) if (when or self.when) == "best" else None
            until[run_id] = run.round if best is None else best
        return per_run(clients, self.share).merge(cost.spent(series, until), on="run", how="left")

    def with_options(self, clients: pd.DataFrame) -> pd.DataFrame:
        """A row a run with its summaries, and what a sweep may have varied in it."""
        given = {run_id: sweep.options(run.config) for run_id, run in self.runs.items()}
        return per_run(clients, self.share).assign(options=lambda runs: runs["run"].map(given))

    def on_common_test(self, run: RunRecord) -> float:
        """Mean accuracy of the clients' models on the common test set; NaN where there is none."""
        rounds, values = queries.client_series(run.id, f"{self.model}.common_accuracy")
        if not len(rounds):
            return float("nan")
        at = queries.best_round(run, self.model) if self.when == "best" else None
        return float(values[-1 if at is None else list(rounds).index(at)].mean())

    def best_first(self, clients: pd.DataFrame) -> list[Method]:
        means = clients.groupby("method")["accuracy"].mean()
        return sorted(self.methods, key=lambda method: -means.get(method.name, -1.0))

    def tail_words(self, rows: pd.DataFrame) -> str:
        """``lowest 5 % = 2 of 40 clients``; [tail, clients]."""
        counts = {f"{row.tail} of {row.clients}" for row in rows.itertuples()}
        return f"lowest {self.tail} % = {' or '.join(sorted(counts))} clients"
