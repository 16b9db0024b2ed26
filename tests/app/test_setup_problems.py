"""Wrong input in Set up: messages in the words of the page."""

from typing import Any

import pytest

from app.setup import draft as drafts
from app.setup.problem_words import in_words, label_at, labeled
from storage import Store
from tests.app.pages import words
from tests.app.test_setup import DIGITS, messages, opened

METHODS = [{"name": "fedavg"}, {"name": "ditto", "lam": -1}]


def test_names_in_messages_keep_their_case() -> None:
    raw = {"name": "untitled", **drafts.DEFAULT}
    assert labeled("algorithms: Ditto: lr must be small", raw) == "Methods: Ditto: lr must be small"
    assert labeled("training.rounds: Must be at least 1", raw).endswith(": must be at least 1")


def found(**changed: Any) -> list[str]:
    raw = {"name": "untitled", **drafts.DEFAULT, **changed}
    return in_words(drafts.problems_of(raw), raw)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seeds": [0, "one"]}, "seeds: Whole numbers separated by commas, each only once, such as 0, 1, 2"),
        (
            {"seeds": [-1]},
            "seeds: Whole numbers from 0 to 4\u2009294\u2009967\u2009295 separated by commas, each only once, such as "
            "0, 1, 2",
        ),
        ({"aggregator": {"name": "multi_krum", "keep": -7}}, "aggregator.keep: Must be at least 1, or “A-f”"),
        (
            {"algorithms": ["ditto", "ditto"]},
            "algorithms: Two methods have the same name; give one of them another label",
        ),
        ({"splits": [1, 1]}, "splits: Whole numbers separated by commas, each only once, such as 0, 1, 2"),
        ({"training": {"rounds": 0}}, "training.rounds: Must be at least 1"),
        ({"training": {"lr": "fast"}}, "training.lr: Must be a number"),
        ({"training": {"batch_size": "x"}}, "training.batch_size: Must be a whole number, or “full”"),
        ({"name": "x" * 300}, "name: Must be one line of at most 200 characters"),
        ({"privacy": {"clip": 0}}, "privacy.clip: Must be above 0, or “adaptive”"),
        ({"algorithms": []}, "algorithms: Add at least one method"),
        (
            {"training": {"local_epochs": 1, "local_steps": 1}},
            "training: local steps and local epochs are mutually exclusive; set only one",
        ),
    ],
    ids=str,
)
def test_messages_have_no_notation_of_configuration_files(changed: dict[str, Any], message: str) -> None:
    assert found(**changed) == [message]


def test_an_error_of_the_split_begins_with_a_capital(empty_store: Store) -> None:
    page = opened(DIGITS | {"partition": {"name": "classes_per_client", "num_clients": 700, "classes_per_client": 10}})
    assert any(message.startswith("Class ") for message in messages(page)), messages(page)


@pytest.mark.parametrize(
    ("seeds", "note"), [("3", "1 seed: 3. For 3 seeds, type 0, 1, 2."), ("0", "1 seed: 0."), ("100", "1 seed: 100.")]
)
def test_a_single_seed_is_said_to_be_one(seeds: str, note: str, empty_store: Store) -> None:
    page = opened(DIGITS)
    assert "1 seed: " not in words(page)
    page.text_input(key="setup_form.seeds").set_value(seeds).run()
    assert note in words(page)


def test_a_seed_that_is_too_large_is_told_the_limit() -> None:
    assert "from 0 to 4\u2009294\u2009967\u2009295 separated by commas" in found(seeds=[2**32])[0]


def test_too_many_clients_are_told_the_number_that_the_data_allow(empty_store: Store) -> None:
    page = opened(DIGITS | {"partition": {"name": "iid", "num_clients": 5000}})
    assert [message.replace("\\", "") for message in messages(page)] == [
        "At most 898 clients: Digits has 1\u2009797 samples and each client needs at least 2",
        "Fix first: Clients.",
    ]


def test_fields_are_named_by_their_labels() -> None:
    raw = {**drafts.DEFAULT, "algorithms": METHODS, "attack": {"name": "sign_flip", "share": 2.0}}
    paths = (
        "seeds",
        "partition.num_clients",
        "training.lr",
        "algorithms.1.lam",
        "attack.share",
        "threads",
        "partition",
    )
    assert [label_at(path, raw) for path in paths] == [
        "Seeds",
        "Clients",
        "Learning rate",
        "Ditto λ",
        "Malicious share",
        "Threads",
        "Data split",
    ]
    assert labeled("training.lr: Must be above 0", raw) == "Learning rate: must be above 0"


def test_options_in_other_messages_are_written_as_words() -> None:
    raw = {**drafts.DEFAULT}
    problem = "partition.classes_per_client: classes_per_client=11 exceeds the 10 classes"
    assert in_words([problem], raw) == ["partition.classes_per_client: Classes per client 11 exceeds the 10 classes"]
