"""Set up in two levels: collapsed options keep their values, and the section's label names changed ones."""

from typing import Any

import pytest

from app.setup.draft import DEFAULT
from engine.config.presets import load_preset, preset_names
from engine.config.schema import parse_experiment
from storage import Store
from tests.app.samples import DIGITS
from tests.app.test_setup import expand, expanders, messages, opened, queue_button, written
from tests.app.test_setup_tuning import spaces

ADVANCED = DEFAULT | {
    "dataset": {"name": "digits", "standardize": True},
    "partition": {"name": "dirichlet", "num_clients": 12, "alpha": 0.37, "min_samples": 3, "holdout_clients": 0.25},
    "model": {"name": "mlr", "l2": 0.01},
    "training": {
        "rounds": 7,
        "local_epochs": 2,
        "batch_size": "full",
        "lr": 0.2,
        "lr_schedule": "step",
        "lr_decay": 0.1,
    },
    "algorithms": [
        {"name": "fedavg", "finetune_steps": 3, "label": "tuned", "training": {"momentum": 0.9}},
        {"name": "ditto", "lam": 1, "personal_lr": 0.3, "sweep": {"training.lr": [0.1, 0.2], "lam": [0, 2.5]}},
    ],
    "evaluation": {"every": 3},
    "backend": "loop",
}


def digests(config: dict[str, Any]) -> list[tuple[str, str]]:
    return [(run.label, run.digest) for run in parse_experiment({"name": "untitled"} | config).runs()]


def test_the_first_level_has_data_split_methods_and_rounds(empty_store: Store):
    page = opened()
    assert expanders(page) == ["More", "More", "More", "Advanced"]
    numbers = [field.key.removeprefix("setup_form.") for field in page.number_input]
    split = "partition.classes_per_client"
    assert numbers == [f"{split}.num_clients", f"{split}.classes_per_client", "m3.ditto.lam", "training.rounds"]


@pytest.mark.slow
def test_a_link_keeps_collapsed_options_and_names_what_differs_from_the_defaults(empty_store: Store):
    page = opened(ADVANCED)
    assert expanders(page) == [
        "More · label “tuned”, finetune steps 3 and momentum 0.9",
        "More · personal learning rate 0.3 and learning rate swept",
        "Advanced · standardize, minimum samples 3, unseen clients 0.25 and 8 more",
    ]
    assert digests(written(page)) == digests(ADVANCED)
    page.number_input(key="setup_form.training.rounds").set_value(8).run()
    changed = ADVANCED | {"training": ADVANCED["training"] | {"rounds": 8}}
    assert digests(written(page)) == digests(changed)
    for expander in ("m1", "m2", "advanced"):
        expand(page, expander)
    assert digests(written(page)) == digests(changed)
    page.number_input(key="setup_form.training.rounds").set_value(7).run()
    assert digests(written(page)) == digests(ADVANCED)


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.slow
def test_a_preset_opens_with_the_same_runs(name: str, empty_store: Store):
    config = load_preset(name).configs("quick")[0]
    shown = written(opened(config))
    assert digests(shown) == digests(config)
    assert "tune" not in config or spaces(shown) == spaces(config)


@pytest.mark.slow
def test_the_label_follows_a_change_once_the_fold_is_closed(empty_store: Store):
    page = expand(opened())
    page.number_input(key="setup_form.training.batch_size").set_value(32).run()
    assert expanders(page)[-1] == "Advanced"
    page.session_state["expander.setup_form.advanced"] = False
    page.run()
    assert expanders(page)[-1] == "Advanced · batch size 32" and written(page)["training"]["batch_size"] == 32


def test_another_data_set_has_its_own_defaults(empty_store: Store):
    page = opened(DEFAULT | {"dataset": {"name": "digits", "standardize": True}})
    assert expanders(page)[-1] == "Advanced · standardize"
    page.selectbox(key="setup_form.dataset.name").set_value("synthetic").run()
    assert expanders(page)[-1] == "Advanced" and "standardize" not in written(page)["dataset"]
    assert written(page)["partition"]["name"] == "natural" and not queue_button(page).disabled


@pytest.mark.parametrize(
    ("wrong", "expander"),
    [
        ({"training": {"lr": -1}}, "advanced"),
        ({"partition": {"name": "iid", "min_samples": 0}}, "advanced"),
        ({"checkpoint_s": 0}, "advanced"),
        ({"algorithms": [{"name": "fedavg"}, {"name": "ditto", "personal_lr": 0}]}, "m2"),
        ({"algorithms": [{"name": "fedavg", "training": {"lr": 0}}]}, "m1"),
    ],
    ids=str,
)
def test_a_fold_with_a_problem_is_open(wrong: dict[str, Any], expander: str, empty_store: Store):
    page = opened(DIGITS | wrong)
    assert page.session_state[f"expander.setup_form.{expander}"] and queue_button(page).disabled
    assert any("Must be a" in message for message in messages(page)[:-1]), "the last one is at the button"


@pytest.mark.slow
def test_any_alpha_can_be_typed(empty_store: Store):
    page = opened(DEFAULT | {"partition": {"name": "dirichlet", "num_clients": 10}})
    page.number_input(key="setup_form.partition.dirichlet.alpha").set_value(0.37).run()
    slider = page.select_slider(key="setup_form.partition.dirichlet.alpha.dial")
    assert written(page)["partition"]["alpha"] == slider.value == 0.37
    slider.set_value(10.0).run()
    assert written(page)["partition"]["alpha"] == 10
    assert page.number_input(key="setup_form.partition.dirichlet.alpha").value == 10
    page.number_input(key="setup_form.partition.dirichlet.alpha").set_value(0.0).run()
    assert any("above 0" in message for message in messages(page))
