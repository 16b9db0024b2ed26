"""CGPFL, figure 3."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above
from app.papers.results import Results
from app.papers.words import data_and_model

NEAR = 0.01  # a point; the paper does not say how near
HEURISTIC = "CGPFL-Heur mu=1000"  # the paper tunes mu, and so did we


def near_the_best(results: Results) -> Iterator[Check]:
    accuracy = results.accuracy()
    for setting in results.settings:
        if tried := setting.labels("CGPFL K"):
            best = setting.best(accuracy, tried)
            yield above(setting, accuracy, HEURISTIC, best, place=data_and_model(setting.config), less=NEAR)


def above_pfedme(results: Results) -> Iterator[Check]:
    accuracy = results.accuracy()
    for setting in results.settings:
        if tried := setting.labels("CGPFL K"):
            for label in (setting.best(accuracy, tried), HEURISTIC):
                yield above(setting, accuracy, label, "pFedMe", place=data_and_model(setting.config))


CLAIMS = (
    Claim(
        "CGPFL-Heur finds a number of contexts that is nearly as accurate as the best one.",
        "section 5.3, figure 3a",
        near_the_best,
        "at most 1 point below the best K",
    ),
    Claim(
        "CGPFL with the best number of contexts, and CGPFL-Heur, are more accurate than pFedMe.",
        "section 5.3, figure 3b",
        above_pfedme,
    ),
)
