"""PLGU, figure 7."""

from collections.abc import Iterator

from app.inside.landscape import ON
from app.papers.claim import Check, Claim, check
from app.papers.landscapes import rise
from app.papers.results import Measure, Results, known_values
from app.wording import number

LABEL = "PLGU-LF"


def is_flatter(results: Results) -> Iterator[Check]:
    for setting in results.settings:
        for ground, words in ON.items():
            shared, own = (
                setting.by_seed(_rises(results, f"{model}_{ground}"), LABEL) for model in ("global", "personalized")
            )
            means = f"global model {number(shared.mean())}, the client's model {number(own.mean())}"
            yield check(f"On {words}", means, own - shared)


def _rises(results: Results, surface: str) -> Measure:
    return Measure(known_values({run.id: rise(results.source, run.id, surface) for run in results.runs}), number)


CLAIMS = (
    Claim(
        "The loss is flatter around PLGU-LF's global model than around a personalized one.",
        "section 6.3, figure 7",
        is_flatter,
        "halfway to the edge, the loss has risen less around the global model than around the client's, on the same "
        "samples",
    ),
)
