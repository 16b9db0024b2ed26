"""CGPFL, figures 1 and 2."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above
from app.papers.results import Results
from app.papers.words import data_and_model

RIVALS = ("pFedMe", "Ditto", "Per-FedAvg (HF)")


def ahead(results: Results) -> Iterator[Check]:
    """CGPFL with every K against the best of its rivals."""
    accuracy = results.accuracy()
    for setting in results.settings:
        rival = setting.best(accuracy, [label for label in RIVALS if label in setting.labels()])
        for label in setting.labels("CGPFL"):
            yield above(setting, accuracy, label, rival, place=data_and_model(setting.example))


CLAIMS = (
    Claim(
        "CGPFL reaches a higher accuracy than pFedMe, Ditto and Per-FedAvg, with both models and on both data sets.",
        "section 5.2, figures 1 and 2",
        ahead,
    ),
)
