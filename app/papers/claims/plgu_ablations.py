"""PLGU, figure 5; Tables 3, 4, 10 and 11 print numbers."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, above
from app.papers.results import Results

BEST = "PLGU-LF D=5"


def five_layers_are_best(results: Results) -> Iterator[Check]:
    for model in ("personalized", "global"):
        mean = results.accuracy("mean", model)
        for setting in results.settings:
            for label in setting.labels("PLGU-LF D="):
                if label != BEST:
                    yield above(setting, mean, BEST, label, place=f"{model} model")


CLAIMS = (
    Claim(
        "PLGU-LF is best with D = 5 personal layers, for the personalized and the global model.",
        "section 6.3, figure 5",
        five_layers_are_best,
    ),
)
