"""Search spaces: numbers from u, bounds that depend on a run, and what is refused."""

from math import log, sqrt

import numpy as np
import pytest
import yaml
from pydantic import Field

from engine.config.options import Training
from engine.core.registry import Entry, Options, Parameter
from engine.core.spaces import SCALES, Space, names_of


@pytest.mark.parametrize(
    ("space", "u", "expected"),
    [
        ((0.01, 1, "log"), 0.0, 0.01),
        ((0.01, 1, "log"), 0.5, 0.1),
        ((1, 3, "lin"), 0.25, 1.5),
        ((1, 4, "int"), 0.0, 1),
        ((1, 4, "int"), 0.99, 4),
        ((1, 4, "int"), 0.5, 3),
        ((1, 3, "intlog"), 0.49, 1),
        ((1, 3, "intlog"), 0.51, 2),
        ((1, 3, "intlog"), 0.999999, 3),
        ((0.1, 0.2, "log", "four"), 0.5, "log"),
        (("a", "b", "c"), 0.34, "b"),
    ],
)
def test_the_value_at_u(space: tuple, u: float, expected: object) -> None:
    found = Space.of(space).value(u)
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_whole_numbers_on_a_logarithmic_scale_have_equal_shares_of_their_logarithm() -> None:
    values = [Space.of((1, 50, "intlog")).value(u) for u in (np.arange(5100) + 0.5) / 5100]
    shares = [values.count(k) / len(values) for k in (1, 2, 50)]
    assert shares == pytest.approx([log((k + 1) / k) / log(51) for k in (1, 2, 50)], abs=0.001)


def test_a_bound_may_depend_on_the_run() -> None:
    space = Space.of((2, "clients/2", "intlog"))
    assert space.sizes == ("clients",) and space.in_words == "2 to clients/2 (intlog)"
    assert space.resolved({"clients": 20}).ends == (2, 10)
    assert Space.of((0, "layers-1", "int")).resolved({"layers": 4}).ends == (0, 3)
    assert {space.resolved({"clients": 3}).value(u) for u in (0, 0.5, 0.99)} == {2}


@pytest.mark.parametrize("scale", ["log", "intlog"])
@pytest.mark.parametrize("raw", [("clients/4", "clients"), (0, "clients"), ("clients-9", 4)])
def test_a_low_end_that_becomes_0_in_a_run_is_refused_on_a_logarithmic_scale(raw: tuple, scale: str) -> None:
    with pytest.raises(ValueError, match=r"low end is (0|-6) in this run, and must be above 0 .*; use lin or int"):
        Space.of((*raw, scale)).resolved({"clients": 3})


def test_ends_that_become_fractions_are_refused_for_whole_numbers() -> None:
    with pytest.raises(ValueError, match=r"ends 0\.5 and 3 must be whole numbers on the scale int"):
        Space.of((0.5, "clients", "int")).resolved({"clients": 3})


def test_an_unknown_size_is_refused_with_an_example_of_the_same_scale() -> None:
    for scale in SCALES:
        space = Space.of((2, "clients/2", scale))
        with pytest.raises(ValueError, match="number of clients is not known before the run; give") as refusal:
            space.resolved({"rounds": 5})
        example = yaml.safe_load(str(refusal.value).partition("as in ")[2])
        assert Space.of(example).scale == scale


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (3, "or a list of values"),
        ([], "or a list of values"),
        ([1, 0, "log"], "low end 1 must be below its high end 0"),
        ([0, 1, "log"], "above 0 on a logarithmic scale"),
        ([0.5, 2, "int"], "whole numbers"),
        (["users/2", 2, "int"], "'users/2' must be a number, or clients"),
        ([True, 2, "int"], "True must be a number"),
        ([float("nan"), 2, "lin"], "nan must be a number"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(raw: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Space.of(raw)


def test_a_field_with_a_training_default_may_have_a_space_too() -> None:
    class Both(Options):
        lr: float | str = Field("training", json_schema_extra={"training": "lr", "tune": [0.1, 0.4, "log"]})

    (found,) = parameters(Both)
    assert found.tune == Space(0.1, 0.4, "log") and found.meaning == " Search space: 0.1 to 0.4 (log)."
    assert Space.of(found.tune.to_list()) == found.tune
    assert found.tune.value(0.5) == pytest.approx(sqrt(0.04))


def test_the_learning_rate_is_the_first_column() -> None:
    space = Space.of((1, 2, "lin"))
    assert names_of({"lam": space, "K": space, "training.lr": space}) == ["training.lr", "lam", "K"]
    assert [p.name for p in parameters(Training) if p.tune] == ["lr"]


def parameters(options: type[Options]) -> tuple[Parameter, ...]:
    return Entry("x", "", "", options, options).parameters


@pytest.mark.parametrize(
    ("space", "value", "u"),
    [
        ((0.01, 1, "log"), 0.1, 0.5),
        ((1, 3, "lin"), 1.5, 0.25),
        ((1, 4, "int"), 3, 0.625),
        ((1, 3, "intlog"), 2, log(6) / 2 / log(4)),
        (("a", "b", "c"), "b", 0.5),
        ((0.01, 1, "log"), 2.0, None),
        ((0.01, 1, "log"), "auto", None),
        ((1, 4, "int"), True, None),
        (("a", "b", "c"), "d", None),
    ],
)
def test_the_place_of_a_value(space: tuple, value: object, u: float | None) -> None:
    assert Space.of(space).place(value) == (None if u is None else pytest.approx(u))


@pytest.mark.parametrize("space", [(0.01, 1, "log"), (-1, 3, "lin"), (0, 7, "int"), (1, 50, "intlog"), (3, 1, 2)])
def test_the_place_of_a_drawn_value_gives_it_back(space: tuple) -> None:
    found = Space.of(space)
    for value in [*(found.value(u) for u in np.linspace(0, 0.999, 40)), *found.ends]:
        place = found.place(value)
        assert place is not None and 0 <= place < 1 and found.value(place) == pytest.approx(value, rel=1e-12)
