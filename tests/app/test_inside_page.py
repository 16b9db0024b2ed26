"""The page Inside a run: one run, its tabs and states; every choice is in the address."""

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from app.inside.clients import better_alone, client_rows
from app.inside.view import RunView
from engine.config.schema import parse_experiment
from engine.core.findings import Findings
from engine.exchange.records import new_run
from storage import Status, Store
from storage.models import Run
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

opened = partial(open_page, "run")

MINE = """
import streamlit as st

from app.inside.tab import Tab

def panel(view):
    st.header(f"All mine, {view.method}", anchor=False)

def applies(view):
    return view.run.algorithm == "cgpfl"

TAB = Tab("Mine", order=25, panel=panel, moves_with_rounds=True, applies=applies)
"""
DITTO, DITTO_AGAIN, LOCAL_TRAIN = 5, 6, 3


def tabs(page: AppTest) -> list[str]:
    return page.segmented_control(key="address_tab").options


def address(page: AppTest, name: str) -> str | None:
    text = page.query_params.get(name)
    return text[0] if isinstance(text, list) else text


def test_without_runs_the_page_links_to_set_up(empty_store: Store) -> None:
    text = words(opened())
    assert "No run has results yet" in text and "(/setup)" in text and "(/library)" in text


@pytest.mark.slow
def test_without_runs_the_examples_can_be_loaded(empty_store: Store) -> None:
    page = opened()
    page.button(key="load_examples").click().run()
    assert not page.exception and "An example result" in words(page)
    assert not [button for button in opened(id=99999).button if button.key == "load_examples"]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ({"id": "77"}, "Run 77 does not exist or was permanently deleted."),
        ({"id": ""}, "“” is not a run number"),
        ({"run": "x"}, "“x” is not a run number"),
        ({"id": "9" * 40}, f"“{'9' * 20}” is not a run number"),
    ],
)
def test_an_unknown_run_is_reported_instead_of_showing_another(
    read_store: Store, address: dict[str, str], text: str
) -> None:
    page = opened(**address)
    assert text in words(page) and not page.segmented_control
    assert "[Open the newest run with results, run 8](/run?id=8)" in words(page)


def test_a_deleted_run_is_reported_as_in_the_trash(filled_store: Store) -> None:
    filled_store.trash.put([8])
    assert "Run 8 was deleted. You can restore it from the trash in the Library" in words(opened(id=8))


def test_without_an_address_the_newest_run_is_opened(read_store: Store) -> None:
    assert opened().title[0].value == "What happened inside CGPFL K=3, seed 1?"


def test_the_headline_counts_clients_behind_and_better_alone(read_store: Store) -> None:
    text = words(opened(id=DITTO))
    assert "DIGITS · 10 CLIENTS · 3 CLASSES EACH" in text
    assert re.search(r"(falls? behind|far behind).* against a mean of \d\d\.\d %", text)
    assert re.search(r"of 10 clients would do better alone \(LocalTrain\)", text)


def test_tabs_that_do_not_apply_are_not_offered(filled_store: Store) -> None:
    iid = DIGITS | {"name": "all alike", "partition": {"name": "iid", "num_clients": 2}, "algorithms": ["ditto"]}
    store_experiment(filled_store, iid | {"training": {"rounds": 1}, "seeds": [0]})
    alike, cgpfl = tabs(opened()), tabs(opened(id=7))
    assert "Clusters" not in alike and "Layers" not in alike
    assert "Clusters" in cgpfl
    assert alike[0] == "Clients" and alike[-1] == "Configuration and log"


@pytest.mark.slow
def test_an_added_file_is_a_tab(filled_store: Store, add_file: Callable[[str, str, str], None]) -> None:
    before = tabs(opened(id=7))
    add_file("app.inside", "mine", MINE)
    after = tabs(opened(id=7))
    assert after[after.index("Clusters") + 1] == "Mine" and [tab for tab in after if tab != "Mine"] == before
    page = opened(id=7, tab="mine")
    assert page.header[0].value == "All mine, CGPFL K=3" and page.select_slider(key="address_round")
    assert "Mine" not in tabs(opened(id=DITTO))
    run = filled_store.queue.rerun([DITTO])[0]
    assert tabs(opened(id=run.id)) == ["Configuration and log"]


@pytest.mark.slow
def test_the_address_chooses_tab_round_model_and_client(read_store: Store) -> None:
    page = opened(id=DITTO, round=2, model="global", client=4)
    assert page.select_slider(key="address_round").value == "2"
    assert page.segmented_control(key="address_model").value == "global"
    text = words(page)
    assert "Client 4: " in text and " in round 2" in text and "of 10;" in text
    assert opened(id=DITTO, tab="profile").header[0].value == "What did it cost?"


@pytest.mark.parametrize(("name", "value"), [("client", "10"), ("client", "-1"), ("round", "99"), ("tab", "none")])
def test_invalid_choices_fall_back_to_the_default(read_store: Store, name: str, value: str) -> None:
    page = opened(id=DITTO, **{name: value})
    assert page.select_slider(key="address_round").value == "5"
    assert page.selectbox(key="client_number").value is None
    assert page.segmented_control(key="address_tab").value == "clients"


@pytest.mark.slow
def test_the_slider_sets_the_address_unless_at_its_default(read_store: Store) -> None:
    page = opened(id=DITTO)
    page.select_slider(key="address_round").set_value("1").run()
    assert address(page, "round") == "1"
    page.select_slider(key="address_round").set_value("5").run()
    assert address(page, "round") is None


def test_only_tabs_that_depend_on_the_round_have_the_slider(read_store: Store) -> None:
    assert opened(id=DITTO).select_slider
    assert not opened(id=DITTO, tab="record").select_slider


@pytest.mark.parametrize("name", ["id", "run"])
@pytest.mark.slow
def test_switching_seeds_keeps_the_rest_of_the_address(read_store: Store, name: str) -> None:
    page = opened(**{name: DITTO}, client=3, round=2)
    assert page.title[0].value == "What happened inside Ditto, seed 0?"
    assert page.button(key="inside_Previous seed").disabled
    page.button(key="inside_Next seed").click().run()
    assert page.title[0].value == "What happened inside Ditto, seed 1?"
    assert address(page, "id") == str(DITTO_AGAIN)
    assert (address(page, "client"), address(page, "round")) == ("3", "2")
    assert page.button(key="inside_Next seed").disabled


@pytest.mark.slow
def test_another_method_and_another_experiment_can_be_chosen(filled_store: Store) -> None:
    other = store_experiment(filled_store, DIGITS | {"name": "other", "algorithms": ["fedprox"], "seeds": [3]})
    page = opened(id=DITTO, client=3)
    page.selectbox(key="inside_method").set_value(7).run()
    assert page.title[0].value == "What happened inside CGPFL K=3, seed 0?"
    page.selectbox(key="inside_experiment").set_value(other.id).run()
    assert "FedProx" in page.title[0].value and address(page, "client") is None


@pytest.mark.slow
def test_clients_are_opened_by_number_by_buttons_and_by_rank(read_store: Store) -> None:
    page = opened(id=DITTO)
    page.selectbox(key="client_number").set_value(8).run()
    assert address(page, "client") == "8"
    page.button(key="client_next").click().run()
    assert address(page, "client") == "9" and page.button(key="client_next").disabled
    page.button(key="client_previous").click().run()
    assert address(page, "client") == "8"
    page.button(key="client_lowest").click().run()
    assert ", lowest of 10;" in words(page)
    page.button(key="client_highest").click().run()
    assert ", highest of 10;" in words(page)


@pytest.mark.slow
def test_without_a_finite_accuracy_no_client_is_opened_by_its_rank(filled_store: Store) -> None:
    run, epoch = half_done(filled_store)
    lost = filled_store.metrics.rounds(DITTO)[3]
    nothing = {name: np.full_like(values, np.nan) for name, values in lost.arrays.items() if "accuracy" in name}
    filled_store.metrics.append(run, epoch, [dataclasses.replace(lost, arrays={**lost.arrays, **nothing})])
    filled_store.queue.finish(run, epoch, "diverged", error="the loss is not finite")
    page = opened(id=run)
    assert [page.button(key=f"client_{end}").disabled for end in ("lowest", "median", "highest")] == [True] * 3
    text = words(opened(id=run, client=1))
    assert "its model is not finite in round 3." in text and "would do better alone" not in text
    with filled_store._database.write() as connection:
        connection.execute(sa.update(Run).values(status="diverged"))  # so that there are no references
    assert "No client has a finite accuracy in round 3, so their distribution is empty." in opened(id=run).info[0].value


@pytest.mark.slow
def test_a_client_that_is_not_evaluated_is_reported_as_such(filled_store: Store) -> None:
    sampled = DIGITS | {"algorithms": ["ditto"], "seeds": [0], "evaluation": {"clients": 4}}
    run = filled_store.queue.runs(experiment_ids=[store_experiment(filled_store, sampled).id])[0]
    accuracy = filled_store.metrics.array_at(run.id, "personalized.accuracy", 5)
    left_out = int(np.flatnonzero(np.isnan(accuracy))[0])
    text = words(opened(id=run.id, client=left_out))
    assert f"Client {left_out} is not among the evaluated clients (evaluation.clients = 4)." in text
    assert f"Client {left_out}: " in words(opened(id=DITTO, client=left_out))


@pytest.mark.slow
def test_a_gain_over_a_reference_without_this_client_is_not_shown(filled_store: Store) -> None:
    training = {"training": DIGITS["training"] | {"lr": 0.1}, "seeds": [0]}
    store_experiment(filled_store, DIGITS | training | {"algorithms": ["local_train"], "evaluation": {"clients": 4}})
    alone = filled_store.queue.runs(newest_first=True)[0].id
    left_out = int(np.flatnonzero(np.isnan(filled_store.metrics.array_at(alone, "personalized.accuracy", 5)))[0])
    store_experiment(filled_store, DIGITS | training | {"algorithms": ["ditto"]})
    assert "No LocalTrain and no FedAvg run" in words(opened(client=left_out))


def test_every_figure_and_table_has_its_own_name(read_store: Store) -> None:
    page = opened(id=DITTO)
    parts = [*page.get("plotly_chart"), *page.dataframe]
    names = [part.proto.alt for part in parts]
    assert len(names) >= 3 and len(set(names)) == len(names) and all(names)


@pytest.mark.slow
def test_a_client_stays_open_on_other_tabs(read_store: Store) -> None:
    page = opened(id=DITTO, client=3)
    page.segmented_control(key="address_tab").set_value("landscape").run()
    assert address(page, "client") == "3"
    page.selectbox(key="landscape_client").set_value(0).run()
    assert address(page, "client") == "0"
    page.segmented_control(key="address_tab").set_value("clients").run()
    assert page.selectbox(key="client_number").value == 0 and address(page, "client") == "0"
    assert address(opened(id=DITTO, tab="landscape"), "client") is None


@pytest.mark.slow
def test_gains_are_shown_if_the_references_were_run(filled_store: Store) -> None:
    text = words(opened(id=DITTO, client=0))
    assert "points over learning alone (LocalTrain)" in text and "against FedAvg's global model" in text
    text = words(opened(id=LOCAL_TRAIN, client=0))
    assert "points against FedAvg's global model" in text and "over learning alone" not in text
    partition = DIGITS["partition"] | {"classes_per_client": 4}
    alone = DIGITS | {"name": "alone", "algorithms": ["ditto"], "seeds": [0], "partition": partition}
    run = filled_store.queue.runs(experiment_ids=[store_experiment(filled_store, alone).id])[0]
    assert "No LocalTrain and no FedAvg run with this seed" in words(opened(id=run.id, client=0))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"training": DIGITS["training"] | {"lr": 0.01}},
            "of 10. No LocalTrain and no FedAvg run with this seed and these settings to compare with in round 5.",
        ),
        (
            {"training": DIGITS["training"] | {"rounds": 6}},
            "of 10. No LocalTrain and no FedAvg run with this seed and these settings to compare with in round 6.",
        ),
        (
            {"attack": "sign_flip"},
            "points over learning alone (LocalTrain). No FedAvg run with this seed and these settings to compare with",
        ),
    ],
    ids=["learning rate", "rounds", "attack"],
)
@pytest.mark.slow
def test_references_are_trained_alike(changes: dict[str, Any], expected: str, filled_store: Store) -> None:
    experiment = store_experiment(filled_store, DIGITS | {"algorithms": ["ditto"], "seeds": [0]} | changes)
    run = filled_store.queue.runs(experiment_ids=[experiment.id])[0]
    client = run.partition["malicious"].index(False) if "attack" in changes else 0
    page = opened(id=run.id, client=client)
    assert expected in words(page)
    assert ("would do better alone" in words(page)) == ("attack" in changes)
    if run.rounds > 5:
        assert "points over learning alone (LocalTrain)" in words(opened(id=run.id, client=client, round=5))


def test_a_reference_that_was_not_evaluated_in_a_round_is_not_compared_with_in_it(empty_store: Store) -> None:
    short = DIGITS | {"training": DIGITS["training"] | {"rounds": 3}, "seeds": [0]}
    store_experiment(empty_store, short | {"algorithms": ["fedavg", "local_train"], "evaluation": {"every": 2}})
    experiment = store_experiment(empty_store, short | {"name": "ditto", "algorithms": ["ditto"]})
    view = RunView(empty_store.queue.runs(experiment_ids=[experiment.id], with_partition=True)[0])
    assert [view.reference_accuracy("fedavg", round) is None for round in range(4)] == [False, True, False, False]


def test_a_reference_that_diverged_is_not_compared_with(filled_store: Store) -> None:
    with sa.create_engine(filled_store.url).begin() as connection:
        connection.execute(sa.update(Run).where(Run.id == LOCAL_TRAIN).values(status="diverged"))
    text = words(opened(id=DITTO, client=0))
    assert "No LocalTrain run with this seed" in text and "against FedAvg's global model" in text


def test_no_client_is_counted_as_better_alone_if_none_is_known() -> None:
    assert better_alone(np.array([np.nan, 0.5]), np.array([0.5, np.nan])) == ""
    assert better_alone(np.array([0.4]), np.array([0.5])) == "All 1 client would do better alone (LocalTrain)."


@pytest.mark.slow
def test_references_of_another_experiment_count_if_they_have_the_same_clients(filled_store: Store) -> None:
    again = DIGITS | {"name": "again", "algorithms": ["ditto"], "seeds": [0]}
    run = filled_store.queue.runs(experiment_ids=[store_experiment(filled_store, again).id])[0]
    text = words(opened(id=run.id, client=0))
    assert "points over learning alone (LocalTrain)" in text
    text = words(opened(id=run.id))
    assert f"LocalTrain (run {LOCAL_TRAIN} of “four methods on digits”)" in text


def test_a_method_without_a_global_model_says_so(read_store: Store) -> None:
    page = opened(id=LOCAL_TRAIN, model="global")
    assert "LocalTrain has no global model." in words(page)
    assert "personalized model" in page.subheader[0].value


def test_the_table_has_the_numbers_of_the_round(read_store: Store) -> None:
    table = opened(id=DITTO, round=3).dataframe[0].value
    accuracy = read_store.metrics.array_at(DITTO, "personalized.accuracy", 3)
    alone = read_store.metrics.array_at(LOCAL_TRAIN, "personalized.accuracy", 3)
    assert table["accuracy"].tolist() == pytest.approx((100 * accuracy).tolist())
    assert table["over_local_train"].tolist() == pytest.approx((100 * (accuracy - alone)).tolist(), abs=1e-4)
    assert table["labels"].tolist() == [3] * 10


def test_the_table_has_true_contexts_by_number() -> None:
    assert client_rows({"contexts": [1, 0]}, np.array([0.5, 0.6]), {})["context"].tolist() == [1, 0]


@pytest.mark.slow
def test_contexts_are_not_shown_if_each_client_has_its_own_but_their_file_is_unchanged(read_store: Store) -> None:
    (run,) = read_store.queue.runs(run_ids=[DITTO])
    assert run.partition is not None and run.partition["contexts"] == list(range(10))
    page = opened(id=DITTO)
    assert "context" not in page.dataframe[0].value
    assert "Clusters" not in tabs(page), "a map by context would have a group for each client"


def test_a_queued_run_shows_its_configuration_and_status(filled_store: Store) -> None:
    run = filled_store.queue.rerun([DITTO])[0]
    page = opened(id=run.id)
    assert tabs(page) == ["Configuration and log"]
    assert "Queued: waiting for a slot." in words(page) and "The split is unknown" in words(page)


@pytest.mark.parametrize("status", ["cancelled", "diverged", "failed", "running"])
def test_failed_runs_show_their_stored_rounds(filled_store: Store, status: Status) -> None:
    run, epoch = half_done(filled_store)
    if status != "running":
        filled_store.queue.finish(run, epoch, status, error="the reason" if status in ("diverged", "failed") else None)
    page = opened(id=run, client=1)
    assert "round 2 of 5" in words(page).lower() and page.select_slider(key="address_round").value == "2"
    assert ("the reason" in words(page).lower()) == (status in ("diverged", "failed"))
    assert "Look inside" not in words(page)  # there is one
    if status == "failed":
        assert "the reason" in words(opened(id=run, tab="record"))


def test_a_run_with_one_round_has_no_slider(filled_store: Store) -> None:
    run, _ = half_done(filled_store, rounds=1)
    assert not opened(id=run).select_slider


def test_archived_runs_can_be_opened_by_their_address(filled_store: Store) -> None:
    filled_store.queue.archive([DITTO])
    assert "Archived." in words(opened(id=DITTO))


@pytest.mark.slow
def test_a_clients_confusion_is_drawn_once_it_is_computed(filled_store: Store) -> None:
    models = filled_store.artifacts.write_file(DITTO, "model-last", 5, b"models")
    filled_store.artifacts.register(DITTO, None, models)
    assert "Count errors of all clients" in [b.label for b in opened(id=DITTO, client=2).button]
    matrices = np.zeros((10, 10, 10), np.int32)
    matrices[2, 4, [4, 9]] = 7, 3
    answer(filled_store, "confusion", Findings({"personalized": matrices, "global": 2 * matrices}))
    assert "7 of 10 correct; most often 4 is predicted as 9: 3 of 10." in words(opened(id=DITTO, client=2))
    assert "14 of 20 correct" in words(opened(id=DITTO, client=2, model="global"))


def test_a_profile_is_drawn_once_it_is_computed(filled_store: Store) -> None:
    arrays = {
        "rounds": np.array([1, 2]),
        "samples_per_second": np.array([400.0, 600.0]),
        "seconds.local training": np.array([0.3, 0.3]),
        "seconds.evaluation": np.array([0.1, 0.1]),
    }
    values = {
        "parts": ["local training", "evaluation"],
        "evaluation_every": 2,
        "evaluation_seconds": 2.0,
        "operators": [{"name": "aten::mm", "calls": 4, "self_ms": 1.5}],
        "profiled_steps": 5,
    }
    answer(filled_store, "profile", Findings(arrays, values))
    page = opened(id=DITTO, tab="profile")
    text = words(page)
    assert "Local training takes 75 % of a round of 0.4 s, evaluation 25 %." in text
    assert "Median: 500 gradient evaluations per second" in text and "one evaluation takes 2.0 s." in text
    assert page.dataframe[-1].value.to_numpy().tolist() == [["aten::mm", 4, 1.5]]


def answer(store: Store, kind: str, found: Findings) -> None:
    """Stores findings like a worker."""
    store.analyses.request(DITTO, kind, {})
    claimed = store.analyses.claim()
    assert claimed is not None
    file = store.artifacts.write_file(DITTO, f"analysis-{kind}", 5, found.to_bytes())
    store.analyses.finish(claimed.id, claimed.epoch, "done", result=file)


def half_done(store: Store, rounds: int = 3) -> tuple[int, int]:
    """A running Ditto in a separate experiment, with the first rounds of run 5; returns its id and epoch."""
    config = parse_experiment(DIGITS | {"name": "half", "algorithms": ["ditto"], "seeds": [0]})
    store.experiments.create("half", dict(config.raw), [new_run(run) for run in config.runs()])
    claimed = store.queue.claim()
    assert claimed is not None
    store.queue.describe(claimed.id, claimed.epoch, partition=store.queue.get(DITTO).partition)
    store.metrics.append(claimed.id, claimed.epoch, store.metrics.rounds(DITTO)[:rounds])
    return claimed.id, claimed.epoch
