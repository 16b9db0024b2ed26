"""Clients that never train, in Set up and Compare."""

import math
from typing import Any

import pytest

from app.charts import dumbbell
from app.compare.newcomers import finding
from app.data.comparison import per_run, ranking
from app.setup.measure import finding as measured
from storage import Store
from tests.app import test_compare_page as compare
from tests.app import test_setup as setup
from tests.app.frames import clients
from tests.app.samples import DIGITS, store_experiment

HELD_OUT: dict[str, Any] = DIGITS | {
    "name": "newcomers",
    "partition": DIGITS["partition"] | {"holdout_clients": 0.3},
    "training": {"rounds": 2, "local_steps": 3},
    "algorithms": [{"name": "fedavg"}, {"name": "local_train"}],
    "seeds": [0],
}


@pytest.fixture
def with_newcomers(empty_store: Store) -> Store:
    store_experiment(empty_store, HELD_OUT)
    return empty_store


def test_set_up_shows_the_number_of_newcomers(empty_store: Store):
    page = setup.opened(HELD_OUT)
    assert "Not shown: 3 held-out clients, evaluated after the last round." in compare.words(page)
    assert setup.written(page)["partition"]["holdout_clients"] == 0.3
    assert not setup.messages(page)


def test_a_feature_shift_can_be_set_up(empty_store: Store):
    page = setup.opened(DIGITS | {"partition": {"name": "feature_shift", "num_clients": 8, "kind": "noise"}})
    assert not setup.messages(page) and not setup.queue_button(page).disabled
    assert setup.written(page)["partition"]["kind"] == "noise"
    strength = next(dial for dial in page.select_slider if dial.label == "Strength")
    assert max(map(float, strength.options)) == 1  # the control offers only valid values


@pytest.mark.slow
def test_r_hat_is_computed_on_request(empty_store: Store):
    page = setup.opened(DIGITS)
    assert "R̂ =" not in compare.words(page)
    page.button(key="measure").click().run()
    assert not page.exception
    assert "R̂ = " in compare.words(page)


def test_a_non_finite_r_hat_is_explained():
    assert "is not available" in measured(math.nan)
    assert "R̂ = 0.125:" in measured(0.125)


@pytest.mark.slow
def test_newcomers_are_compared_if_clients_were_held_out(with_newcomers: Store):
    page = compare.opened(experiment="1", section="clients")
    assert "Newcomers: clients that never trained" in compare.words(page)
    summaries = {run.algorithm: run.summary["unseen"]["mean"] for run in with_newcomers.queue.runs()}
    best = max(summaries, key=summaries.__getitem__)
    assert best == "local_train"
    text = compare.words(page)
    assert "3 clients were held out; their mean is highest under LocalTrain: " in text
    assert "too few to distinguish methods" in text


@pytest.mark.slow
def test_without_newcomers_the_page_does_not_mention_them(read_store: Store):
    assert "never trained" not in compare.words(compare.opened(experiment="1", section="clients"))


def test_the_finding_names_the_best_method_for_newcomers_and_others():
    unseen, trained = clients(a=[[0.5, 0.7]] * 3, b=[[0.9, 0.7]] * 3), clients(a=[[0.9]], b=[[0.95]])
    rows, by_mean = dumbbell.data(unseen, 0.05, other=trained), ranking(per_run(unseen, 0.05), "mean")
    assert finding(rows, by_mean) == (
        "2 clients were held out; b is best for them: 80 %, against 95 % for clients that trained."
    )
    once = unseen[unseen["seed"] == 0]
    text = finding(dumbbell.data(once, 0.05), ranking(per_run(once, 0.05), "mean"))
    assert text == (
        "2 clients were held out; their mean is highest under b: 80 %; 1 seed is too few to distinguish methods."
    )


def test_training_clients_are_drawn_as_rings():
    unseen, trained = clients(a=[[0.1, 0.2]], b=[[0.1, 0.3]]), clients(a=[[0.9]], b=[[0.95]])
    left, right = dumbbell.figure(dumbbell.data(unseen, 0.05, other=trained), 0.05, "other").layout.xaxis.range
    assert left < 10 and right > 95
