"""GPFL, "Mitigating overfitting"."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, below
from app.papers.results import Results

OURS = "GPFL"


def loses_least(results: Results) -> Iterator[Check]:
    lost = results.lost()
    for setting in results.settings:
        for label in setting.labels():
            if label != OURS:
                yield below(setting, lost, OURS, label)


CLAIMS = (
    Claim(
        "GPFL's global embeddings keep client models from overfitting.",
        "poster, “Mitigating overfitting”",
        loses_least,
        "after its best round, GPFL loses less test accuracy than any other method",
    ),
)
