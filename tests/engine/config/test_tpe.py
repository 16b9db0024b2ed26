"""TPE's points are a function of the ended trials, and beat random ones where there is something to learn."""

import sys
from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np
import pytest

from engine.config import tpe
from engine.config.sampler import point
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.core.errors import InvalidConfig
from tests.engine.config.test_study import STUDY

BEST = np.array([0.3, 0.7])


@pytest.fixture
def optuna() -> Any:
    return pytest.importorskip("optuna")


def quadratic(u: Any) -> float:
    return -float(((np.array(u) - BEST) ** 2).sum())


def ended(split: int = 0) -> list[tuple[tpe.Point, float]]:
    points = [tuple(map(float, point("tpe", split, trial, 2))) for trial in range(1, 12)]
    return [(u, quadratic(u)) for u in points]


def test_the_same_results_give_the_same_point_and_other_places_or_results_another(optuna: Any) -> None:
    first = tpe.next_point(ended(), 2, 4, "ditto", 11)
    assert len(first) == 2 and all(type(u) is float and 0 <= u < 1 for u in first)
    assert tpe.next_point(ended(), 2, 4, "ditto", 11) == first
    places = [(5, "ditto", 11), (4, "fedavg", 11), (4, "ditto", 12)]
    assert len({first, *(tpe.next_point(ended(), 2, *place) for place in places)}) == 4
    opposite = [(u, -value) for u, value in ended()]
    assert tpe.next_point(opposite, 2, 4, "ditto", 11) != first


def test_a_study_tells_its_results_in_the_order_of_the_trials(optuna: Any) -> None:
    s = Study(parse_experiment(STUDY | {"tune": {"sampler": "tpe", "trials": 12}}))
    values = {k: float(k) for k in range(11)}
    points = {10: (0.25, 0.5)}
    found = s.next_point("ditto", 4, values, points)
    assert s.next_point("ditto", 4, dict(reversed(values.items())), points) == found is not None
    assert s.next_point("ditto", 4, values, {10: (0.75, 0.5)}) != found
    assert s.next_point("ditto", 4, values | {0: 99.0}, points) != found, "the defaults count, too"


def test_the_best_of_32_trials_beats_that_of_random_trials_where_there_is_something_to_learn(optuna: Any) -> None:
    found, random = [], []
    for split in range(4):
        earlier = ended(split)[: tpe.STARTUP - 1]
        while len(earlier) < 31:  # the defaults are the 32nd
            u = tpe.next_point(earlier, 2, split, "toy", len(earlier) + 1)
            earlier.append((u, quadratic(u)))
        found.append(max(value for _, value in earlier))
        random.append(max(quadratic(point("random", split, trial, 2)) for trial in range(1, 32)))
    assert np.mean(found) > np.mean(random) / 2


def test_trials_that_failed_are_avoided_and_not_forgotten(optuna: Any) -> None:
    right = [((0.75 + 0.02 * k,), float(k)) for k in range(5)]
    wrong = [((0.05 + 0.1 * k,), -inf) for k in range(6)]
    drawn = [tpe.next_point(right + wrong, 1, k)[0] for k in range(40)]
    assert np.mean([u > 0.6 for u in drawn]) > 0.9
    assert 0 <= tpe.next_point(wrong, 1, 0)[0] < 1


def test_optuna_does_not_log_a_study_for_each_point(optuna: Any, capfd: pytest.CaptureFixture[str]) -> None:
    tpe.next_point(ended(), 2, 0)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def without_optuna(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "optuna", None)
    tpe.optuna.cache_clear()
    yield
    tpe.optuna.cache_clear()


def test_without_optuna_a_study_is_read_and_only_a_draw_needs_it(without_optuna: None) -> None:
    s = Study(parse_experiment(STUDY | {"tune": {"sampler": "tpe", "trials": 12}}))
    assert not tpe.is_installed() and len(s.trials("ditto", 4, 11, (0.5, 0.5))) == 1
    assert s.next_point("ditto", 4, dict.fromkeys(range(9), 0.0), {}) is None
    with pytest.raises(InvalidConfig, match=r"tpe needs Optuna.* -r requirements-tpe\.txt, or use sobol"):
        s.next_point("ditto", 4, dict.fromkeys(range(10), 0.0), {})
