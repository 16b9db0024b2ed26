"""Tuning in Set up: an experiment becomes a study and a plain experiment again, with what is tuned of each method."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.forms import listed, read_value
from app.setup.tuning import Tuned
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.core.registry import ALGORITHMS
from storage import Store
from tests.app.pages import words
from tests.app.samples import DIGITS
from tests.app.test_setup import expand, expanders, messages, opened, queue_button, written
from tests.app.test_setup_dials import captions

SMALL = DIGITS | {"algorithms": [{"name": "fedavg"}, {"name": "ditto"}]}
STUDY = SMALL | {
    "partition": DIGITS["partition"] | {"val_fraction": 0.2},
    "splits": [0],
    "tune": {"trials": 4},
}
LR = "learning rate, 0.001 to 0.5 (log)"


def switch(page: AppTest, on: bool = True) -> AppTest:
    page.toggle(key="setup_form.tune.on").set_value(on).run()
    assert not page.exception
    return page


def spaces(config: dict[str, Any]) -> dict[str, list[str]]:
    study = Study(parse_experiment(config))
    return {entry: list(study.spaces(entry)) for entry in study.entries}


@pytest.mark.slow
def test_an_experiment_becomes_a_study_and_again_what_it_was(empty_store: Store):
    page = opened(SMALL)
    before = written(page)
    for _ in ("collapsed", "drawn"):
        study = written(switch(page))
        assert study["tune"] == {"trials": 16} and study["splits"] == [0, 1, 2]
        assert study["partition"] == before["partition"] | {"val_fraction": 0.2}
        assert spaces(study) == {"fedavg": ["training.lr"], "ditto": ["training.lr", "lam"]}
        assert "96 trials on validation data, then at most 24 final runs." in words(page)
        assert queue_button(page).label == "Queue study" and not queue_button(page).disabled
        assert written(switch(page, on=False)) == before
        expand(page)


@pytest.mark.slow
def test_splits_and_validation_data_of_ones_own_stay(empty_store: Store):
    partition = DIGITS["partition"] | {"val_fraction": 0.1}
    page = switch(opened(SMALL | {"partition": partition, "splits": [7]}))
    assert written(page)["splits"] == [7] and written(page)["partition"]["val_fraction"] == 0.1
    switch(page, on=False)
    assert written(page)["splits"] == [7] and written(page)["partition"]["val_fraction"] == 0.1
    page.text_input(key="setup_form.splits").set_value("").run()
    assert written(switch(page))["splits"] == [0, 1, 2]
    page.text_input(key="setup_form.splits").set_value("4, 5").run()
    assert written(switch(page, on=False))["splits"] == [4, 5], "what a study added stays after it was changed"


def test_each_method_says_what_is_tuned(empty_store: Store):
    own = {"name": "fedprox", "tune": {"training.lr": [0.01, 0.1, "log"], "training.momentum": [0, 0.9]}}
    methods = [
        {"name": "fedavg"},
        {"name": "ditto", "lam": 0.3},
        own,
        {"name": "fedper", "tune": {}},
        {"name": "apfl", "training": {"lr": 0.1}, "sweep": {"alpha": [0.1, 0.5]}},
    ]
    text = captions(opened(STUDY | {"algorithms": methods}))
    assert [line for line in text if line.startswith(("Tuned:", "Nothing is tuned"))] == [
        f"Tuned: {LR}.",
        f"Tuned: {LR}. Not tuned: λ 0.3.",
        "Tuned: learning rate, 0.01 to 0.1 (log); μ, 0.001 to 1 (log); momentum, 0 or 0.9.",
        "Nothing is tuned: all trials of this method are equal.",
        "Nothing is tuned: all trials of this method are equal.",
    ]


def test_what_a_page_calls_tuned_is_what_the_engine_tunes():
    for entry in [*({"name": name} for name in ALGORITHMS.names()), {"name": "fl_hc", "distance_threshold": 2}]:
        name = entry["name"]
        study = Study(parse_experiment(STUDY | {"algorithms": [entry]}))
        tuned = Tuned(ALGORITHMS.get(name).options, entry)
        lines = [f"{tuned.name(option)}, " for option in study.spaces(name)]
        found = tuned.in_words
        assert found.count(";") == len(lines) - 1 and all(line in found for line in lines) and not tuned.fixed, entry
        assert {option: read_value(listed(space)) for option, space in tuned.written.items()} == tuned.declared, entry


@pytest.mark.slow
def test_an_option_that_is_not_tuned_keeps_its_value_even_if_it_is_the_default(empty_store: Store):
    page = expand(opened(STUDY), "m2")
    assert not [field for field in page.number_input if (field.key or "").endswith("ditto.lam")]
    page.multiselect(key="setup_form.m2.ditto.fixed").set_value(["lam"]).run()
    config = written(page)
    default = next(p.default for p in ALGORITHMS.get("ditto").parameters if p.name == "lam")
    assert config["algorithms"][1]["lam"] == default and spaces(config)["ditto"] == ["training.lr"]
    page.number_input(key="setup_form.m2.ditto.lam").set_value(0.3).run()
    assert written(page)["algorithms"][1]["lam"] == 0.3 and f"Tuned: {LR}. Not tuned: λ 0.3." in captions(page)
    page.multiselect(key="setup_form.m2.ditto.fixed").set_value([]).run()
    assert spaces(written(page))["ditto"] == ["training.lr", "lam"]


def test_an_option_that_is_swept_is_not_tuned_until_it_leaves_the_list(empty_store: Store):
    page = opened(STUDY | {"algorithms": [{"name": "ditto", "sweep": {"lam": [0.1, 1.0]}}]})
    assert spaces(written(page)) == {"ditto lam=0.1": ["training.lr"], "ditto lam=1": ["training.lr"]}
    expand(page, "m1")
    assert page.multiselect(key="setup_form.m1.ditto.fixed").value == ["lam"]
    page.multiselect(key="setup_form.m1.ditto.fixed").set_value([]).run()
    assert spaces(written(page)) == {"ditto": ["training.lr", "lam"]}


def test_a_budget_in_gradients_replaces_the_number_of_trials(empty_store: Store):
    page = opened(STUDY)
    page.number_input(key="setup_form.tune.gradients").set_value(1e6).run()
    assert written(page)["tune"] == {"gradients": 1e6} and not queue_button(page).disabled
    assert "Not used, since the budget is in gradients." in captions(page)
    page.number_input(key="setup_form.tune.gradients").set_value(None).run()
    assert written(page)["tune"] == {"trials": 4}


def test_rarely_changed_options_of_a_study_are_kept_while_hidden_and_named(empty_store: Store):
    tune = {"trials": 4, "rounds": 3, "seeds": [1000, 1001], "model": "global", "per": "first", "select": "lowest10"}
    config = STUDY | {"algorithms": [{"name": "fedavg"}], "tune": tune}
    page = opened(config)
    assert written(page)["tune"] == tune
    assert "More · rounds of a trial 3, seeds of the trials 1000, 1001, selected model global and 1 more" in expanders(
        page
    )
    assert written(expand(page, "tune"))["tune"] == tune


def test_a_mistake_is_shown_at_its_field(empty_store: Store):
    page = opened(STUDY | {"tune": {"trials": 0}})
    assert messages(page) == ["Must be at least 1", "Fix first: Trials."]
    assert queue_button(page).disabled
    page = opened(STUDY | {"tune": {"trials": 4, "seeds": [0], "rounds": 9}})
    assert page.session_state["expander.setup_form.tune"], "the section with a mistake is open"
    shown = " ".join(messages(page))
    assert "trials and final runs would share a seed" in shown and "must be at most the 5 rounds of fedavg" in shown


@pytest.mark.parametrize("tune", ["yes", {"trials": "many", "select": ["x"], "nothing": 1}])
def test_a_link_with_anything_as_tune_opens(tune: Any, empty_store: Store):
    page = opened(STUDY | {"tune": tune})
    assert page.toggle(key="setup_form.tune.on").value
    written(page)
    switch(page, on=False)


def test_search_spaces_that_cannot_be_read_are_reported(empty_store: Store):
    page = opened(STUDY | {"algorithms": [{"name": "ditto", "tune": {"lam": [10, 1, "log"], "mu": 5}}]})
    assert queue_button(page).disabled and "its low end 10 must be below its high end 1" in words(page).replace(
        "\\", ""
    )


@pytest.mark.slow
def test_the_search_range_of_an_option_can_be_changed_and_put_back(empty_store: Store):
    page = expand(opened(STUDY), "m2")
    field = "setup_form.m2.ditto.range.lam"
    assert page.text_input(key=field).value == "0.01, 10, log" and page.text_input(key=field).label == "Range of λ"
    page.text_input(key=field).set_value("0.1, 1, lin").run()
    assert written(page)["algorithms"][1]["tune"] == {"lam": [0.1, 1, "lin"]}
    assert f"Tuned: {LR}; λ, 0.1 to 1 (lin)." in captions(page)
    page.text_input(key=field).set_value("1, 0.1, lin").run()
    assert queue_button(page).disabled and "its low end 1 must be below its high end 0.1" in messages(page)[0]
    page.text_input(key=field).set_value("").run()
    assert "tune" not in written(page)["algorithms"][1] and not queue_button(page).disabled


def test_an_option_that_is_not_tuned_loses_its_own_search_range(empty_store: Store):
    methods = [{"name": "ditto", "tune": {"lam": [0.1, 1, "log"], "training.momentum": [0, 0.9]}}]
    page = expand(opened(STUDY | {"algorithms": methods}), "m1")
    assert page.text_input(key="setup_form.m1.ditto.range.training.momentum").label == "Range of momentum"
    page.multiselect(key="setup_form.m1.ditto.fixed").set_value(["lam"]).run()
    assert written(page)["algorithms"][0]["tune"] == {"training.momentum": [0, 0.9]}
    assert not [one for one in page.text_input if (one.key or "").endswith("range.lam")]
    assert spaces(written(page))["ditto"] == ["training.lr", "training.momentum"]


def test_names_of_search_spaces_from_a_stranger_are_text_and_few(empty_store: Store):
    foreign = {5: [1, 2], "[a](http://evil)" + "x" * 100: [1, 2]}
    page = expand(opened(STUDY | {"algorithms": [{"name": "ditto", "tune": foreign}]}), "m1")
    labels = [field.label for field in page.text_input if field.label.startswith("Range of")]
    assert "Range of 5" in labels and labels[-1].startswith(r"Range of \[a\](http\:") and len(labels[-1]) < 80
    assert queue_button(page).disabled
    many = {f"option{i}": [1, 2] for i in range(1000)}
    page = opened(STUDY | {"algorithms": [{"name": "ditto", "tune": many}]})
    assert "tune" not in written(page)["algorithms"][0] and "1,000 options are too many" in words(page)


def test_own_search_spaces_leave_with_the_study(empty_store: Store):
    methods = [{"name": "ditto", "tune": {"lam": [0.1, 1, "log"]}}]
    page = opened(STUDY | {"algorithms": methods})
    assert written(page)["algorithms"][0]["tune"] == methods[0]["tune"]
    plain = written(switch(page, on=False))
    assert "tune" not in plain["algorithms"][0] and "tune" not in plain
    parse_experiment(plain)


@pytest.mark.slow
def test_a_study_is_queued_from_the_form(empty_store: Store):
    page = switch(opened(SMALL | {"seeds": [0]}))
    page.number_input(key="setup_form.tune.trials").set_value(2).run()
    queue_button(page).click().run()
    assert not page.exception
    (experiment,) = empty_store.experiments.list()
    assert experiment.config["tune"] == {"trials": 2} and experiment.num_runs == 2 * 3 * 2
