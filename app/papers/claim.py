"""A paper's claim about a figure without numbers, and whether it holds in our runs.

The claims about a preset's figures are a file in ``app/papers/claims/`` named like the preset, with ``CLAIMS``: each is
what the paper says, in our words, and where, and the comparisons of our numbers that it implies.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import pandas as pd

from app.data.comparison import FEW_SEEDS
from app.papers.results import Measure, Results, Setting
from app.statistics.intervals import MIN_BLOCKS, ROUNDING, Interval, t_interval
from app.wording import plural
from engine.config.presets import Preset

State = Literal["holds", "fails", "unclear"]
STATES: dict[State, str] = {"holds": "Holds", "fails": "Does not hold", "unclear": "Not clear"}
NEAREST: dict[State, str] = {"holds": "Closest", "fails": "Furthest off", "unclear": "Too close to call"}
MAX_SHOWN = 3  # comparisons that the sentence repeats


@dataclass(frozen=True)
class Check:
    """One comparison: ``words`` has its numbers, ``margin`` is above zero where it agrees with the claim."""

    words: str
    margin: Interval

    @property
    def state(self) -> State:
        """The state by the 95 % interval over seeds, as in Compare; for one or two seeds by the observed value."""
        margin = self.margin
        low, high = (margin.mean, margin.mean) if margin.n < MIN_BLOCKS else (margin.low, margin.high)
        return "holds" if low > ROUNDING else "fails" if high < -ROUNDING else "unclear"


@dataclass(frozen=True)
class Claim:
    """``reading``: the criterion that we test, if the paper gives none."""

    says: str
    where: str  # section and figure
    checks: Callable[[Results], Iterable[Check]]
    reading: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim with its comparisons, one or more. ``missing``: those without results."""

    claim: Claim
    checks: tuple[Check, ...]
    missing: tuple[Check, ...] = ()

    @property
    def state(self) -> State:
        """The claim holds if all comparisons agree, and fails if one disagrees."""
        states = {check.state for check in self.checks}
        return worst(states | {"unclear"} if self.missing else states)

    @property
    def seeds(self) -> int:
        return min(check.margin.n for check in self.checks)

    @property
    def is_tested(self) -> bool:
        return self.seeds >= MIN_BLOCKS

    @property
    def head(self) -> str:
        """``Holds here``, or ``Holds in one seed (not tested)`` with too few seeds for an interval."""
        where = "here" if self.is_tested else f"in {FEW_SEEDS[self.seeds]} (not tested)"
        return f"{STATES[self.state]} {where}"

    def sentence(self) -> str:
        """``7 of 12 comparisons agree. Furthest off: MNIST MLR: CGPFL K=2 91.1 %, Ditto 94.2 %.``"""
        agree = sum(check.state == "holds" for check in self.checks)
        state = worst([check.state for check in self.checks])
        against = [check for check in self.checks if check.state == state]
        nearest = sorted(against, key=lambda check: check.margin.mean)[:MAX_SHOWN]
        shown = "; ".join(check.words for check in nearest)
        if len(self.checks) == 1:
            return f"{shown}. {self.lack()}{self.basis()}".rstrip()
        count = f"{agree} of {plural(len(self.checks), 'comparison')} {'agrees' if agree == 1 else 'agree'}"
        return f"{count}. {NEAREST[state]}: {shown}. {self.lack()}{self.basis()}".rstrip()

    def lack(self) -> str:
        """``1 more comparison lacks results: MNIST MLR: CGPFL K=10 –, Ditto 94.2 %. ``; empty if there are all."""
        if not self.missing:
            return ""
        number = len(self.missing)
        shown = "; ".join(check.words for check in self.missing[:MAX_SHOWN])
        return f"{plural(number, 'more comparison')} {'lacks' if number == 1 else 'lack'} results: {shown}. "

    def basis(self) -> str:
        """What the verdict is based on; empty if it is untested, as its head says."""
        return f"By 95 % intervals over {plural(self.seeds, 'seed')}." if self.is_tested else ""


def worst(states: Collection[State]) -> State:
    return "fails" if "fails" in states else "unclear" if "unclear" in states else "holds"


def verdicts(results: Results) -> list[Verdict]:
    """The verdicts on the preset's claims that its finished runs can test."""
    found = []
    for claim in claims(results.preset):
        checks = list(claim.checks(results))
        tested, missing = (tuple(c for c in checks if bool(c.margin.n) is is_tested) for is_tested in (True, False))
        found.append(Verdict(claim, tested, missing))
    return [verdict for verdict in found if verdict.checks]


def claims(preset: Preset) -> Sequence[Claim]:
    return _declared(preset.name.replace("-", "_"))


@cache
def _declared(name: str) -> Sequence[Claim]:
    module = f"app.papers.claims.{name}"
    return import_module(module).CLAIMS if name.isidentifier() and find_spec(module) else ()


def above(setting: Setting, measure: Measure, first: str, second: str, *, place: str = "", less: float = 0.0) -> Check:
    """``first`` has the larger value, or one that is at most ``less`` below."""
    a, b = setting.by_seed(measure, first), setting.by_seed(measure, second)
    return check(place, f"{first} {measure.say_mean(a)}, {second} {measure.say_mean(b)}", a - b + less)


def below(setting: Setting, measure: Measure, first: str, second: str, *, place: str = "", times: float = 1.0) -> Check:
    """``first`` has the smaller value, or one at most ``times`` as large."""
    a, b = setting.by_seed(measure, first), setting.by_seed(measure, second)
    return check(place, f"{first} {measure.say_mean(a)}, {second} {measure.say_mean(b)}", times * b - a)


def check(place: str, words: str, margins: pd.Series) -> Check:
    """``margins`` by seed."""
    return Check(f"{place}: {words}" if place else words, t_interval(margins.dropna().to_numpy(float)))
