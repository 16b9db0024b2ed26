"""The Set up page on its own database."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
import yaml
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.actions import launch
from app.actions.uploads import save_upload
from app.components.queue_button import RECENT_S
from app.setup import draft as drafts
from app.setup import methods, preview
from app.setup.presets import in_papers
from app.state import url_state
from app.state.links import pack_config, unpack_config
from engine.config.presets import load_preset
from engine.config.schema import parse_experiment
from engine.core.errors import DataUnavailable
from engine.core.registry import ALGORITHMS, DATASETS, PARTITIONERS
from storage import StorageError, Store
from storage.experiments import Experiments
from tests.app.pages import words
from tests.app.samples import DIGITS
from tests.support.presses import press_during, reported, stop_this_run

VIEW = Path(__file__).resolve().parents[2] / "app" / "views" / "setup.py"


def opened(config: dict[str, Any] | None = None) -> AppTest:
    page = AppTest.from_file(VIEW, default_timeout=60)
    if config is not None:
        page.query_params["config"] = pack_config(config)
    page.run()
    assert not page.exception
    return page


def written(page: AppTest) -> dict[str, Any]:
    return yaml.safe_load(page.code[0].value)


def expand(page: AppTest, expander: str = "advanced") -> AppTest:
    """Opens the expander of a method, or Advanced."""
    page.session_state[f"expander.setup_form.{expander}"] = True
    page.run()
    assert not page.exception
    return page


def expanders(page: AppTest) -> list[str]:
    """The labels of the expanders: of each method, and Advanced."""
    return [expander.label.replace("\\", "") for expander in page.expander]


def messages(page: AppTest) -> list[str]:
    return [error.value for error in page.error]


class StoppingSession:
    """``st.session_state``, which stops the run at one access, as Streamlit does when another press comes.

    ``left`` is the number of accesses until then.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def __getattr__(self, name: str) -> Any:
        self._count()
        return getattr(st.session_state, name)

    def __getitem__(self, key: str) -> Any:
        self._count()
        return st.session_state[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._count()
        st.session_state[key] = value

    def __contains__(self, key: str) -> bool:
        self._count()
        return key in st.session_state

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.left = -1_000_000
            raise StopException


def adding(page: AppTest) -> Any:
    """The list of methods to add, which has another key after each addition."""
    return next(one for one in page.selectbox if one.key.startswith("setup_form.add."))


def queue_button(page: AppTest) -> Any:
    return page.button(key="queue")


def test_the_page_starts_with_a_valid_experiment_and_shows_every_change(empty_store: Store):
    page = opened()
    drawn = [element.type for element in page.main]
    assert drawn.index("title") < drawn.index("selectbox")
    assert queue_button(page).label == "Queue 6 runs" and not queue_button(page).disabled
    parse_experiment(written(page))
    assert "DIGITS · 20 CLIENTS" in words(page) and "87 samples and 3 of 10 classes each" in words(page)
    assert "config" not in page.query_params
    page.number_input(key="setup_form.partition.classes_per_client.num_clients").set_value(12).run()
    assert "DIGITS · 12 CLIENTS" in words(page) and "20 CLIENTS" not in words(page)
    page.select_slider(key="setup_form.partition.classes_per_client.classes_per_client.dial").set_value(1).run()
    assert "1 of 10 classes each" in words(page)
    config = unpack_config(str(page.query_params["config"]))
    assert config["partition"]["num_clients"] == 12 and config["partition"]["classes_per_client"] == 1


def test_a_link_restores_the_form_with_the_same_runs(empty_store: Store):
    config = DIGITS | {
        "algorithms": [
            {"name": "ditto", "label": "D", "sweep": {"lam": [0.5, 2], "training.lr": [0.1]}},
            {"name": "fedavg", "training": {"local_epochs": 2}},
        ],
        "seeds": [3, 5],
        "evaluation": {"every": 2},
        "backend": "loop",
    }
    page = opened(config)
    same = parse_experiment(written(page)).runs()
    assert [run.digest for run in same] == [run.digest for run in parse_experiment(config).runs()]
    assert [run.label for run in same] == [run.label for run in parse_experiment(config).runs()]


def test_an_automatic_name_follows_changes(empty_store: Store):
    page = opened(DIGITS | {"name": "FedAvg on Digits", "algorithms": [{"name": "fedavg"}]})
    assert page.text_input(key="setup_form.name").value == ""
    page.selectbox(key="setup_form.m1.name").set_value("fedprox").run()
    assert page.text_input(key="setup_form.name").placeholder == written(page)["name"] == "FedProx on Digits"


def test_a_run_that_is_stopped_before_it_writes_the_address_loses_no_change(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    def stop(**_: object) -> None:
        raise StopException  # as Streamlit does when another press comes

    page = opened(DIGITS)
    with monkeypatch.context() as patch:
        patch.setattr(url_state, "choose", stop)
        page.text_input(key="setup_form.name").set_value("Typed first").run()
    page.number_input(key="setup_form.training.rounds").set_value(7).run()
    assert (written(page)["name"], written(page)["training"]["rounds"]) == ("Typed first", 7)
    assert unpack_config(str(page.query_params["config"]))["name"] == "Typed first"


def test_how_much_clients_differ_is_computed_once(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    computed = []
    monkeypatch.setattr(preview, "mean_js_distance", lambda counts: computed.append(counts) or 0.25)
    page = opened(DIGITS | {"partition": DIGITS["partition"] | {"num_clients": 19}})  # clients of this test alone
    assert "Mean Jensen–Shannon distance: 0.25" in words(page)
    page.run()
    assert len(computed) == 1


@pytest.mark.slow
def test_a_mistake_is_shown_at_its_field_or_if_that_is_closed_at_the_button(empty_store: Store):
    page = expand(opened())
    page.number_input(key="setup_form.training.lr").set_value(-1.0).run()
    assert messages(page) == ["Must be above 0", "Fix first: Learning rate."]
    assert queue_button(page).disabled
    page.session_state["expander.setup_form.advanced"] = False
    page.run()
    assert messages(page)[0].replace("\\", "") == "Learning rate: must be above 0"


def test_an_impossible_partition_is_reported_at_its_option(empty_store: Store):
    page = opened(DIGITS | {"partition": {"name": "classes_per_client", "num_clients": 5, "classes_per_client": 11}})
    assert any("classes" in message and "11" in message for message in messages(page))
    assert queue_button(page).disabled


def test_no_method_is_a_mistake(empty_store: Store):
    page = opened(DIGITS | {"algorithms": []})
    assert queue_button(page).disabled


def test_a_link_with_unknown_names_lists_what_was_skipped(empty_store: Store):
    page = opened(DIGITS | {"algorithms": [{"name": "fedavgg"}, {"name": "fedavg"}], "colour": "red"})
    assert len(page.warning) == 2
    assert [entry["name"] for entry in written(page)["algorithms"]] == ["fedavg"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dataset": {"name": []}}, "no dataset named '[]'; using digits"),
        ({"model": {"name": {}}}, "no model named '{}'; using mlr"),
        ({"algorithms": [{"name": [1]}]}, "no algorithm named '[1]'; it was ignored"),
        ({"algorithms": {"a": 1}}, "algorithms: {'a': 1} is not a list of methods and was ignored"),
        ({"training": "abc"}, "training: 'abc' is not a mapping of names to values and was ignored"),
        ({"evaluation": [1]}, "evaluation: [1] is not a mapping of names to values and was ignored"),
        (
            {"algorithms": [{"name": "ditto", "sweep": [1]}]},
            "algorithms.0.sweep: [1] is not a mapping of names to values and was ignored",
        ),
        (
            {"algorithms": [{"name": "ditto", "training": "abc"}]},
            "algorithms.0.training: 'abc' is not a mapping of names to values and was ignored",
        ),
    ],
    ids=str,
)
def test_parts_of_a_wrong_type_in_a_link_are_dropped_with_a_message(wrong: dict[str, Any], message: str):
    draft, dropped = drafts.drawable(DIGITS | wrong)
    assert dropped == [message]
    assert drafts.drawable(draft) == (draft, [])


def test_values_of_a_wrong_type_in_a_link_are_skipped_and_listed(empty_store: Store):
    wrong = {
        "partition": {"name": "dirichlet", "alpha": None},
        "checkpoint_s": None,
        "training": {"rounds": None, "lr": [], "local_epochs": "x"},
        "algorithms": [{"name": "ditto", "lam": None}],
    }
    page = opened(DIGITS | wrong)
    assert [warning.value for warning in page.warning] == ["Must not be empty; using the default."] * 4
    assert messages(page)[0] == "Must be a whole number"


@pytest.mark.slow
def test_typed_values_of_a_wrong_type_are_reported_at_their_field(empty_store: Store):
    page = opened()
    for seeds in ("2020-01-01", "!!binary aGk=", "!!set {a}", "{[1]: 2}", r'"\ud800"', "&a [*a]"):
        page.text_input(key="setup_form.seeds").set_value(seeds).run()
        assert not page.exception and queue_button(page).disabled, seeds
        assert any("Whole numbers" in message for message in messages(page)), seeds


def test_a_broken_link_still_opens_a_form(empty_store: Store):
    page = AppTest.from_file(VIEW, default_timeout=60)
    page.query_params["config"] = "broken"
    page.run()
    assert not page.exception and "copy the whole link" in page.warning[0].value
    assert not queue_button(page).disabled


def test_methods_are_added_and_removed_and_grouped_by_family_with_the_reason_to_choose_them(empty_store: Store):
    page = opened()
    offered, chosen = adding(page).options, page.selectbox(key="setup_form.m3.name").options
    for options in (offered, chosen):
        families = [option.split(" · ")[1] for option in options]
        assert len(families) == len(ALGORITHMS.names()) and families == sorted(families, key=families.index)
    assert "Ditto · Regularized toward a shared model" in chosen
    assert "FedBN · Split models · when inputs differ in contrast, color or sensor, and labels do not" in offered
    assert "Softmax regression (MLR)" in page.selectbox(key="setup_form.model.name").options
    adding(page).set_value("fedbn").run()
    assert any("Needs a model with normalizations" in caption.value for caption in page.caption)
    page.button(key="setup_form.m1.remove").click().run()
    assert [entry["name"] for entry in written(page)["algorithms"]] == ["local_train", "ditto", "fedbn"]
    assert not page.exception


def test_a_changed_method_gets_its_defaults_and_a_custom_name_stays(empty_store: Store):
    page = opened(DIGITS | {"algorithms": [{"name": "ditto", "lam": 7}]})
    page.selectbox(key="setup_form.m1.name").set_value("pfedme").run()
    assert written(page)["algorithms"][0]["lam"] == 15 and written(page)["name"] == DIGITS["name"]


@pytest.mark.slow
def test_every_partitioner_can_be_chosen(empty_store: Store):
    page = expand(opened())
    for name in PARTITIONERS.names():
        page.selectbox(key="setup_form.partition.name").set_value(name).run()
        assert not page.exception, name
        assert queue_button(page).disabled == (name == "natural"), name  # digits has no natural clients


@pytest.mark.slow
def test_epochs_replace_steps_and_decay_is_shown_for_the_step_schedule(empty_store: Store):
    page = expand(opened())
    page.segmented_control(key="setup_form.training.work").set_value("local_epochs").run()
    assert written(page)["training"]["local_epochs"] == 1 and "local_steps" not in written(page)["training"]
    assert "lr_decay" not in written(page)["training"]
    page.segmented_control(key="setup_form.training.lr_schedule").set_value("step").run()
    page.number_input(key="setup_form.training.lr_decay").set_value(0.1).run()
    assert written(page)["training"]["lr_schedule"] == "step" and written(page)["training"]["lr_decay"] == 0.1


@pytest.mark.slow
def test_a_sweep_multiplies_the_runs(empty_store: Store):
    page = opened()
    page.button(key="setup_form.m3.ditto.begin_sweep.lam").click().run()
    assert written(page)["algorithms"][2]["sweep"] == {"lam": [0.5, 1, 2]}
    page.multiselect(key="setup_form.m3.ditto.sweep.lam").set_value(["0.1", "1", "10", "100"]).run()
    assert queue_button(page).label == "Queue 12 runs"
    page.multiselect(key="setup_form.m3.ditto.sweep.lam").set_value(["1", "10, 0.03"]).run()
    assert written(page)["algorithms"][2]["sweep"] == {"lam": [0.03, 1, 10]}, "values typed at once are several"
    page.button(key="setup_form.m3.ditto.end_sweep.lam").click().run()
    assert "sweep" not in written(page)["algorithms"][2] and written(page)["algorithms"][2]["lam"] == 1


@pytest.mark.slow
def test_a_sweep_of_a_training_option_applies_to_all_methods_without_their_own_value(empty_store: Store):
    own = {"name": "ditto", "training": {"lr": 0.3}}
    page = expand(opened(DIGITS | {"algorithms": [{"name": "fedavg"}, own], "seeds": [0], "training": {"lr": 0.05}}))
    page.button(key="setup_form.training.begin_sweep.training.lr").click().run()
    adding(page).set_value("local_train").run()
    values = {"training.lr": [0.02, 0.05, 0.1]}
    assert [entry.get("sweep") for entry in written(page)["algorithms"]] == [values, None, values]
    page.multiselect(key="setup_form.training.sweep.training.lr").set_value(["0.05", "0.5"]).run()
    assert queue_button(page).label == "Queue 5 runs"
    page.button(key="setup_form.training.end_sweep.training.lr").click().run()
    assert [entry.get("sweep") for entry in written(page)["algorithms"]] == [None] * 3


@pytest.mark.slow
def test_choosing_a_data_set_shows_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Store):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    page = expand(opened())
    for name in DATASETS.names():
        page.selectbox(key="setup_form.dataset.name").set_value(name).run()
        assert not page.error and not page.exception, name


def test_a_data_set_without_download_explains_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Store
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    page = opened(DIGITS | {"dataset": {"name": "har"}})
    assert "UCI HAR Dataset" in page.info[0].value and queue_button(page).disabled


HOSPITALS = "age,label,hospital\n" + "".join(f"{i},{i % 2},{'abc'[i % 3]}\n" for i in range(60))


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    (tmp_path / "named.csv").write_text(HOSPITALS.replace("hospital", "client"))
    (tmp_path / "hospitals.csv").write_text(HOSPITALS)
    (tmp_path / "none.csv").write_text("age,label\n" + "".join(f"{i},{i % 2}\n" for i in range(60)))
    return tmp_path


@pytest.mark.slow
def test_a_path_is_requested_and_a_client_column_selects_the_natural_partition(data_dir: Path, empty_store: Store):
    page = opened()
    page.selectbox(key="setup_form.dataset.name").set_value("custom").run()
    assert "NPZ, CSV or Parquet" in page.info[0].value
    assert queue_button(page).disabled and "Still required: File." in [c.value for c in page.caption]

    def enter(path: str) -> None:
        page.text_input(key="setup_form.dataset.custom.path.text").set_value(path).run()

    enter("nowhere.csv")
    assert any("no such file" in message for message in messages(page)), "a path that leads nowhere is a mistake"
    enter("named.csv")
    assert written(page)["partition"]["name"] == "natural"
    assert "3 clients with 20 samples" in words(page)
    enter("none.csv")
    assert written(page)["partition"]["name"] == "classes_per_client"
    enter("hospitals.csv")
    assert any("column hospital, row 2: 'a' is not a number" in m.replace("\\", "") for m in messages(page))
    client = page.selectbox(key="setup_form.dataset.custom.client.column")
    assert client.options == ["age", "label", "hospital"]
    client.set_value("hospital").run()
    assert written(page)["partition"]["name"] == "natural" and not page.error


@pytest.mark.slow
def test_a_missing_label_column_is_requested_and_chosen(data_dir: Path, empty_store: Store):
    (data_dir / "own.csv").write_text(HOSPITALS.replace("label", "ill").replace("hospital", "client"))
    page = opened(DIGITS | {"dataset": {"name": "custom", "path": "own.csv"}, "partition": {"name": "natural"}})
    assert not page.error and page.info[0].value == "Column of a table with the class."
    page.selectbox(key="setup_form.dataset.custom.label.column").set_value("ill").run()
    assert written(page)["dataset"]["label"] == "ill" and not page.info and not queue_button(page).disabled


def test_a_column_that_a_table_does_not_have_is_a_mistake(data_dir: Path, empty_store: Store):
    page = opened(DIGITS | {"dataset": {"name": "custom", "path": "named.csv", "label": "diagnosis"}})
    assert page.selectbox(key="setup_form.dataset.custom.label.column").value == "diagnosis"
    assert any("column 'diagnosis' is missing" in message.replace("\\", "") for message in messages(page))


@pytest.mark.parametrize("chosen_by", ["link", "reader"])
def test_a_natural_partition_without_clients_is_reported(chosen_by: str, data_dir: Path, empty_store: Store):
    name = "natural" if chosen_by == "reader" else "iid"
    page = opened(DIGITS | {"dataset": {"name": "custom", "path": "named.csv"}, "partition": {"name": name}})
    if chosen_by == "reader":
        assert not page.info
        page.selectbox(key="setup_form.partition.name").set_value("iid").run()
    assert written(page)["partition"]["name"] == "iid"
    assert any("The data come with 3 clients, which partition iid redistributes" in info.value for info in page.info)
    assert not queue_button(page).disabled


def test_a_limited_option_is_noted_next_to_the_button(empty_store: Store):
    page = opened(DIGITS | {"model": {"name": "dnn", "hidden": 4}, "algorithms": [{"name": "plgu_lf"}, "fedavg"]})
    captions = " ".join(caption.value for caption in page.caption).replace("\\", "")
    assert "D=5: the model has 2 layers, so D=1 is used" in captions
    assert not queue_button(page).disabled


@pytest.mark.slow
def test_queueing_stores_the_experiment_once_and_links_to_live(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    page = opened(DIGITS)
    for _ in range(2):  # a double click
        queue_button(page).click().run()
        (kept,) = empty_store.experiments.list()
        assert kept.name == DIGITS["name"] and kept.status_counts == {"queued": 8}
        assert any(f"/live?experiment={kept.id}" in m.value for m in page.markdown)
    monkeypatch.setattr(launch, "SAME_CLICK_S", -1.0)  # later
    queue_button(page).click().run()
    assert len(empty_store.experiments.list()) == 2


def test_a_second_click_while_the_first_one_queues_queues_nothing(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    original = Experiments.create_all

    def queue(*arguments: Any, **named: Any) -> Any:
        created = original(*arguments, **named)
        stop_this_run()
        return created

    page = opened(DIGITS)
    with monkeypatch.context() as patch:
        patch.setattr(Experiments, "create_all", queue)
        queue_button(page).click().run()
    assert not any("/live?experiment" in text.value for text in page.markdown)
    queue_button(page).click().run()
    (kept,) = empty_store.experiments.list()
    assert any(f"/live?experiment={kept.id}" in text.value for text in page.markdown)


@pytest.mark.slow
@pytest.mark.parametrize("press", ["add", "remove", "open"])
def test_a_press_during_a_change_of_the_draft_leaves_a_page_that_works(
    press: str, empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    """A run is stopped at the first access to the session in app.setup.draft, at the second one, and so on."""
    for number in range(1, 40):
        page = AppTest.from_file(VIEW, default_timeout=60)
        if press != "open":
            page.run()
        if press == "add":
            adding(page).set_value("fedprox")
        elif press == "remove":
            page.button(key=f"setup_form.{page.session_state[drafts.DRAFT].ids[1]}.remove").click()
        with monkeypatch.context() as patch:
            session = StoppingSession(number)
            patch.setattr(drafts, "st", SimpleNamespace(session_state=session, warning=st.warning))
            page.run()
        page.run()
        assert not page.exception, number
        assert queue_button(page).label in (
            "Queue 6 runs",
            {"add": "Queue 8 runs", "remove": "Queue 4 runs"}.get(press),
        )
        if session.left > 0:  # it was not stopped
            break
    assert session.left > 0 and number > 3


def test_a_double_click_removes_one_method(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    page = opened()
    first, *others = page.session_state[drafts.DRAFT].ids
    page.button(key=f"setup_form.{first}.remove").click()
    press_during(monkeypatch, methods, "methods_section", widget_states=reported(page))
    page.run()
    assert page.session_state[drafts.DRAFT].ids == others


def test_a_choice_that_is_reported_twice_adds_one_method(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    page = opened()
    before = [entry["name"] for entry in written(page)["algorithms"]]
    adding(page).set_value("fedprox")
    with monkeypatch.context() as patch:
        press_during(patch, methods, "methods_section", widget_states=reported(page))
        page.run()
    assert [entry["name"] for entry in written(page)["algorithms"]] == [*before, "fedprox"]
    assert adding(page).value is None
    adding(page).set_value("cgpfl")
    states = reported(page)
    page.run()
    page._run(states)
    assert [entry["name"] for entry in written(page)["algorithms"]] == [*before, "fedprox", "cgpfl"]


@pytest.mark.slow
def test_a_double_click_begins_or_ends_one_sweep(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    page = opened()
    for act, swept in (("begin_sweep", {"lam": [0.5, 1, 2]}), ("end_sweep", None)):
        page.button(key=f"setup_form.m3.ditto.{act}.lam").click()
        with monkeypatch.context() as patch:
            press_during(patch, preview, "cost_panel", widget_states=reported(page))
            page.run()
        assert not page.exception and written(page)["algorithms"][2].get("sweep") == swept


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name"), [(drafts, "problems_of"), (methods, "methods_section")])
def test_a_number_typed_before_a_link_to_another_page_is_kept(
    module: object, name: str, empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = AppTest.from_file(VIEW.parents[1] / "main.py", default_timeout=60)
    page.switch_page("views/setup.py").run()
    page.number_input(key="setup_form.training.rounds").set_value(77)
    page.selectbox(key="setup_form.model.name").set_value("dnn")
    with monkeypatch.context() as patch:
        press_during(patch, module, name, page_script_hash=calc_hash("library"), query_string="")
        page.run()
    assert page.title[0].value == "Runs"
    page.switch_page("views/setup.py").run()
    assert page.number_input(key="setup_form.training.rounds").value == 77
    assert (written(page)["training"]["rounds"], written(page)["model"]["name"]) == (77, "dnn")


@pytest.mark.slow
def test_a_choice_that_the_browser_sends_after_a_link_to_another_page_does_no_harm(empty_store: Store):
    page = AppTest.from_file(VIEW.parents[1] / "main.py", default_timeout=60)
    page.switch_page("views/setup.py").run()
    page.selectbox(key="setup_form.partition.name").set_value("dirichlet").run()
    for chosen in (
        page.select_slider(key="setup_form.partition.dirichlet.alpha.dial").set_value(10.0),
        page.selectbox(key="setup_form.dataset.name").set_value("usps"),
    ):
        states = reported(page)
        page.switch_page("views/library.py").run()
        page.switch_page("views/setup.py")
        page._run(states)
        assert not page.exception, chosen.key


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "module", "name"),
    [
        ("queue", methods, "methods_section"),
        ("queue.digits-first.quick", launch, "new_runs"),
    ],
)
def test_a_press_before_anything_is_queued_queues_nothing_and_the_page_says_so(
    key: str, module: object, name: str, empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = opened(DIGITS)
    states = reported(page)
    page.button(key=key).click()
    with monkeypatch.context() as patch:
        press_during(patch, module, name, widget_states=states)
        page.run()
    assert empty_store.experiments.list() == [] and "Nothing was queued" in page.warning[0].value
    presets = page.get("popover")[0]
    assert presets.button and not presets.warning, "it is closed"
    page.run()
    assert not page.warning
    page.button(key=key).click().run()
    assert len(empty_store.experiments.list()) == 1 and not page.warning
    assert page.success or key != "queue", "a preset opens Live at once"


@pytest.mark.parametrize(
    ("name", "label"), [("digits-first", "See the result"), ("cgpfl-fig3", "Compare with the paper")]
)
def test_the_link_of_a_preset_says_what_papers_shows_without_any_runs(name: str, label: str):
    assert in_papers(load_preset(name)) == label


def test_queue_pressed_right_after_a_mistake_was_typed_says_only_what_the_mistake_is(empty_store: Store):
    page = opened(DIGITS)
    page.number_input(key="setup_form.training.rounds").set_value(0)
    queue_button(page).click().run()
    assert queue_button(page).disabled and not page.warning
    assert messages(page) == ["Must be at least 1", "Fix first: Rounds."]
    assert empty_store.experiments.list() == []


def queue_and_another_pressed(patch: pytest.MonkeyPatch, module: object, name: str) -> AppTest:
    """A page on which Queue was pressed; in the next run, another press comes at this function of the module."""
    page = opened(DIGITS)
    states = reported(page)
    queue_button(page).click()
    press_during(patch, module, name, widget_states=states)
    return page


def test_a_press_on_queue_is_forgotten_after_a_minute(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    page = queue_and_another_pressed(monkeypatch, methods, "methods_section")
    monkeypatch.setattr("app.components.queue_button.RECENT_S", 0)
    page.run()
    assert not page.warning and empty_store.experiments.list() == []


@pytest.mark.slow
def test_set_up_says_that_nothing_was_queued_also_if_queueing_took_minutes_before_it_was_stopped(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = queue_and_another_pressed(monkeypatch, launch, "new_runs")
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 2 * RECENT_S)
    monkeypatch.setattr("app.components.queue_button.time", later)
    page.run()
    assert empty_store.experiments.list() == [] and "Nothing was queued" in page.warning[0].value


@pytest.mark.slow
def test_queue_pressed_in_a_page_that_the_server_draws_for_the_first_time_queues_the_runs(empty_store: Store):
    page = opened(DIGITS)
    queue_button(page).click()
    after_a_restart = AppTest.from_file(VIEW, default_timeout=60)
    after_a_restart.query_params["config"] = page.query_params["config"]
    after_a_restart._run(reported(page))
    assert len(empty_store.experiments.list()) == 1 and after_a_restart.success


@pytest.mark.slow
def test_a_press_while_an_experiment_is_stored_does_not_say_that_nothing_was_queued(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = queue_and_another_pressed(monkeypatch, Experiments, "create_all")
    page.run()
    assert len(empty_store.experiments.list()) == 1 and not page.warning


@pytest.mark.slow
def test_a_link_right_after_queue_queues_nothing_and_set_up_says_so(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = AppTest.from_file(VIEW.parents[1] / "main.py", default_timeout=60)
    page.switch_page("views/setup.py").run()
    queue_button(page).click()
    with monkeypatch.context() as patch:
        press_during(patch, methods, "methods_section", page_script_hash=calc_hash("live"), query_string="")
        page.run()
    page.switch_page("views/setup.py").run()
    assert "Nothing was queued" in page.warning[0].value and empty_store.experiments.list() == []


def test_a_change_made_while_the_page_was_first_drawn_is_in_the_address_and_back_undoes_it(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = AppTest.from_file(VIEW, default_timeout=60)
    with monkeypatch.context() as patch:
        patch.setattr(drafts, "keep", lambda *_: stop_this_run())
        page.run()
    page.session_state["setup_form.training.rounds"] = 7
    page.run()
    assert unpack_config(str(page.query_params["config"]))["training"]["rounds"] == 7
    page.query_params.clear()
    monkeypatch.setattr(url_state, "is_back_or_forward", lambda: True)
    page.run()
    assert written(page)["training"]["rounds"] == drafts.DEFAULT["training"]["rounds"]


def test_back_to_the_plain_address_keeps_a_draft_that_came_from_a_link(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
):
    page = opened(DIGITS | {"training": {"rounds": 13}})
    page.number_input(key="setup_form.training.rounds").set_value(14).run()
    page.query_params.clear()
    monkeypatch.setattr(url_state, "is_back_or_forward", lambda: True)
    page.run()
    assert written(page)["training"]["rounds"] == 14


def test_a_refusal_of_the_database_is_shown_at_the_button(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **named: object) -> None:
        raise StorageError("the disk is full")

    page = opened(DIGITS)
    monkeypatch.setattr("storage.experiments.Experiments.create_all", refuse)
    queue_button(page).click().run()
    assert not page.exception and "the disk is full" in messages(page)


def test_existing_runs_are_offered(read_store: Store):
    page = opened(DIGITS)
    assert "These runs already exist" in page.info[0].value
    page.button(key="open_known").click().run()
    assert any("/compare?runs=" in text.value for text in page.markdown)


def test_a_method_that_does_not_support_the_model_is_reported_first(empty_store: Store):
    page = opened(DIGITS | {"model": {"name": "cnn"}})
    assert queue_button(page).disabled
    assert any("16 x 16" in message for message in messages(page))


def test_an_upload_is_stored_once_under_a_safe_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    first = save_upload("../../my data.csv", b"a,label\n1,0\n")
    assert first == save_upload("../../my data.csv", b"a,label\n1,0\n")
    assert (tmp_path / first).read_bytes() == b"a,label\n1,0\n" and (tmp_path / first).parent == tmp_path / "uploads"


def test_an_upload_of_another_type_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    with pytest.raises(DataUnavailable, match=r"known: npz, csv, parquet"):
        save_upload("model.pkl", b"cos")
    assert not list(tmp_path.iterdir())


def test_an_uploaded_file_with_pickles_is_refused_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    np.savez(tmp_path / "evil.npz", x=np.array([object()], dtype=object), y=np.zeros(1))
    page = opened(DIGITS | {"dataset": {"name": "custom", "path": "evil.npz"}})
    assert queue_button(page).disabled and any("evil.npz" in message for message in messages(page))


def test_viewing_the_page_downloads_nothing_and_a_number_survives_when_its_field_becomes_a_slider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Store
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr("engine.datasets.idx.IdxFiles.load", lambda *_: pytest.fail("it tried to load"))
    page = opened(DIGITS | {"dataset": {"name": "mnist"}})
    assert page.button(key="download").label == "Download MNIST"
    assert not page.error and not queue_button(page).disabled
    page.selectbox(key="setup_form.dataset.name").set_value("digits").run()
    assert written(page)["partition"]["classes_per_client"] == 3 and not page.error
