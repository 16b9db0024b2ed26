"""GPFL, "Mitigating overfitting"."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, below
from app.papers.results import Results

OURS, SHARED = "GPFL", "FedAvg"  # which has no client models
SMOOTH = 3  # evaluated rounds


def loses_least(results: Results) -> Iterator[Check]:
    lost = results.lost(SMOOTH)
    for setting in results.settings:
        for label in setting.labels():
            if label not in (OURS, SHARED):
                yield below(setting, lost, OURS, label)


CLAIMS = (
    Claim(
        "GPFL's global embeddings mitigate the overfitting of client models.",
        "poster, “Mitigating overfitting”",
        loses_least,
        f"from the best {SMOOTH} evaluated rounds in a row to the last {SMOOTH}, GPFL loses less test accuracy than "
        "every other method with client models",
    ),
)
