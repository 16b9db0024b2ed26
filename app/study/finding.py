"""The finding of a study in words: who leads training alone, who is level with it, who is not clearly different."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import pandas as pd

from app.statistics.intervals import MIN_BLOCKS, Interval
from app.statistics.verdicts import ends, excludes_zero, too_few_blocks
from app.study import numbers
from app.study.numbers import Difference
from app.study.study import SELECT, Study
from app.wording import capital, data_setting, decimals, names, plural, points

MAX_NAMED = 8
CHANCE = "this may be chance"


@dataclass(frozen=True)
class Finding:
    """What a finished study shows, for the page and the report."""

    title: str
    procedure: str
    sentences: tuple[str, ...]


def of(study: Study) -> Finding:
    table, compared, splits = numbers.table(study), numbers.compared(study), numbers.num_splits(study)
    return Finding(
        title(table, compared, study.reference, splits),
        procedure(
            len(study.entries),
            study.budget,
            len(study.seeds),
            len(study.splits),
            SELECT[study.select],
            is_limit=study.plan.tune.gradients is not None,
        ),
        tuple(sentences(table, compared, study.reference, splits, data_in_words(study))),
    )


def data_in_words(study: Study) -> str:
    """``Digits · 20 clients · 4 classes each``."""
    return data_setting(study.experiment.config)


def title(table: pd.DataFrame, differences: Mapping[str, Difference], reference: str | None, splits: int) -> str:
    """``No method is clearly ahead of LocalTrain``, ``CGPFL leads LocalTrain by 2.1 points``."""
    known = table.loc[table["tuned"].notna(), "method"].tolist()
    if not known:
        return "No run with the chosen settings has results"
    if reference is None or not differences:
        if len(known) == 1:
            return f"Only {known[0]} has results with its chosen settings"
        missing = "there is no reference" if reference is None else f"{reference} has no results"
        return f"{known[0]} has the highest tuned accuracy, but {missing} to compare with"
    if splits < MIN_BLOCKS:
        return f"{capital(plural(splits, 'split is', 'splits are'))} too few to say which methods lead {reference}"
    leaders = _of(differences, "ahead")
    if not leaders:
        return f"No method is clearly ahead of {reference}"
    if len(leaders) == 1:
        return f"{leaders[0].method} leads {reference} by {points(leaders[0].interval.mean, _samples(table))}"
    return f"{names([one.method for one in leaders], 3)} lead {reference}"


def sentences(
    table: pd.DataFrame, differences: Mapping[str, Difference], reference: str | None, splits: int, data: str
) -> list[str]:
    """What the numbers say, a sentence per kind of verdict, then tuning, the lowest clients and the scope.

    ``data`` names the data and their partition.
    """
    found = []
    if reference is not None and differences:
        if splits == 1:
            found += [too_few_blocks(1, len(table), 1), *_of_these_clients(differences, reference)]
        else:
            found += _verdicts(differences, reference, _samples(table))
    found += [_tuning(table, reference), _tails(table)]
    return [sentence for sentence in [*found, _scope(splits, data)] if sentence]


def _verdicts(differences: Mapping[str, Difference], reference: str, samples: float) -> list[str]:
    """``LG-FedAvg is level with LocalTrain (within half a point).``"""
    ahead, level, unclear, behind = (_of(differences, kind) for kind in ("ahead", "level", "unclear", "behind"))
    found = []
    if ahead:
        found.append(f"{_with_intervals(ahead, samples)} {_verb(ahead, 'leads', 'lead')} {reference}.")
    if level:
        found.append(f"{_named(level)} {_verb(level, 'is', 'are')} level with {reference}, within half a point.")
    if single := [one for one in unclear if excludes_zero(one.interval)]:
        found.append(
            f"{_single(single, reference, samples)}, but with {plural(len(differences), 'comparison')} {CHANCE}."
        )
    if known := [one for one in unclear if isfinite(one.interval.low) and one not in single]:
        low, high = min(one.interval.low for one in known), max(one.interval.high for one in known)
        reach = ends(Interval(0, low, high, 1), samples)
        what = f"{_verb(known, 'is', 'are')} not clearly different from {reference}"
        found.append(f"{_named(known)} {what} (between {reach} points).")
    if behind:
        found.append(f"{_with_intervals(behind, samples)} {_verb(behind, 'is', 'are')} behind {reference}.")
    for splits, shared in ((1, "only one split"), (0, "no split")):
        if group := [one for one in unclear if one.interval.n == splits]:
            found.append(f"{_named(group)} {_verb(group, 'has', 'have')} {shared} in common with {reference}.")
    return found


def _of_these_clients(differences: Mapping[str, Difference], reference: str) -> list[str]:
    """With one split: the methods whose interval over seeds and clients excludes 0, for these clients only."""
    above = [one for one in differences.values() if one.interval.is_above_zero]
    below = [one for one in differences.values() if one.interval.high < 0]
    words = [
        f"{_with_intervals(group, None)} {_verb(group, 'is', 'are')} {side} {reference} for these clients."
        for group, side in ((above, "above"), (below, "below"))
        if group
    ]
    if not any(one.interval.n for one in differences.values()):
        return []
    return words or [f"For these clients, no method differs from {reference} by more than its interval."]


def _tuning(table: pd.DataFrame, reference: str | None) -> str:
    """``Tuning raised CGPFL by 42.0 points and LocalTrain by 1.5 points.``"""
    gains = table.set_index("method")["gain"].dropna()
    if gains.empty or gains.max() <= 0:
        return ""
    most = gains.idxmax()
    samples = _samples(table)
    also = ""
    if reference in gains and reference != most:
        own = gains[reference]
        also = f" and {reference} by {points(own, samples)}" if own > 0 else f" and {reference} not at all"
    return f"Tuning raised {most} by {points(gains[most], samples)}{also}."


def _tails(table: pd.DataFrame) -> str:
    """Whether the lowest clients are lower than chance alone explains, of the methods for which this is known."""
    known = table[table["tail"] != ""]
    below = list(known.loc[known["tail"].str.startswith("Below"), "method"])
    every = "every method" if len(known) == len(table) else "every method with results"
    if known.empty:
        return ""
    if not below:
        return f"Under {every}, chance alone could explain how low the lowest 10 % of the clients are."
    if len(below) == len(known):
        return f"Under {every}, the lowest 10 % of the clients are lower than chance alone explains."
    return f"Under {names(below, MAX_NAMED)}, the lowest 10 % of the clients are lower than chance alone explains."


def _scope(splits: int, data: str) -> str:
    what = "new splits of this data set" if splits > 1 else "new trainings of these clients"
    return f"This generalizes only to {what}, divided in this way ({data})."


def procedure(methods: int, trials: int, seeds: int, splits: int, select: str, is_limit: bool = False) -> str:
    """``10 methods, 16 settings each, chosen by ..., retrained with 3 fresh seeds on 5 splits.``

    ``is_limit``: ``trials`` is the most of any method, since the budget is in gradients.
    """
    tried = f"{'up to ' if is_limit else ''}{plural(trials, 'setting')} each, chosen by {select}"
    tried = tried if trials > 1 else "defaults only"
    again = f"retrained with {plural(seeds, 'fresh seed')}" if trials > 1 else f"trained with {plural(seeds, 'seed')}"
    return f"{plural(methods, 'method')}, {tried}, {again} on {plural(splits, 'split')}."


def _of(differences: Mapping[str, Difference], kind: str) -> list[Difference]:
    """The methods with this relation to the reference, the highest first."""
    own = [one for one in differences.values() if one.relation == kind]
    return sorted(own, key=lambda one: -one.interval.mean)


def _single(group: Sequence[Difference], reference: str, samples: float | None) -> str:
    """``IFCA is 5.4 ± 3.3 points lower than LocalTrain``: its interval excludes 0."""
    if len(group) > 1:
        return f"{_with_intervals(group, samples)} differ from {reference}"
    (one,) = group
    words = _interval(one, samples).lstrip("+−")
    return f"{one.method} is {words} {'higher' if one.interval.mean > 0 else 'lower'} than {reference}"


def _named(group: Sequence[Difference]) -> str:
    return capital(names([one.method for one in group], MAX_NAMED))


def _with_intervals(group: Sequence[Difference], samples: float | None) -> str:
    """``FedAvg (−3.4 ± 2.0 points) and IFCA (−4.0 ± 3.3 points)``."""
    return names([f"{one.method} ({_interval(one, samples)})" for one in group], MAX_NAMED)


def _interval(one: Difference, samples: float | None) -> str:
    """``−3.4 ± 2.0 points``."""
    digits, half = min(1, decimals(samples)), (one.interval.high - one.interval.low) / 2
    return f"{100 * one.interval.mean:+.{digits}f} ± {100 * half:.{digits}f} points".replace("-", "−")


def _verb(group: Sequence[Difference], one: str, several: str) -> str:
    return one if len(group) == 1 else several


def _samples(table: pd.DataFrame) -> float:
    return float(table["samples"].min())
