"""One-stage FedProx, figure 1a."""

from collections.abc import Iterator
from itertools import product

from app.papers.claim import Check, Claim, below
from app.papers.results import Results, Setting
from app.papers.words import spread

LOW = 1.5  # times the lowest error; the paper does not say how low
ADAPTIVE = "FedProx adaptive"
SMALL, LARGE = "FedProx lam=0.02", "FedProx lam=0.5"


def sharing_pays_where_alike(results: Results) -> Iterator[Check]:
    error = results.error()
    planned = [config["dataset"]["R"] for config in results.preset.configs(results.scale) if "R" in config["dataset"]]
    sharing, alone = ("GlobalTrain", LARGE), ("LocalTrain", SMALL)
    for lower, higher, R in ((sharing, alone, min(planned)), (alone, sharing, max(planned))):
        for setting in generated(results):
            if setting.config["dataset"]["R"] == R:
                for label, other in product(lower, higher):
                    yield below(setting, error, label, other, place=spread(setting.config))


def adaptive_is_low(results: Results) -> Iterator[Check]:
    error = results.error()
    for setting in generated(results):
        others = [label for label in setting.labels() if label != ADAPTIVE]
        best = setting.best(error, others, is_low=True)
        yield below(setting, error, ADAPTIVE, best, place=spread(setting.config), times=LOW)


def generated(results: Results) -> list[Setting]:
    """The settings on generated data, the least spread first."""
    found = [setting for setting in results.settings if "R" in setting.config["dataset"]]
    return sorted(found, key=lambda setting: float(setting.config["dataset"]["R"]))


CLAIMS = (
    Claim(
        "Where clients are alike, one model for all and a large λ err less; where they differ, training alone and a "
        "small λ do.",
        "section 6.2, figure 1a",
        sharing_pays_where_alike,
        "errors of the exact solution (one model for all and training alone: as trained), at the smallest and the "
        "largest R",
    ),
    Claim(
        "With the adaptive λ, the error stays low however much clients differ.",
        "section 6.2, figure 1a",
        adaptive_is_low,
        f"with λ computed from the true models, the error of the exact solution is at most {LOW:g} times the lowest of "
        "the other methods",
    ),
)
