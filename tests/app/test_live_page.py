"""The Live page without its routes: states, choices, buttons; browser tests cover the drawing."""

import re
from functools import partial

import pytest

from app.live import choice, requests
from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Status, StorageError, Store
from tests.app.frames import run_record
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment
from tests.support.signing_in import MEMBER, as_person, people_sign_in

opened = partial(open_page, "live")


def queue_two(store: Store) -> None:
    """FedAvg on two seeds: runs 1 and 2 of an empty database, 9 and 10 of the filled one."""
    raw = {**DIGITS, "name": "waiting", "algorithms": [{"name": "fedavg"}]}
    store.experiments.create("waiting", raw, [new_run(run) for run in parse_experiment(raw).runs()])


def finish(store: Store, status: Status, error: str) -> None:
    run = store.queue.claim()
    assert run is not None
    store.events.add(run.id, "error", "run", "client 3 has no finite loss")
    store.queue.finish(run.id, run.epoch, status, error=error)


def shown_of(methods: int, seeds: int) -> tuple[list[tuple[str, int]], str]:
    """The labels and seeds of the shown runs, and what is hidden, of runs queued method by method."""
    runs = [
        run_record(seeds * i + seed, f"m{i}", seed, algorithm="ditto") for i in range(methods) for seed in range(seeds)
    ]
    shown = choice.first_of_each(runs)
    return [(run.label, run.seed) for run in shown], choice.what_is_hidden(runs, shown)


def test_of_many_runs_the_same_seeds_of_every_method_are_shown_and_the_page_says_what_is_hidden() -> None:
    shown, hidden = shown_of(5, 3)
    assert shown == [(f"m{i}", seed) for i in range(5) for seed in range(2)]
    assert hidden == "Seed 2 is hidden."
    assert shown_of(4, 5)[1] == "Seed 3 and seed 4 are hidden."
    assert shown_of(4, 3)[1] == ""
    assert shown_of(14, 2)[1] == "Seed 0 of m12 and m13 and seed 1 are hidden."
    same = [run_record(i, "m0", 0, algorithm="ditto") for i in range(20)]
    assert choice.what_is_hidden(same, same[:12]) == "8 runs of seed 0 are hidden."
    assert choice.what_is_hidden(same[:13], same[:12]) == "1 run of seed 0 is hidden."


def test_without_experiments_the_page_links_to_set_up(empty_store: Store) -> None:
    page = opened()
    assert page.title[0].value == "What is training now?"
    assert "(/setup)" in words(page) and "No experiments yet." in words(page)


def test_with_examples_only_the_page_offers_them(empty_store: Store) -> None:
    empty_store.experiments.import_finished("an example", DIGITS, [], example=True)
    page = opened()
    assert "No experiments of your own yet. Open an example:" in words(page)
    assert len(page.selectbox[0].options) == 1


def test_paused_runs_are_resumed_below_the_title(empty_store: Store) -> None:
    queue_two(empty_store)
    empty_store.queue.request([1, 2], "pause")
    page = opened()
    assert page.title[0].value == "Training is paused" and "“waiting”: 2 paused." in words(page)
    assert "Compare these runs" not in words(page), "they have no results"
    (resume,) = [button for button in page.button if button.label == "Resume all"]
    resume.click().run()
    assert page.title[0].value == "What is training now?"
    assert [run.status for run in empty_store.queue.runs()] == ["queued", "queued"]


@pytest.mark.slow
def test_without_running_runs_the_last_experiment_is_shown(read_store: Store) -> None:
    page = opened()
    text = words(page)
    assert page.title[0].value == "How did it go?"
    assert "DIGITS · 10 CLIENTS · 3 CLASSES EACH · 2 SEEDS" in text
    assert "All 8 runs of “four methods on digits” finished." in text
    assert "FedAvg, seed 0 · done · round 5 of 5" in text
    (key,) = [one.value for one in page.get("html") if 'class="key"' in one.value]
    assert re.findall(r"</i>(.*?)</span>", key) == ["FedAvg", "LocalTrain", "Ditto", "CGPFL K=3"]
    assert "Lowest 5 % = 1 of 10 clients" in text
    charts = page.get("plotly_chart")
    assert len(charts) == 5
    assert '"dash":"dash"' in charts[0].spec
    assert len(re.findall(r'"meta":', charts[0].spec)) == 16, "a mean and a lowest line of every run"


@pytest.mark.slow
def test_the_lowest_clients_are_counted_among_those_that_are_evaluated(empty_store: Store) -> None:
    one = DIGITS | {"algorithms": [{"name": "fedavg"}], "seeds": [0], "training": DIGITS["training"] | {"rounds": 1}}
    store_experiment(empty_store, one)
    store_experiment(empty_store, one | {"evaluation": {"every": 1, "clients": 3}})
    assert "Lowest 5 % = 1 of 10 clients or 1 of 3 clients, the least accurate" in words(opened(runs="1,2"))


@pytest.mark.slow
def test_the_address_chooses_experiment_and_runs(filled_store: Store) -> None:
    queue_two(filled_store)
    assert "All 8 runs of" in words(opened(experiment="1"))
    text = words(opened(runs="5,9"))
    assert "(/run?id=5)" in text and "(/run?id=9)" not in text, "only started runs can be opened"


@pytest.mark.parametrize("named", [{"runs": "99"}, {"experiment": "999"}])
def test_deleted_runs_in_the_address_are_ignored(read_store: Store, named: dict[str, str]) -> None:
    page = opened(**named)
    assert "The runs in this link no longer exist" in words(page)
    page.selectbox[0].select(1).run()
    assert "All 8 runs of" in words(page)


@pytest.mark.slow
def test_running_runs_are_shown_before_finished_ones_and_the_chosen_experiment_is_in_the_address(
    filled_store: Store,
) -> None:
    queue_two(filled_store)
    page = opened()
    assert "“waiting”: 2 queued." in words(page)
    page.selectbox[0].select(1).run()
    assert page.query_params["experiment"] in ("1", ["1"])
    assert "All 8 runs of" in words(page)
    page.selectbox[0].set_value(None).run()
    assert "“waiting”: 2 queued." in words(page) and not {"experiment", "runs"} & set(page.query_params)


def test_experiments_with_equal_names_are_distinguished(empty_store: Store) -> None:
    queue_two(empty_store)
    queue_two(empty_store)
    options = opened().selectbox[0].options
    assert len(set(options)) == 2


@pytest.mark.slow
def test_a_queued_run_is_paused_resumed_and_cancelled(empty_store: Store) -> None:
    queue_two(empty_store)
    page = opened()
    for action, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        page.button(key=f"{action}_1").click().run()
        assert empty_store.queue.get(1).status == status
    assert empty_store.queue.get(2).status == "queued"


@pytest.mark.slow
def test_an_action_that_is_refused_or_comes_after_the_end_of_the_run_is_explained(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("another program holds the database")

    queue_two(empty_store)
    page = opened()
    with monkeypatch.context() as patch:
        patch.setattr("storage.run_queue.RunQueue.request", refuse)
        page.button(key="pause_1").click().run()
    assert not page.exception
    assert "another program holds the database" in page.error[0].value
    empty_store.queue.request([1], "cancel")
    page.button(key="pause_1").click().run()
    assert "Nothing was changed, because this page was out of date." in page.error[0].value
    page.button(key="pause_2").click().run()
    assert not page.error and empty_store.queue.get(2).status == "paused"


def test_only_runs_that_an_action_changes_are_in_the_audit_log(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    people_sign_in(monkeypatch)
    runs = [new_run(run) for run in parse_experiment(DIGITS).runs()[:4]]
    empty_store.experiments.create("mine", {}, runs, owner=MEMBER.name)
    finish(empty_store, "failed", "the data set is gone")
    finish(empty_store, "done", "")
    with as_person(MEMBER):
        for action in ("cancel", "first", "high", "resume"):
            requests.perform(action, [1, 2, 99])
        for action in ("pause", "retry", "retry"):
            requests.perform(action, [1, 2, 3])
    found = [(entry.action, entry.subject) for entry in reversed(empty_store.audit.list())]
    assert found == [("Pause", "run 3"), ("Retry", "run 1")]
    assert len(empty_store.queue.runs()) == 5


def test_all_runs_are_cancelled_after_a_confirmation(empty_store: Store) -> None:
    queue_two(empty_store)
    empty_store.queue.claim()
    page = opened()
    assert "Cancel 2 runs? 1 is training; completed rounds are kept." in words(page)
    page.button(key="all_cancel_now").click().run()
    assert empty_store.queue.get(1).control == "cancel" and empty_store.queue.get(2).status == "cancelled"


@pytest.mark.slow
def test_figures_have_no_numbers_if_no_round_was_completed(empty_store: Store) -> None:
    queue_two(empty_store)
    waiting = opened().get("plotly_chart")[0].spec
    empty_store.queue.request([1, 2], "cancel")
    ended = opened().get("plotly_chart")
    assert "No round was completed." in ended[0].spec and "No round was completed." not in waiting
    assert all('"showticklabels":false' in chart.spec for chart in ended)


def test_a_failed_run_shows_its_error_and_can_be_retried(empty_store: Store) -> None:
    queue_two(empty_store)
    finish(empty_store, "failed", "the data set is gone; put it back\nsecond line")
    page = opened()
    assert "failed · waits" not in words(page)
    assert "the data set is gone; put it back" in words(page)
    assert "client 3 has no finite loss" in words(page)
    page.button(key="retry_1").click().run()
    assert [run.status for run in empty_store.queue.runs(newest_first=False)] == ["failed", "queued", "queued"]


def test_at_most_twelve_runs_are_drawn_and_the_others_listed(empty_store: Store) -> None:
    raw = {**DIGITS, "seeds": [0, 1, 2, 3]}
    empty_store.experiments.create("many", raw, [new_run(run) for run in parse_experiment(raw).runs()])
    page = opened()
    assert len(page.multiselect[0].value) == 12
    assert len(page.multiselect[0].options) == 16
    assert {run.seed for run in empty_store.queue.runs(run_ids=page.multiselect[0].value)} == {0, 1, 2}


def test_unknown_run_ids_do_not_break_the_page(read_store: Store) -> None:
    assert opened(runs="99999999999999999999").title
    assert opened(experiment="abc").title
