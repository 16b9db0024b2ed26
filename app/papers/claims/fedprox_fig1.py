"""One-stage FedProx, figure 1: the claims on generated data, and those on MNIST."""

from collections.abc import Iterator

from app.papers.claim import Check, Claim, below, check
from app.papers.claims import fedprox_synthetic
from app.papers.results import Measure, Results, Setting
from app.papers.words import classes

SHARED = "GlobalTrain"


def one_model_is_best(results: Results) -> Iterator[Check]:
    error = results.common_error()
    for setting in on_mnist(results):
        others = [label for label in setting.labels() if label != SHARED]
        best = setting.best(error, others, is_low=True)
        yield below(setting, error, SHARED, best, place=classes(setting.config))


def large_lambda_is_closer(results: Results) -> Iterator[Check]:
    error = results.common_error()
    for setting in on_mnist(results):
        fixed = sorted(setting.labels("FedProx lam="), key=lambda label: float(label.rpartition("=")[2]))
        if len(fixed) > 1:
            yield closer(setting, error, fixed[-1], fixed[0])


def closer(setting: Setting, error: Measure, first: str, second: str) -> Check:
    """``first`` is closer to one model for all than ``second``."""
    shared, a, b = (setting.by_seed(error, label) for label in (SHARED, first, second))
    words = ", ".join(f"{label} {error.say_mean(own)}" for label, own in ((first, a), (second, b), (SHARED, shared)))
    return check(classes(setting.config), words, (b - shared).abs() - (a - shared).abs())


def on_mnist(results: Results) -> list[Setting]:
    return [setting for setting in results.settings if setting.config["dataset"]["name"] == "mnist"]


CLAIMS = (
    *fedprox_synthetic.CLAIMS,
    Claim("On MNIST, one model for all is best.", "section 6.2, figures 1b and 1c", one_model_is_best),
    Claim(
        "On MNIST, a larger λ brings FedProx closer to one model for all.",
        "section 6.2, figures 1b and 1c",
        large_lambda_is_closer,
        "the error of the largest λ differs less from that of one model for all than the error of the smallest λ",
    ),
)
