"""The headline: which method leads on mean accuracy and on the lowest clients, and with what confidence.

``title`` compares the best method with the two that readers expect: one model for all, and training alone.
``headline`` is the sentence below, with intervals and the number of seeds.

A method leads only where the 95 % interval of its distance to each other method excludes 0, over three seeds or more
(``app/statistics/intervals.py``). With fewer seeds the sentence reports what was observed, and that this is not enough
for a conclusion.
"""

from collections.abc import Sequence

import pandas as pd

from app.data.comparison import REFERENCES, Ranking, per_method, ranking
from app.statistics.bayesian import ROPE
from app.statistics.intervals import MIN_BLOCKS, ROUNDING, Interval, interval_over_clients
from app.wording import capital, decimals, names, percent, points
from app.wording import clients as in_words

MAX_VALUES = 6  # in one sentence
MAX_NAMED = 3


def title(runs: pd.DataFrame, column: str = "mean", samples: str = "samples") -> str:
    """``CGPFL K=4 beats FedAvg (76 % against 44 %) and LocalTrain (54 %)``; ``is ahead of`` where seeds are few.

    If others may be as good: ``A is highest at 94 %; B (93 %) may be as good; A is clearly ahead of C (85 %)``.
    ``runs`` as ``per_run`` gives them, of two methods or more.
    """
    part = RankingInWords(runs, column, samples)
    found, few = part.found, part.found.seeds < MIN_BLOCKS
    first, tied = found.first, found.methods[:1] if few else found.tied
    rivals = _rivals(runs, found.methods, tied)
    is_level = len(tied) > 1 and found.standing.is_level(ROPE)
    percents = part.in_percent([*([first] if is_level or len(tied) > MAX_NAMED else tied), *rivals])
    if doubt := part.against_first() if few else part.ahead_of_first():
        return f"{first} is highest at {percents[first]}, but {doubt}"
    if few and not found.lead.mean > ROUNDING:
        same = part.in_percent([first])[first]
        return f"{first} and {found.second} are equal at {same}, over {found.over}"
    if len(tied) > 1:
        behind = f"; {first} is clearly ahead of {_listed(rivals, percents)}" if rivals else ""
        if is_level:
            return f"{_several(tied)} are tied at {part.span(tied)}{behind}"
        if len(tied) > MAX_NAMED:
            return f"{first} is highest at {percents[first]}, but any of {len(tied)} methods could be best"
        return f"{first} is highest at {percents[first]}; {_listed(tied[1:], percents)} may be as good{behind}"
    (nearest, *others) = rivals
    against = " and ".join(
        [f"{nearest} ({percents[first]} against {percents[nearest]})", *(f"{one} ({percents[one]})" for one in others)]
    )
    return f"{first} is ahead of {against}, over {found.over}" if few else f"{first} beats {against}"


def _rivals(runs: pd.DataFrame, ranked: Sequence[str], tied: Sequence[str]) -> list[str]:
    """One model for all and training alone, where the best is neither; else the next best. Two at most."""
    algorithm = runs.drop_duplicates("method").set_index("method")["algorithm"]
    behind = [method for method in ranked if method not in tied]
    known = [next((m for m in behind if algorithm[m] == one), None) for one in REFERENCES]
    found = [method for method in known if method is not None]
    return found if len(found) == len(REFERENCES) else list(dict.fromkeys([*behind[:1], *found]))


def _several(methods: Sequence[str]) -> str:
    """``A, B and C``; ``A, B, C and 2 others``, never one other."""
    return names(methods, MAX_NAMED + (len(methods) == MAX_NAMED + 1), rest="others")


def _listed(methods: Sequence[str], percents: dict[str, str]) -> str:
    return " and ".join(f"{method} ({percents[method]})" for method in methods)


def headline(runs: pd.DataFrame, share: float, clients: pd.DataFrame, are_benign: bool = False) -> str:
    """``CGPFL K=4 leads by 3.2 points on mean accuracy (95 % interval 1.1 to 5.3, 5 seeds); on the lowest 5 % ...``

    ``runs`` as ``per_run`` gives them, of ``clients`` [method, seed, client, accuracy]; ``are_benign``: malicious ones
    are left out.
    """
    if runs["method"].nunique() < 2:
        only = f"Only {runs.iloc[0]['method']}" if len(runs) else "No method"
        return f"{only} has results here; add a second method to compare."
    mean, tail = RankingInWords(runs, "mean", "samples"), RankingInWords(runs, "lowest", "tail_samples")
    worst = f"lowest {100 * share:g} %"
    if mean.found.seeds < MIN_BLOCKS:
        return _too_few(mean, tail, worst, clients, are_benign)
    first, seeds = mean.found.first, mean.found.over
    if doubt := mean.ahead_of_first():
        lead = f"{first} has the highest mean accuracy, but {doubt} ({seeds})"
    elif mean.found.is_clear:
        lead = f"{first} leads by {mean.lead} on mean accuracy ({mean.reach(mean.found.lead)}, {seeds})"
    else:
        lead = f"{capital(mean.tied('on mean accuracy'))}, {seeds})"
    if doubt := tail.ahead_of_first():
        return f"{lead}; {_possessive(tail.found.first)} {worst} is the highest, but {doubt}."
    if not tail.found.is_clear:
        return f"{lead}; {tail.tied(f'on the {worst}')})."
    by = f"by {tail.lead} ({tail.reach(tail.found.lead)})"
    if tail.found.first == first and mean.found.is_clear:
        return f"{lead}, and its {worst} is also the best, {by}."
    return f"{lead}; {_possessive(tail.found.first)} {worst} is the best, {by}."


def by_value(runs: pd.DataFrame) -> str:
    """``Mean accuracy: 81.2 % for α = 0.1, 92.0 % for α = 1.``: pooled runs are not ranked."""
    rows = per_method(runs, ("mean",)).itertuples(index=False)
    shown = [f"{percent(row.mean, 1, samples=row.samples)} for {row.method}" for row in rows]
    rest = f" and {len(shown) - MAX_VALUES} more" if len(shown) > MAX_VALUES else ""
    return f"Mean accuracy: {', '.join(shown[:MAX_VALUES])}{rest}."


def title_by_value(runs: pd.DataFrame) -> str:
    """``Mean accuracy from 81 % (α = 0.1) to 92 % (α = 1)``: pooled runs are not ranked."""
    of_value = means(runs, "mean")
    low, high = of_value.idxmin(), of_value.idxmax()
    return f"Mean accuracy from {percent(of_value[low], 0)} ({low}) to {percent(of_value[high], 0)} ({high})"


class RankingInWords:
    """The ranking by one number, in words, with as many decimals as the test samples support."""

    def __init__(self, runs: pd.DataFrame, column: str, samples: str) -> None:
        self.found: Ranking = ranking(runs, column)
        self.blocks = runs.pivot_table(index="split", columns="method", values=column)
        self.means = means(runs, column)
        self.samples = float(runs.groupby("method")[samples].sum().min())

    def in_percent(self, methods: Sequence[str]) -> dict[str, str]:
        """Whole percents, or tenths where these methods would read the same and the test samples support tenths."""
        whole = {method: percent(self.means[method], 0) for method in methods}
        if len(set(whole.values())) == len(whole):
            return whole
        return {method: percent(self.means[method], 1, samples=self.samples) for method in methods}

    def span(self, methods: Sequence[str]) -> str:
        """``70 %``, or ``93 to 94 %``: the range of their means in whole percents."""
        low, high = (percent(self.means[list(methods)].agg(end), 0) for end in ("min", "max"))
        return high if low == high else f"{low.removesuffix(' %')} to {high}"

    @property
    def lead(self) -> str:
        """``3.2 points``: how far the first is ahead of the second."""
        return points(self.found.lead.mean, self.samples)

    def ahead_of_first(self) -> str:
        """The methods that are ahead of the first where both have results, as they have other seeds; empty if none."""
        gaps = zip(self.found.methods[1:], self.found.standing.gaps, strict=True)
        ahead = [method for method, gap in gaps if gap.n and gap.mean < -ROUNDING]
        return f"{_several(ahead)} {'is' if len(ahead) == 1 else 'are'} ahead where both have results" if ahead else ""

    def against_first(self) -> str:
        """What speaks against the first, since other methods have other seeds; empty if nothing does."""
        found, gap = self.found, self.found.lead
        if not found.seeds:
            return f"the methods have no {found.unit} in common"
        if not gap.n:
            return f"it has no {found.unit} in common with {found.second}"
        if ahead := self.ahead_of_first():
            return ahead
        if gap.mean <= ROUNDING < self.means[found.first] - self.means[found.second]:
            return f"{found.second} is level where both have results"
        return ""

    def won(self) -> tuple[int, int]:
        """The number of seeds in which the first is ahead of all others, and of those that it shares with any other."""
        own = self.blocks[self.found.first]
        rivals = self.blocks.drop(columns=self.found.first).max(axis=1)
        is_contested = own.notna() & rivals.notna()
        return int((own - rivals > ROUNDING)[is_contested].sum()), int(is_contested.sum())

    def reach(self, gap: Interval) -> str:
        digits = decimals(self.samples, limit=1)
        return f"95 % interval {100 * gap.low:.{digits}f} to {100 * gap.high:.{digits}f}".replace("-", "−")

    def tied(self, what: str) -> str:
        """``A and B are tied on mean accuracy (...`` where they are known to be close; else which may be the best."""
        tied = _several(self.found.tied)
        if self.found.standing.is_level(ROPE):
            return f"{tied} are tied {what} (within half a point"
        apart = points(self.found.standing.gaps[len(self.found.tied) - 2].mean, self.samples)
        return f"{what} the best may be any of {tied} (within {apart}"


def _too_few(mean: RankingInWords, tail: RankingInWords, worst: str, clients: pd.DataFrame, are_benign: bool) -> str:
    """The result of one or two seeds, with the note that these are too few for a conclusion."""
    found, gap = mean.found, mean.found.lead
    won, contested = mean.won()
    if not gap.n:
        return f"{found.first} has the highest mean accuracy, but {mean.against_first()}."
    if doubt := mean.against_first():
        seen = f"{found.first} has the highest mean accuracy, but {doubt}"
    elif not gap.mean > ROUNDING:
        seen = f"{found.first} and {found.second} have the same mean accuracy"
    elif found.seeds == 1:
        here = of_these_clients(clients, found.first, found.second)
        over = f" ({mean.reach(here)} over these {in_words(here.n, are_benign)})" if here.n > 1 else ""
        seen = f"{found.first} is ahead of {found.second} by {mean.lead} on mean accuracy{over}"
    elif won == contested == gap.n:
        seen = f"{found.first} is ahead in both {found.unit}s, by {mean.lead} on mean accuracy"
    else:
        but = f", but not first in {'both' if contested == 2 else 'all'} {found.unit}s" if won < contested else ""
        seen = f"{found.first} is ahead of {found.second} by {mean.lead} on mean accuracy{but}"
    if not tail.found.lead.mean > ROUNDING:
        low = ""
    elif tail.found.first == found.first:
        low = f"; its {worst} is also the highest"
    else:
        low = f"; {_possessive(tail.found.first)} {worst} is the highest"
    return f"{seen}{low}. {capital(found.over)} {'is' if found.seeds == 1 else 'are'} too few to tell."


def of_these_clients(clients: pd.DataFrame, a: str, b: str) -> Interval:
    """How far ``a`` is ahead of ``b``, paired by client in each split that both have, over the seeds of that split.

    It covers these clients and these runs only: retraining would shift all of them together.
    """
    keys = ["split", "seed", "client"]
    first, second = (clients.loc[clients["method"] == m, [*keys, "accuracy"]] for m in (a, b))
    both = first.merge(second, on=keys, suffixes=("_a", "_b"))
    gaps = (both["accuracy_a"] - both["accuracy_b"]).astype(float).groupby([both["split"], both["client"]]).mean()
    return interval_over_clients([own.to_numpy() for _, own in gaps.groupby(level="split")])


def means(runs: pd.DataFrame, column: str) -> pd.Series:
    """method -> the mean of a column, as in the table."""
    return per_method(runs, (column,)).set_index("method")[column]


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
