"""Optuna's TPE: later trials are drawn where earlier ones had good values (Bergstra et al., NeurIPS 2011).

The first ``STARTUP`` trials are Sobol points. A later point is a function of the ended trials, its place in the study
and the version of Optuna, and is stored with its run before that starts.
"""

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from math import nextafter
from typing import Any

from engine.core.errors import InvalidConfig

STARTUP = 10  # as in Optuna; the defaults are one of them
MISSING = (
    "tune.sampler: tpe needs Optuna, which is not installed; run .venv/bin/pip install -r requirements-tpe.txt, or "
    "use sobol"
)

NOTE = f"from trial {STARTUP} on, each method's settings depend on its own results, so methods share no learning rates"

Point = tuple[float, ...]  # in [0, 1), a number for each space


def is_installed() -> bool:
    return importlib.util.find_spec("optuna") is not None


@lru_cache(maxsize=1)
def optuna() -> Any:
    """The module, without its log of every study. Raises InvalidConfig if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise InvalidConfig([MISSING]) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def next_point(ended: Sequence[tuple[Point, float]], dimensions: int, *place: object) -> Point:
    """The point that TPE draws after trials with these points and values; larger is better, -inf if one failed.

    ``place`` identifies the trial in its study. Raises InvalidConfig if Optuna is not installed.
    """
    from engine.core.streams import key  # imports torch

    lib, names = optuna(), [f"u{column:02}" for column in range(dimensions)]
    spaces = {name: lib.distributions.FloatDistribution(0.0, 1.0) for name in names}
    sampler = lib.samplers.TPESampler(seed=key(0, "tune", *place) % 2**32, n_startup_trials=0)
    study = lib.create_study(sampler=sampler, direction="maximize")
    for point, value in ended:
        params = dict(zip(names, point, strict=True))
        study.add_trial(lib.trial.create_trial(params=params, distributions=spaces, value=value))
    drawn = study.ask(spaces).params
    return tuple(min(float(drawn[name]), nextafter(1.0, 0.0)) for name in names)
