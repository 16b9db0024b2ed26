"""CGPFL, figures 4 and 5."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, check
from app.papers.results import Results
from app.wording import plural

LATE = 0.5  # the second half of the rounds


def settles(results: Results) -> Iterator[Check]:
    moves = results.moves(LATE)
    for setting in results.settings:
        for label in setting.labels():
            own = setting.by_seed(moves, label)
            yield check(label, plural(round(own.mean()), "move") if len(own) else "", 0.5 - own)


CLAIMS = (
    Claim(
        "Which clients share a context stops changing as training proceeds.",
        "appendix C.1 of the longer version, figure 4",
        settles,
        "no client moves in the second half of the rounds",
    ),
)
