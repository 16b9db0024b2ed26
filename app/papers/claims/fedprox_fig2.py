"""One-stage FedProx, figure 2."""

from collections.abc import Iterator

import numpy as np

from app.papers.claim import Check, Claim, check
from app.papers.results import Results
from app.wording import number

EARLY = 0.1  # of the rounds
SMALL, LARGE = "0.02", "0.5"
FEW, MANY = "1", "30"


def local_updates_help_small_lambda_more(results: Results) -> Iterator[Check]:
    """The factor by which more local updates cut the error early, for a small and for a large λ."""
    error = results.error_at(EARLY)
    for setting in results.settings:
        cut = {}
        for lam in (SMALL, LARGE):
            few, many = (setting.by_seed(error, f"FedProx lam={lam} local_steps={steps}") for steps in (FEW, MANY))
            cut[lam] = np.log(few / many)
        words = (f"divided by {number(float(np.exp(own.mean())))} with λ = {lam}" for lam, own in cut.items())
        yield check(f"error after {100 * EARLY:g} % of the rounds", ", ".join(words), cut[SMALL] - cut[LARGE])


def small_lambda_converges_faster(results: Results) -> Iterator[Check]:
    """With the local updates of our figure 1: the early error as a multiple of the last."""
    early, last = results.error_at(EARLY), results.error_at(1.0)
    for setting in results.settings:
        excess = {}
        for lam in (SMALL, LARGE):
            label = f"FedProx lam={lam} local_steps={MANY}"
            excess[lam] = setting.by_seed(early, label) / setting.by_seed(last, label)
        words = ", ".join(f"{number(own.mean())} times the last error with λ = {lam}" for lam, own in excess.items())
        yield check("", words, excess[LARGE] - excess[SMALL])


CLAIMS = (
    Claim(
        "A larger λ needs more communication to converge.",
        "section 6.3, figures 1d and 2",
        small_lambda_converges_faster,
        f"with {MANY} local updates, the error after a tenth of the rounds is a larger multiple of the last error with "
        "the large λ than with the small one",
    ),
    Claim(
        "More local updates speed up convergence more with a small λ than with a large one.",
        "section 6.3, figure 2",
        local_updates_help_small_lambda_more,
        "after a tenth of the rounds, 30 local updates instead of 1 cut the error by a larger factor with the small λ",
    ),
)
