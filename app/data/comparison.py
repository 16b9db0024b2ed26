"""Methods with their runs, and their numbers over clients and then over seeds."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from app.statistics.intervals import MIN_BLOCKS, Interval, t_interval
from app.statistics.ranking import StatisticalRanking, rank_methods
from app.wording import names, plural
from engine.core.registry import ALGORITHMS
from engine.metrics import tail_size
from storage import RunRecord

SUMMARIES = ("mean", "weighted_mean", "lowest", "top", "std", "cv")
COUNTS = ("clients", "tail", "samples", "tail_samples")  # samples: test samples of all clients, and of those in a tail
REFERENCES = ("fedavg", "local_train")  # both ends of personalization, always drawn
FEW_SEEDS = {1: "one seed", 2: "two seeds"}  # too few to distinguish methods
NOT_THE_METHOD = {
    "seed",
    "data_seed",
    "study",
    "name",
    "label",
    "device",
    "backend",
    "cuda_graphs",
    "seeds_together",
    "threads",
    "checkpoint_s",
    "version",
}


@dataclass(frozen=True)
class Method:
    """Runs that differ only in their split and seed. ``name`` is unique among the methods compared."""

    name: str
    algorithm: str
    runs: tuple[RunRecord, ...]

    @property
    def run_ids(self) -> tuple[int, ...]:
        return tuple(run.id for run in self.runs)

    @property
    def draws(self) -> tuple["SplitSeed", ...]:
        return tuple(split_seed_of(run) for run in self.runs)


SplitSeed = tuple[int, int]  # split and seed, which are equal unless the data have a seed of their own


def split_seed_of(run: RunRecord) -> SplitSeed:
    return run.split, run.seed


def methods_of(runs: Iterable[RunRecord]) -> list[Method]:
    """Runs grouped into methods, in the order they were queued; of equal runs the newest that is done is used.

    The final runs of an entry of a study are one method, although each split may have chosen its own settings.
    """
    groups: dict[str, dict[SplitSeed, RunRecord]] = {}
    for run in sorted(runs, key=lambda run: (run.experiment_id, run.position)):
        by_split_seed, split_seed = groups.setdefault(_identity(run), {}), split_seed_of(run)
        if run.status == "done" or split_seed not in by_split_seed or by_split_seed[split_seed].status != "done":
            by_split_seed[split_seed] = run
    found = [tuple(own[split_seed] for split_seed in sorted(own)) for own in groups.values()]
    return [Method(name, own[0].algorithm, own) for name, own in zip(_names(found), found, strict=True)]


def is_final(run: RunRecord) -> bool:
    """Whether this is a final run of a study, whose settings may differ by split."""
    return run.study is not None and run.study["role"] == "final"


def _identity(run: RunRecord) -> str:
    """Equal for runs of one method: of a study by its label, of others by all settings."""
    if is_final(run):
        return json.dumps([run.label, run.experiment_id])
    what = {k: v for k, v in run.config.items() if k not in NOT_THE_METHOD}
    return json.dumps([run.label, what], sort_keys=True)


def method_name(label: str, algorithm: str) -> str:
    """``fedavg`` -> ``FedAvg``, ``ditto lam=0.1`` -> ``Ditto λ=0.1``; a custom label is unchanged."""
    head, *settings = label.split(" ")
    if head != algorithm or algorithm not in ALGORITHMS:
        return label
    entry = ALGORITHMS.get(algorithm)
    symbols = {p.name: p.symbol for p in entry.parameters}
    parts = [part.partition("=") for part in settings]
    return " ".join([entry.title, *(symbols.get(key, key) + sign + value for key, sign, value in parts)])


def run_name(run: RunRecord) -> str:
    """``Ditto λ=0.1, seed 0``, or ``Ditto λ=0.1, split 3, seed 0``."""
    return f"{method_name(run.label, run.algorithm)}, {run.seeds_in_words}"


def with_methods(frame: pd.DataFrame, methods: Sequence[Method]) -> pd.DataFrame:
    """Adds the columns ``method`` and ``algorithm`` to rows that have a ``run``, in the order of ``methods``."""
    rank = {run_id: i for i, method in enumerate(methods) for run_id in method.run_ids}
    place = frame["run"].map(rank).to_numpy()
    order = np.argsort(place, kind="stable")
    of = [methods[int(i)] for i in place[order]]
    ordered = frame.iloc[order].reset_index(drop=True)
    return ordered.assign(method=[method.name for method in of], algorithm=[method.algorithm for method in of])


def pooled(methods: Sequence[Method], value_of: Callable[[RunRecord], str]) -> list[Method]:
    """Runs grouped by value, named after it, in order of appearance.

    A group is drawn as its algorithm if each group has only one, else in shades of one color.
    """
    groups: dict[str, list[RunRecord]] = {}
    for run in (run for method in methods for run in method.runs):
        groups.setdefault(value_of(run), []).append(run)
    algorithms = {method.algorithm for method in methods}
    own = {value: {run.algorithm for run in runs} for value, runs in groups.items()}
    if all(len(used) == 1 for used in own.values()):
        return [Method(value, min(own[value]), tuple(runs)) for value, runs in groups.items()]
    shared = min(algorithms) if len(algorithms) == 1 else "pooled"
    return [Method(value, shared, tuple(runs)) for value, runs in groups.items()]


def per_run(clients: pd.DataFrame, share: float) -> pd.DataFrame:
    """[run, method, algorithm, split, seed, client, accuracy, test_size] -> a row per run: its summaries over clients.

    ``lowest`` and ``top`` are means over the ``tail`` worst and best clients, std is that of the population.
    """
    known, heads = clients.dropna(subset=["accuracy"]), ["run", "method", "algorithm", "split", "seed"]
    rows = [
        dict(zip(heads, head, strict=True))
        | _summary(own["accuracy"].to_numpy(float), own["test_size"].to_numpy(float), share)
        for head, own in known.groupby(heads, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*heads, *SUMMARIES, *COUNTS])


def per_method(runs: pd.DataFrame, columns: Sequence[str] = SUMMARIES) -> pd.DataFrame:
    """A row per run -> a row per method: each column's mean over seeds, and its sample deviation as ``<column>_pm``.

    If the data have seeds of their own, it is that over splits, whose seeds are averaged first. ``seeds`` is the number
    of values; one has no deviation: NaN.
    """
    rows = []
    for (method, algorithm), own in runs.groupby(["method", "algorithm"], sort=False):
        blocks = own if unit_of(own) == "seed" else own.groupby("split")[list(columns)].mean()
        row: dict[str, Any] = {"method": method, "algorithm": algorithm, "seeds": len(blocks)}
        for column in columns:
            values = blocks[column].to_numpy(float)
            row |= {column: values.mean(), f"{column}_pm": values.std(ddof=1) if len(values) > 1 else np.nan}
        counts = {k: int(own[k].max()) for k in ("clients", "tail") if k in own}
        rows.append(row | counts | {k: own[k].sum() for k in ("samples", "tail_samples") if k in own})
    both = [name for column in columns for name in (column, f"{column}_pm")]
    return pd.DataFrame(rows, columns=["method", "algorithm", "seeds", *both, *COUNTS])


@dataclass(frozen=True)
class Ranking:
    """The methods compared by one of their numbers, best first; ``standing`` says which of them may be the best."""

    methods: tuple[str, ...]
    standing: StatisticalRanking
    unit: str = "seed"  # or "split"

    @property
    def over(self) -> str:
        """``one seed``, ``5 splits``: what the methods are compared over."""
        return FEW_SEEDS.get(self.seeds, plural(self.seeds, "seed")).replace("seed", self.unit)

    @property
    def first(self) -> str:
        return self.methods[0]

    @property
    def second(self) -> str:
        return self.methods[1]

    @property
    def lead(self) -> Interval:
        """The difference between the first and the second."""
        return self.standing.gaps[0]

    @property
    def tied(self) -> tuple[str, ...]:
        """The methods that may be the best, including the first; all of them if there are too few seeds."""
        return self.methods[: self.standing.may_be_best]

    @property
    def is_clear(self) -> bool:
        return self.standing.is_clear

    @property
    def seeds(self) -> int:
        """The most seeds, or splits, that the first shares with another method."""
        return max((gap.n for gap in self.standing.gaps), default=0)


def ranking(runs: pd.DataFrame, column: str, is_higher_better: bool = True) -> Ranking:
    """[method, split, <column>] -> which method is first, and which may be. Methods are compared split by split.

    Runs of one method that share a split are averaged.
    """
    methods = list(dict.fromkeys(runs["method"]))
    table = runs.pivot_table(index="split", columns="method", values=column).reindex(columns=methods)
    found = rank_methods(table.to_numpy(float), is_higher_better)
    return Ranking(tuple(methods[place] for place in found.order), found, unit_of(runs))


def surpassed(runs: pd.DataFrame, column: str) -> set[str]:
    """[method, split, <column>] -> the methods that another one is clearly better than.

    That is, the 95 % interval of their difference over three splits or more is above 0.
    """
    table = runs.pivot_table(index="split", columns="method", values=column)
    return {
        str(method)
        for method in table
        if any(map(_is_clearly_above, table.drop(columns=method).sub(table[method], axis=0).to_numpy(float).T))
    }


def _is_clearly_above(differences: np.ndarray) -> bool:
    found = t_interval(differences[np.isfinite(differences)])
    return found.n >= MIN_BLOCKS and found.is_above_zero


def unit_of(runs: pd.DataFrame) -> str:
    """[split, seed] -> what the data were drawn by: ``seed``, or ``split`` if they have a seed of their own."""
    return "seed" if (runs["split"] == runs["seed"]).all() else "split"


def doubt(seeds: int, others: Sequence[str], what: str = "methods", unit: str = "seed") -> str:
    """The uncertainty about the best: ``; B may be as good``, ``; 2 seeds are too few to distinguish methods``.

    ``unit`` is what ``seeds`` counts: see ``unit_of``.
    """
    if seeds < MIN_BLOCKS:
        return f"; {plural(seeds, f'{unit} is', f'{unit}s are')} too few to distinguish {what}"
    return f"; {names(others, 3)} may be as good" if others else ""


def pareto_front(cost: pd.Series, gain: pd.Series) -> list[bool]:
    """Whether no other row is at least as good in both cost and gain and better in one."""
    return [not ((cost <= c) & (gain >= g) & ((cost < c) | (gain > g))).any() for c, g in zip(cost, gain, strict=True)]


def _summary(values: np.ndarray, sizes: np.ndarray, share: float) -> dict[str, float]:
    order, tail = np.argsort(values, kind="stable"), tail_size(len(values), share)
    ordered, of = values[order], sizes[order]
    mean, std = values.mean(), values.std()
    return {
        "mean": mean,
        "weighted_mean": float((values * sizes).sum() / sizes.sum()) if sizes.sum() else np.nan,
        "lowest": ordered[:tail].mean(),
        "top": ordered[-tail:].mean(),
        "std": std,
        "cv": std / mean if mean else np.nan,
        "clients": len(values),
        "tail": tail,
        "samples": sizes.sum(),
        "tail_samples": min(of[:tail].sum(), of[-tail:].sum()),
    }


def _names(groups: Sequence[tuple[RunRecord, ...]]) -> list[str]:
    """Names of methods; equal names are extended by their experiment or first run."""
    found = [method_name(own[0].label, own[0].algorithm) for own in groups]
    for suffix in (lambda own: own[0].experiment_name, lambda own: f"run {own[0].id}"):
        often = Counter(found)
        found = [
            f"{name} · {suffix(own)}" if often[name] > 1 else name for name, own in zip(found, groups, strict=True)
        ]
    return found
