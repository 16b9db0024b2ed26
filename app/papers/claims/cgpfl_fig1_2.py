"""CGPFL, figures 1 and 2."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above
from app.papers.results import Measure, Results
from app.papers.words import data_and_model

RIVALS = ("pFedMe", "Ditto", "Per-FedAvg (HF)")
EARLY = 0.2  # of the rounds


def ahead(results: Results) -> Iterator[Check]:
    return against_the_best(results, results.accuracy())


def early_ahead(results: Results) -> Iterator[Check]:
    return against_the_best(results, results.accuracy_at(EARLY))


def against_the_best(results: Results, accuracy: Measure) -> Iterator[Check]:
    """CGPFL with every K against the best of its rivals."""
    for setting in results.settings:
        rival = setting.best(accuracy, [label for label in RIVALS if label in setting.labels()])
        for label in setting.labels("CGPFL"):
            yield above(setting, accuracy, label, rival, place=data_and_model(setting.config))


CLAIMS = (
    Claim(
        "CGPFL reaches a higher accuracy than pFedMe, Ditto and Per-FedAvg, with both models and on both data sets.",
        "section 5.2, figures 1 and 2",
        ahead,
    ),
    Claim(
        "CGPFL converges faster than pFedMe, Ditto and Per-FedAvg.",
        "section 5.2, figures 1 and 2",
        early_ahead,
        "after a fifth of the rounds, CGPFL is more accurate than the best of them",
    ),
)
