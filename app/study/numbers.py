"""The numbers of a study, a row per method: difference to the reference, lowest clients, hurt and helped, cost."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.charts import paired, tuned
from app.statistics.bootstrap import two_way
from app.statistics.chance_floor import chance_floor
from app.statistics.hurt import HurtAndHelped, hurt_and_helped
from app.statistics.intervals import ROUNDING, Interval, t_interval
from app.statistics.pairs import Pair, to_reference
from app.statistics.verdicts import Relation, difference_in_words, relation, tail_in_words
from app.study.study import SHARE, Study
from engine.metrics import tail_size

TUNED = "tuned"
GLOBAL = "FedAvg's global model"


@dataclass(frozen=True)
class Difference:
    """A tuned method minus the tuned reference: over splits, or over the clients if there is one split."""

    method: str
    interval: Interval  # over splits; with one split, of its clients
    p: float  # Wilcoxon over splits
    holm: float
    relation: Relation  # over splits
    words: str


def blocks(runs: pd.DataFrame, column: str, setting: str = TUNED) -> pd.DataFrame:
    """[splits, methods]: the means over seeds of a column of ``Study.final_runs``."""
    own = runs[runs["setting"] == setting]
    methods = list(dict.fromkeys(own["method"]))
    return own.pivot_table(index="split", columns="method", values=column).reindex(columns=methods)


def num_splits(study: Study) -> int:
    """The number of splits on which a tuned method has results."""
    return len(blocks(study.final_runs, "mean"))


def below(runs: pd.DataFrame, reference: str, setting: str, *, is_clear: bool) -> tuple[int, int]:
    """How many methods are below the reference with this setting, of how many that share a split with it.

    ``is_clear`` counts the methods that are *behind* it, as in the verdicts.
    """
    table = blocks(runs, "mean", setting)
    if reference not in table:
        return 0, 0
    pairs = to_reference(table.to_numpy(float), list(table.columns).index(reference))
    known = [pair for pair in pairs if pair.interval.n]
    lower = [relation(pair) == "behind" if is_clear else pair.interval.mean < -ROUNDING for pair in known]
    return sum(lower), len(known)


def differences(runs: pd.DataFrame, clients: pd.DataFrame, reference: str) -> dict[str, Difference]:
    """method -> its tuned accuracy minus that of the reference; verdicts are corrected for all these comparisons."""
    table = blocks(runs, "mean")
    if reference not in table:
        return {}
    methods = list(table.columns)
    pairs = to_reference(table.to_numpy(float), methods.index(reference))
    samples = float(tuned.test_samples(runs)["samples"].min())
    return {
        methods[pair.a]: _difference(methods[pair.a], pair, clients, reference, samples, len(table)) for pair in pairs
    }


def _difference(
    method: str, pair: Pair, clients: pd.DataFrame, reference: str, samples: float, splits: int
) -> Difference:
    interval, words = pair.interval, difference_in_words(pair, samples)
    if splits == 1:
        interval, words = of_one_split(clients, method, reference), "One split: interval for these clients only"
    return Difference(method, interval, pair.p, pair.holm, relation(pair), words)


def of_one_split(clients: pd.DataFrame, method: str, reference: str) -> Interval:
    """The two-way bootstrap over seeds and clients of the difference, where a study has only one split.

    In each seed it counts the clients that have results with both methods. With an attack, they differ between seeds.
    """
    own = clients[clients["setting"] == TUNED]
    wide = [
        own[own["method"] == name].pivot_table(index="seed", columns="client", values="accuracy")
        for name in (method, reference)
    ]
    gaps = (wide[0] - wide[1]).dropna(how="all").to_numpy(float)
    return two_way(gaps, _mean_of_known)


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis without NaN; NaN where nothing else is left."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    return np.where(known, values, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)


def floors(study: Study) -> pd.DataFrame:
    """``floors_of`` the study's final runs."""
    return study.keep("floors", lambda: floors_of(study.final_clients))


def floors_of(clients: pd.DataFrame) -> pd.DataFrame:
    """[method, floor, floor_low, floor_high] of the tuned runs: the chance floor of their mean over splits.

    The pooled accuracy of a method on a split is the probability of each of its answers. The seeds of a split count as
    one training, as if they failed the same clients.
    """
    rows = []
    for method, of_method in clients[clients["setting"] == TUNED].groupby("method", sort=False):
        splits = []
        for _, own in of_method.groupby("split", sort=False):
            first = own[own["run"] == own["run"].iloc[0]]
            weights = own["test_size"].to_numpy(float)
            accuracy = float((own["accuracy"] * weights).sum() / weights.sum())
            splits.append((first["test_size"].to_numpy(), min(1.0, accuracy)))
        found = chance_floor(splits, SHARE)
        rows.append({"method": method, "floor": found.mean, "floor_low": found.low, "floor_high": found.high})
    return pd.DataFrame(rows, columns=["method", "floor", "floor_low", "floor_high"])


def known_ends(interval: Interval) -> tuple[float, float]:
    """Both ends; NaN for an interval without ends, as over a single split."""
    return (interval.low, interval.high) if np.isfinite([interval.low, interval.high]).all() else (np.nan, np.nan)


def _values(table: pd.DataFrame, method: str) -> np.ndarray:
    """A column without missing blocks; empty if no run of the method was completed."""
    return table[method].dropna().to_numpy(float) if method in table else np.empty(0)


def hurt_against(clients: pd.DataFrame, method: str, reference: str) -> HurtAndHelped | None:
    """Hurt and helped clients of the tuned method against the tuned reference; None if they have none in common."""
    own = clients[clients["setting"] == TUNED]
    pairs = paired.data(own, method, reference)
    return hurt_and_helped(pairs["difference"].to_numpy(float)) if len(pairs) else None


def against_global(study: Study) -> pd.DataFrame:
    """The tuned clients, with FedAvg's global model as the method ``GLOBAL``; no rows without FedAvg."""
    fedavg = [entry.name for entry in study.entries if entry.algorithm == "fedavg"]
    shared = study.of_finals("global")
    own = shared[shared["method"].isin(fedavg[:1])].assign(method=GLOBAL)
    return pd.concat([study.final_clients, own], ignore_index=True) if len(own) else own


def named_tail(study: Study) -> pd.Series:
    """method -> test accuracy of the clients with the lowest validation accuracy under the tuned reference.

    They are the lowest ``SHARE`` of each split. Naming them by validation data keeps their test accuracy unbiased.
    """
    reference = study.reference
    tuned_runs = study.final_clients[study.final_clients["setting"] == TUNED]
    ids = set(tuned_runs.loc[tuned_runs["method"] == reference, "run"])
    validated = study.validation(ids)
    if validated.empty:
        return pd.Series(dtype=float)
    means = validated.groupby(["split", "client"], as_index=False)["accuracy"].mean()
    ranked = means.sort_values(["split", "accuracy", "client"], kind="stable")
    lowest = pd.concat([own.head(tail_size(len(own), SHARE)) for _, own in ranked.groupby("split")])
    found = tuned_runs.merge(lowest[["split", "client"]], on=["split", "client"])
    by_split = found.groupby(["method", "split"])["accuracy"].mean()
    return by_split.groupby("method").mean()


def compared(study: Study) -> dict[str, Difference]:
    """``differences`` to the reference of the study, if it has one."""
    reference = study.reference
    if reference is None:
        return {}
    return study.keep("differences", lambda: differences(study.final_runs, study.final_clients, reference))


def table(study: Study) -> pd.DataFrame:
    """A row per method, the best tuned first; accuracies and differences are fractions.

    [method, algorithm, default, tuned, gain, difference, low, high, verdict, p, holm, lowest, lowest_low, lowest_high,
    floor, floor_low, floor_high, tail, named, hurt, helped, hurt_p, hurt_global, helped_global, clients,
    gradients, megabytes, tuning_gradients, samples, tail_samples]
    """
    return study.keep("table", lambda: _table(study))


def _table(study: Study) -> pd.DataFrame:
    runs, clients, reference = study.final_runs, study.final_clients, study.reference
    rows = tuned.data(runs, floors(study))
    gaps = compared(study)
    lowest = blocks(runs, "lowest")
    named, shared = named_tail(study) if reference else pd.Series(dtype=float), against_global(study)
    costs = {column: blocks(runs, column).mean() for column in ("gradient_evaluations", "megabytes")}
    spent = study.trial_values.groupby("method")["gradients"].sum()
    found = []
    for row in rows.to_dict("records"):
        method = row["method"]
        own, tail = gaps.get(method), t_interval(_values(lowest, method))
        low, high = known_ends(own.interval) if own else (np.nan, np.nan)
        lowest_low, lowest_high = np.clip(known_ends(tail), 0, 1)  # an accuracy; few splits give wide intervals
        hurt = hurt_against(clients, method, reference) if reference and method != reference else None
        of_global = hurt_against(shared, method, GLOBAL) if len(shared) else None
        floor = Interval(row["floor"], row["floor_low"], row["floor_high"], 1)
        found.append(
            row
            | {
                "difference": own.interval.mean if own else np.nan,
                "low": low,
                "high": high,
                "verdict": own.words if own else "",
                "p": own.p if own else np.nan,
                "holm": own.holm if own else np.nan,
                "lowest": tail.mean,
                "lowest_low": lowest_low,
                "lowest_high": lowest_high,
                "tail": tail_in_words(tail.mean, floor),
                "named": named.get(method, np.nan),
                "hurt": hurt.hurt if hurt else np.nan,
                "helped": hurt.helped if hurt else np.nan,
                "hurt_p": hurt.p if hurt else np.nan,
                "hurt_low": hurt.low if hurt else np.nan,
                "hurt_high": hurt.high if hurt else np.nan,
                "hurt_global": of_global.hurt if of_global else np.nan,
                "helped_global": of_global.helped if of_global else np.nan,
                "clients": hurt.clients if hurt else np.nan,
                "gradients": costs["gradient_evaluations"].get(method, np.nan),
                "megabytes": costs["megabytes"].get(method, np.nan),
                "tuning_gradients": spent.get(method, np.nan),
            }
        )
    return pd.DataFrame(found)
