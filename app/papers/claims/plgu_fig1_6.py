"""PLGU, figures 1 and 6."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above, below
from app.papers.results import Results

EXTENDS = {"PLGU-LF": "FedAvg", "PLGU-GRep": "FedRep", "PLGU-GHN": "pFedHN"}


def spreads_less(results: Results) -> Iterator[Check]:
    spread = results.accuracy("std")
    for setting in results.settings:
        for label, other in EXTENDS.items():
            yield below(setting, spread, label, other)


def lifts_the_lowest(results: Results) -> Iterator[Check]:
    lowest = results.accuracy("lowest5")
    for setting in results.settings:
        for label, other in EXTENDS.items():
            yield above(setting, lowest, label, other)


CLAIMS = (
    Claim(
        "The PLGU methods reduce the spread of accuracy over clients.",
        "section 6.3, figures 1 and 6",
        spreads_less,
        "each has a smaller standard deviation over clients than the method it extends",
    ),
    Claim(
        "The PLGU methods leave fewer poor clients.",
        "section 6.3, figures 1 and 6",
        lifts_the_lowest,
        "with each, the lowest 5 % of clients are more accurate than with the method it extends",
    ),
)
