"""Dials in Set up: switched on one by one, with what the chosen methods refuse or cannot use."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.setup import draft as drafts
from app.setup.dial_options import in_words
from app.setup.dial_problems import at_dial, dial_of, refused
from app.setup.dials import FIRST, MEANINGS, meaning
from app.setup.sweeps import num_points, shared
from app.wording import capital
from engine.config.schema import DIAL_KEYS, DIALS, parse_experiment
from engine.core.registry import AGGREGATORS, ATTACKS, COMPRESSORS
from storage import Store
from tests.app.pages import words
from tests.app.samples import DIGITS
from tests.app.test_setup import adding, expand, expanders, messages, opened, queue_button, written

SMALL = DIGITS | {"algorithms": [{"name": "fedavg"}, {"name": "local_train"}], "seeds": [0]}
ATTACK = {"name": "sign_flip", "share": 0.3, "scale": 2.0}
SYSTEM = {"compute_s": 0.01, "deadline_s": 2.0, "over_select": 1.5}
UNTIMED = {"training": {"rounds": 0}}  # a mistake, so that no method is timed


def switch(page: AppTest, dial: str, on: bool = True) -> AppTest:
    page.toggle(key=f"setup_form.{dial}.on").set_value(on).run()
    assert not page.exception
    return page


def plain_messages(page: AppTest) -> list[str]:
    return [message.replace("\\", "") for message in messages(page)]


def captions(page: AppTest) -> list[str]:
    return [caption.value.replace("\\", "") for caption in page.caption]


def test_every_dial_has_a_sentence_and_something_to_start_with():
    assert set(MEANINGS) == set(FIRST) == set(DIALS)
    assert all(FIRST[dial] in DIALS[dial] for dial in DIALS)
    for dial in DIAL_KEYS:
        assert meaning(dial).endswith(".") and meaning(dial).count(". ") == 0 and len(meaning(dial)) < 120


def test_all_dials_are_listed_and_off(empty_store: Store):
    page = opened()
    toggles = {toggle.key.split(".")[1]: toggle for toggle in page.toggle if toggle.key != "setup_form.tune.on"}
    assert list(toggles) == list(DIAL_KEYS) and not any(toggle.value for toggle in toggles.values())
    for dial, toggle in toggles.items():
        assert toggle.label == capital(dial) and meaning(dial) in words(page)
    assert not set(DIAL_KEYS) & set(written(page))


@pytest.mark.slow
def test_a_dial_is_switched_on_and_off_again(empty_store: Store):
    page = opened(SMALL)
    before = written(page)
    for dial in DIAL_KEYS:
        switch(page, dial)
        assert set(written(page)) - set(before) == {dial} and "config" in page.query_params
        assert getattr(parse_experiment(written(page)).runs()[0], dial) is not None
        assert not queue_button(page).disabled, dial
        assert written(switch(page, dial, on=False)) == before


@pytest.mark.slow
def test_every_kind_draws_its_options(empty_store: Store):
    page = opened(SMALL | UNTIMED)
    for dial, known in DIALS.items():
        switch(page, dial)
        for entry in known:
            page.selectbox(key=f"setup_form.{dial}.name").set_value(entry.name).run()
            assert not page.exception, entry.name
            assert written(page)[dial] == {"name": entry.name, **entry.options().model_dump(mode="json")}


def test_a_link_with_dials_opens_with_the_same_runs(empty_store: Store):
    config = SMALL | {"attack": ATTACK, "aggregator": "krum", "compression": {"name": "qsgd"}, "system": SYSTEM}
    page = opened(config)
    same = [run.digest for run in parse_experiment(config).runs()]
    assert [run.digest for run in parse_experiment(written(page)).runs()] == same
    expand(page, "system")
    assert [run.digest for run in parse_experiment(written(page)).runs()] == same
    assert page.number_input(key="setup_form.system.over_select").value == 1.5


def test_another_kind_has_its_own_defaults(empty_store: Store):
    page = opened(SMALL | UNTIMED | {"attack": ATTACK})
    page.selectbox(key="setup_form.attack.name").set_value("gaussian").run()
    assert written(page)["attack"] == {"name": "gaussian", "share": 0.2, "scale": 1.0}


def test_what_is_closed_names_what_differs(empty_store: Store):
    page = opened(SMALL | UNTIMED | {"system": SYSTEM})
    assert "More · over-selection 1.5" in expanders(page)


def test_a_mistake_in_a_dial_is_shown_at_its_field(empty_store: Store):
    page = opened(SMALL | {"attack": ATTACK | {"share": 2.0}, "system": {"over_select": 3.0}})
    assert page.session_state["expander.setup_form.system"], "its section is open"
    assert messages(page)[:2] == ["Must be below 1", "Must be at most 2"]
    assert "Fix first: Malicious share, Over-selection." in plain_messages(page)


def test_a_dial_that_cannot_be_drawn_is_off(empty_store: Store):
    given = {"attack": "sign_flipp", "aggregator": [1], "system": 5, "compression": None, "privacy": None}
    page = opened(SMALL | UNTIMED | given)
    assert not set(given) & set(written(page))
    assert [warning.value.replace("\\", "") for warning in page.warning] == [
        "no attack named 'sign_flipp'; attack is off",
        "no aggregator named '[1]'; aggregator is off",
        "system: 5 is not a mapping of names to values and was ignored",
    ]


def test_a_refusal_is_shown_at_the_dial_before_anything_is_timed(empty_store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.setup.cost.cost_of", lambda _: pytest.fail("a method was timed"))
    page = opened(SMALL | {"algorithms": ["fedproto", "scaffold"], "aggregator": "krum"})
    assert plain_messages(page) == [
        "fedproto does not average models, so aggregator: krum has nothing to act on; use aggregator: mean  \n"
        "scaffold sends two things, and krum might keep different clients for each; use aggregator: mean, or median",
        "Fix first: Aggregator.",
    ]
    assert queue_button(page).disabled


def test_a_method_is_shown_with_the_dials_of_its_own_and_what_refuses_them(empty_store: Store):
    methods = [{"name": "fedavg", "aggregator": "median"}, {"name": "fedproto", "aggregator": {"name": "median"}}]
    page = opened(SMALL | {"algorithms": [*methods, {"name": "ditto", "system": {"drop_out": 0.5}}]})
    assert captions(page).count("For this method only: aggregator Median.") == 2
    assert "For this method only: system, drop-out 0.5." in captions(page)
    assert plain_messages(page)[0].startswith("aggregator: fedproto does not average models")
    assert [entry.get("aggregator") for entry in written(page)["algorithms"]] == ["median", {"name": "median"}, None]


OWN = {"name": "fedavg", "finetune_steps": 0, "privacy": {"noise": 3.0}, "attack": {"share": 0.1}, "system": None}
SHARED = {"privacy": {"unit": "client", "noise": 1.0}, "attack": ATTACK, "system": SYSTEM}


def own_part(page: AppTest, dial: str, part: str) -> Any:
    """A widget of a method's own dial; its key has a digest of the experiment's."""
    kinds = {"on": page.toggle, "noise": page.number_input, "share": page.number_input, "name": page.selectbox}
    own = [w for w in kinds[part] if w.key.startswith("setup_form.m") and f".{dial}." in w.key]
    (found,) = [w for w in own if w.key.endswith(part)]
    return found


def open_method(config: dict[str, Any]) -> AppTest:
    """Set up with the section of the first method open."""
    page = opened(config)
    return expand(page, page.session_state[drafts.DRAFT].ids[0])


def test_dials_of_a_method_are_kept_as_they_were_given_and_drawn_in_its_section(empty_store: Store):
    page = opened(SMALL | SHARED | {"algorithms": [OWN]})
    assert written(page)["algorithms"][0] == OWN
    (line,) = [caption for caption in captions(page) if caption.startswith("For this method only: ")]
    assert "attack" in line and "privacy" in line and "no system" in line
    page = expand(page, page.session_state[drafts.DRAFT].ids[0])
    assert written(page)["algorithms"][0] == OWN
    assert own_part(page, "privacy", "noise").value == 3.0 and own_part(page, "attack", "share").value == 0.1
    assert not own_part(page, "system", "on").value and own_part(page, "attack", "name").value == "sign_flip"


@pytest.mark.slow
def test_a_dial_of_a_method_is_edited_switched_off_and_removed(empty_store: Store):
    page = open_method(SMALL | SHARED | {"algorithms": [OWN]})
    own_part(page, "privacy", "noise").set_value(2.0).run()
    entry = written(page)["algorithms"][0]
    run = parse_experiment({"name": "x", **written(page)}).runs()[0]
    assert run.privacy.noise == 2.0 and entry["attack"] == OWN["attack"]
    own_part(page, "attack", "on").set_value(False).run()
    assert written(page)["algorithms"][0]["attack"] is None
    (chosen,) = [m for m in page.multiselect if m.label == "Dials for this method only"]
    chosen.set_value(["system"]).run()
    assert {dial: own for dial, own in written(page)["algorithms"][0].items() if dial in DIAL_KEYS} == {"system": None}


def test_a_method_gets_a_dial_of_its_own_that_others_do_not_have(empty_store: Store):
    page = open_method(SMALL | {"algorithms": [{"name": "fedavg"}, {"name": "ditto"}]})
    chosen = next(m for m in page.multiselect if m.label == "Dials for this method only")
    chosen.set_value(["aggregator"]).run()
    first, second = parse_experiment({"name": "x", **written(page)}).runs()
    assert first.aggregator is not None and first.aggregator.name == FIRST["aggregator"] and second.aggregator is None


@pytest.mark.slow
def test_an_own_dial_without_a_key_of_the_experiment_empties_it(empty_store: Store):
    page = open_method(SMALL | {"system": SYSTEM, "algorithms": [{"name": "fedavg", "system": {}}]})
    (deadline,) = [w for w in page.number_input if w.key.startswith("setup_form.m") and w.key.endswith("deadline_s")]
    deadline.set_value(None).run()
    (run,) = parse_experiment({"name": "x", **written(page)}).runs()
    assert run.system.deadline_s is None and run.system.compute_s == 0.01


def test_a_sweep_of_a_methods_own_dial_is_kept_and_drawn_at_its_field(empty_store: Store):
    entry = {
        "name": "fedavg",
        "finetune_steps": 0,
        "privacy": {"unit": "client"},
        "sweep": {"privacy.noise": [1.0, 2.0]},
    }
    page = opened(SMALL | {"algorithms": [entry, {"name": "local_train"}]})
    assert written(page)["algorithms"][0] == entry
    assert any("privacy.noise swept" in label for label in expanders(page))
    page = expand(page, page.session_state[drafts.DRAFT].ids[0])
    assert written(page)["algorithms"][0] == entry and len([m for m in page.multiselect if "oise" in m.label]) == 1


def problems_of(**config: Any) -> list[str]:
    raw = {"name": "x"} | SMALL | config
    return refused(raw, parse_experiment(raw).runs())


def test_refusals_name_the_dial_or_the_method_that_sets_it():
    swept = {"name": "fedproto", "sweep": {"aggregator": ["mean", "krum"], "predict": ["head", "prototype"]}}
    (own,) = problems_of(algorithms=[{"name": "fedavg"}, swept])
    assert own.startswith("algorithms.1.aggregator: fedproto does not average models")
    of_all = {"attack": "labels", "aggregator": "median"}
    (shown,) = problems_of(algorithms=[{"name": "fedproto"}, {"name": "ditto"}], **of_all)
    assert shown.startswith("aggregator: fedproto")
    assert problems_of(**of_all) == []


def test_a_refusal_of_two_dials_together_is_shown_at_both(monkeypatch: pytest.MonkeyPatch):
    from engine.core.errors import Unsupported

    def refuse(run: Any) -> None:
        if run.attack and run.compression:
            raise Unsupported("not together")

    monkeypatch.setattr("app.setup.dial_problems.refuse", refuse)
    three = {"attack": "labels", "aggregator": "median", "compression": "top_k"}
    assert problems_of(**three) == ["attack: not together", "compression: not together"]


def test_a_dial_without_effect_says_so_beside_it(empty_store: Store):
    page = opened(SMALL | {"attack": ATTACK, "system": {"over_select": 2.0}})
    assert "Note: local_train: nothing is sent; attack has no effect." in captions(page)
    assert any(text.startswith("Note: system.over_select=2: all clients") for text in captions(page))
    drawn = [element.value for element in page.main if element.type == "caption"]
    place = next(i for i, text in enumerate(drawn) if "attack has no effect" in text)
    assert "trained" not in drawn[place] and place < len(drawn) - 1
    assert words(page).count("attack has no effect") == 1 and not queue_button(page).disabled


def test_a_note_belongs_to_the_dial_that_it_names():
    on = {"attack": ATTACK, "system": SYSTEM}
    assert dial_of("nothing is sent; attack has no effect", on) == "attack"
    assert dial_of("nothing is sent; aggregator has no effect", on) is None
    assert dial_of("system.tie=size: no client computes slower", on) == "system"
    assert dial_of("batch_size=400: 3 of 4 clients have only 9 attackers", on) is None
    assert at_dial("system.tie: 'context', but ...", on) == "system.tie: 'context', but ..."
    assert at_dial("system.tie=size, but ...", on) == "system.tie: system.tie=size, but ..."
    assert at_dial("no attack here", on) == "attack: no attack here" and at_dial("a model", on) is None


def test_a_tie_to_contexts_that_the_data_do_not_have_is_reported_at_the_dial(empty_store: Store):
    page = opened(SMALL | {"partition": "iid", "system": {"compute_s": 0.01, "tie": "context"}})
    assert any("these data have no contexts" in message for message in messages(page))
    assert "Fix first: Common trait of slow clients." in plain_messages(page)


def test_an_attack_by_all_clients_is_reported_at_its_option(empty_store: Store):
    page = opened(SMALL | {"attack": {"name": "sign_flip", "share": 0.99}})
    assert any("of 10 clients leaves no benign client to measure" in message for message in plain_messages(page))
    assert "Fix first: Malicious share." in plain_messages(page) and queue_button(page).disabled


def test_privacy_that_few_clients_do_not_allow_is_reported_at_its_option(empty_store: Store):
    page = opened(SMALL | {"privacy": {"clip": "adaptive", "noise": 1.0}})
    assert any("10 clients a round are too few to count privately" in message for message in plain_messages(page))
    assert "Fix first: Clip." in plain_messages(page) and queue_button(page).disabled
    page.number_input(key="setup_form.privacy.noise").set_value(0.5).run()
    assert not queue_button(page).disabled, "timing short rounds of few clients is no reason to refuse it"


def test_the_guarantee_of_private_clients_is_shown_at_the_dial(empty_store: Store):
    (note,) = [text for text in captions(opened(SMALL | {"privacy": {"noise": 2.0}})) if "guarantees" in text]
    assert note.startswith("Note: ") and "fedavg: noise z = 2 guarantees ε = " in note.replace("Note: ", "")


@pytest.mark.slow
def test_an_option_of_a_dial_is_swept_for_all_methods(empty_store: Store):
    page = switch(opened(SMALL), "attack")
    page.button(key="setup_form.training.begin_sweep.attack.share").click().run()
    assert [entry["sweep"] for entry in written(page)["algorithms"]] == [{"attack.share": [0.1, 0.2, 0.3]}] * 2
    assert queue_button(page).label == "Queue 6 runs"
    adding(page).set_value("ditto").run()
    assert written(page)["algorithms"][2]["sweep"] == {"attack.share": [0.1, 0.2, 0.3]}
    switch(page, "attack", on=False)
    assert not any("sweep" in entry for entry in written(page)["algorithms"])


def test_a_swept_option_that_is_empty_in_a_link_has_its_default(empty_store: Store):
    swept = {"name": "fedavg", "sweep": {"attack.share": [0.1, 0.4], "training.lr": [0.1]}}
    empty = {"attack": {"name": "labels", "share": None}, "training": {"rounds": 0, "lr": None}}
    page = opened(SMALL | empty | {"algorithms": [swept]})
    assert [warning.value for warning in page.warning] == ["Must not be empty; using the default."] * 2
    assert written(page)["attack"]["share"] == 0.2 and written(page)["training"]["lr"] == 0.05


def test_a_sweep_ends_with_the_kind_that_has_its_option(empty_store: Store):
    swept = {"name": "fedavg", "sweep": {"attack.how": ["random", "next"], "attack.share": [0.1, 0.4]}}
    page = opened(SMALL | UNTIMED | {"attack": "labels", "algorithms": [swept]})
    assert page.multiselect(key="setup_form.training.sweep.attack.how").value == ["random", "next"]
    page.selectbox(key="setup_form.attack.name").set_value("alie").run()
    assert "sweep" not in written(page)["algorithms"][0]


def test_options_of_dials_are_shared_where_the_dial_is_on_and_no_method_has_its_own():
    sweep = {"sweep": {"system.drop_out": [0, 0.5]}}
    assert shared({"algorithms": [sweep, sweep], "system": {}}) == sweep["sweep"]
    assert shared({"algorithms": [sweep, sweep]}) == {}
    assert shared({"algorithms": [sweep, {"system": None}], "system": {}}) == sweep["sweep"]
    assert shared({"algorithms": [sweep, {}], "system": {}}) == {}
    assert shared({"algorithms": [{"sweep": {"attack.shares": [0.1]}}], "attack": {"name": "labels"}}) == {}


def test_points_of_a_sweep_are_counted():
    assert [num_points(entry) for entry in ({}, {"sweep": {}}, {"sweep": {"a": [1, 2], "b": [3, 4, 5]}})] == [1, 1, 6]


@pytest.mark.parametrize(
    ("dial", "value", "expected"),
    [
        ("attack", None, "no attack"),
        ("aggregator", "median", "aggregator Median"),
        ("attack", ATTACK, "attack Sign flip, malicious share 0.3, scale 2"),
        ("attack", {"share": 0.3}, "attack"),
        ("compression", [1], "compression [1]"),
        ("system", SYSTEM, "system, seconds per gradient 0.01, deadline (s) 2, over-selection 1.5"),
        ("system", 5, "system"),
    ],
    ids=str,
)
def test_a_dial_of_one_method_in_words(dial: str, value: Any, expected: str):
    assert in_words(dial, value) == expected


def test_titles_of_kinds_are_distinct():
    for known in (ATTACKS, AGGREGATORS, COMPRESSORS):
        assert len({entry.title for entry in known}) == len(known.names())


def test_a_dial_is_dropped_from_a_draft_only_with_a_message():
    draft, dropped = drafts.drawable(SMALL | {"attack": "sign_flip", "system": {}, "aggregator": "nope"})
    assert draft["attack"] == {"name": "sign_flip"} and draft["system"] == {} and "aggregator" not in draft
    assert dropped == ["no aggregator named 'nope'; aggregator is off"]
