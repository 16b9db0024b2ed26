"""Versions, device, data and code of the runs of a report."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pandas as pd

from app.inside.record import made_with
from storage import RunRecord


def origins(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """[What, Value, Runs]: each value, and how many runs have it."""
    known: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for what, value in made_with(run):
            known[what][value] += 1
    rows = [(what, value, count) for what, values in known.items() for value, count in values.most_common()]
    return pd.DataFrame(rows, columns=["What", "Value", "Runs"])
