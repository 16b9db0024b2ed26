"""Sweeps: the values that a parameter offers, and which methods share one."""

import pytest

from app.forms import is_number, parameters_of, read_value
from app.setup.offered import first_values, offered, text_of
from app.setup.sweeps import merge_sweeps, shared
from engine.core.registry import ALGORITHMS, Parameter
from storage import Store
from tests.app.samples import DIGITS
from tests.app.test_setup import expand, messages, opened, queue_button, written


def parameter(method: str, name: str) -> Parameter:
    return next(p for p in ALGORITHMS.get(method).parameters if p.name == name)


def test_a_wide_range_is_offered_in_logarithmic_steps():
    values = offered(parameter("ditto", "lam"), 1.0)
    assert values[:4] == [0, 0.001, 0.002, 0.005] and values[-2:] == [2000.0, 5000.0]
    assert first_values(parameter("ditto", "lam"), 1.0) == [0.5, 1, 2]


def test_a_small_range_is_offered_in_equal_steps_without_excluded_bounds():
    assert offered(parameter("apfl", "alpha"), 0.5) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]
    assert offered(parameter("l2gd", "p"), 0.2)[-1] == 0.9


def test_whole_numbers_are_offered_one_by_one_while_they_are_small():
    values = offered(parameter("ifca", "K"), 4)
    assert values[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50] and all(isinstance(value, int) for value in values)
    assert first_values(parameter("ifca", "K"), 4) == [3, 4, 5]


def test_a_sweep_of_a_choice_has_all_of_its_values():
    assert first_values(parameter("fedproto", "predict"), "head") == ["head", "prototype"]
    assert first_values(parameter("apfl", "adaptive"), True) == [False, True]


def test_a_word_is_offered_and_its_meaning_is_the_middle():
    assert offered(parameter("ditto", "personal_lr"), "training", 0.05)[0] == "training"
    assert first_values(parameter("ditto", "personal_lr"), "training", 0.05) == [0.02, 0.05, 0.1]
    assert first_values(parameter("cgpfl", "beta"), "auto") == []


@pytest.mark.parametrize("method", ALGORITHMS.names())
def test_all_offered_numbers_are_valid(method: str):
    options = ALGORITHMS.get(method).options
    for one in parameters_of(options):
        for value in filter(is_number, offered(one, one.default, 1)):
            assert getattr(options.model_validate({one.name: value}), one.name) == value


@pytest.mark.parametrize("value", [0.1, 1.0, 5e-07, 0.123456789, 3, True, None, "training"])
def test_a_value_is_read_as_it_was_written(value):
    assert read_value(text_of(value)) == value


LR = {"training.lr": [0.1, 0.2]}


def of(entries: list[dict]) -> dict:
    return {"algorithms": entries}


def test_methods_share_a_sweep_of_training_that_all_have():
    assert shared(of([{"sweep": LR}, {"sweep": LR | {"lam": [1]}}])) == LR
    assert shared(of([{"sweep": LR}, {}])) == {}
    assert shared(of([{"sweep": LR}, {"sweep": {"training.lr": [0.1]}}])) == {}
    assert shared(of([{"sweep": LR}, {"training": {"lr": 1}}])) == LR
    assert shared(of([{"training": {"lr": 1}, "sweep": LR}])) == {}
    assert shared(of([{"sweep": {"lam": [1]}}])) == {}
    assert shared(of([])) == {}


def test_sweeps_keep_their_order():
    entry = {"name": "ditto", "sweep": {"lam": [1]}}
    assert list(merge_sweeps(entry, LR, ["training.lr", "lam"])["sweep"]) == ["training.lr", "lam"]
    assert list(merge_sweeps(entry, LR, [])["sweep"]) == ["lam", "training.lr"]
    assert "sweep" not in merge_sweeps({"name": "ditto", "training": {"lr": 1}}, LR, [])


def test_a_method_keeps_its_own_sweep_of_an_option_that_the_others_share(empty_store: Store):
    own = {"name": "ditto", "training": {"lr": 0.3}, "sweep": {"training.lr": [0.3, 0.6]}}
    page = opened(DIGITS | {"algorithms": [{"name": "fedavg", "sweep": LR}, own]})
    assert [entry["sweep"] for entry in written(page)["algorithms"]] == [LR, own["sweep"]]
    assert "Queue 8 runs" in {button.label for button in page.button}


def test_a_sweep_of_steps_ends_when_epochs_are_chosen(empty_store: Store):
    steps = {"training.local_steps": [5, 10]}
    page = expand(opened(DIGITS | {"algorithms": [{"name": "fedavg", "sweep": steps}]}))
    assert written(page)["algorithms"][0]["sweep"] == steps
    page.segmented_control(key="setup_form.training.work").set_value("local_epochs").run()
    assert "sweep" not in written(page)["algorithms"][0] and "local_epochs" in written(page)["training"]


def test_a_sweep_of_no_parameter_is_shown_and_can_be_ended(empty_store: Store):
    page = opened(DIGITS | {"algorithms": [{"name": "ditto", "sweep": {"lamda": [1, 2]}}]})
    assert queue_button(page).disabled and any("unknown key" in message for message in messages(page))
    page.button(key="setup_form.m1.ditto.end_sweep.lamda").click().run()
    assert not queue_button(page).disabled and "sweep" not in written(page)["algorithms"][0]


@pytest.mark.parametrize(
    ("given", "shown"),
    [([0.5, 2], [0.5, 2]), (5, [5]), ([], []), ([[1]], [1]), ([0.1] * 3, [0.1] * 3), ([*range(41)], [*range(41)])],
    ids=["chips", "a number", "none", "a list", "equal ones", "many"],
)
def test_any_list_of_values_in_a_link_is_shown(given: object, shown: list[object], empty_store: Store):
    broken = {"training": {"rounds": 0}}  # so that no method is timed
    page = opened(DIGITS | broken | {"algorithms": [{"name": "ditto", "sweep": {"lam": given}}]})
    assert written(page)["algorithms"][0]["sweep"]["lam"] == shown
