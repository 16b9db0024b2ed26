"""PLGU, figures 1 and 6."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above, below
from app.papers.results import Results

OTHER = {
    "PLGU-LF": "pFedMe",
    "PLGU-GRep": "FedRep",
    "PLGU-GHN": "pFedHN",
}  # as in figure 1; pFedHN, which it lacks, is ours


def spreads_less(results: Results) -> Iterator[Check]:
    spread = results.accuracy("std")
    for setting in results.settings:
        for label, other in OTHER.items():
            yield below(setting, spread, label, other)


def lifts_the_lowest(results: Results) -> Iterator[Check]:
    lowest = results.accuracy("lowest5")
    for setting in results.settings:
        for label, other in OTHER.items():
            yield above(setting, lowest, label, other)


CLAIMS = (
    Claim(
        "The PLGU methods reduce the spread of accuracy over clients.",
        "section 6.3, figures 1 and 6",
        spreads_less,
        "PLGU-LF, PLGU-GRep and PLGU-GHN have a smaller standard deviation over clients than pFedMe, FedRep and pFedHN",
    ),
    Claim(
        "The PLGU methods leave fewer poor clients.",
        "section 6.3, figures 1 and 6",
        lifts_the_lowest,
        "with PLGU-LF, PLGU-GRep and PLGU-GHN, the lowest 5 % of clients are more accurate than with pFedMe, FedRep "
        "and pFedHN",
    ),
)
