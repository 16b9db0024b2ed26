"""Forms drawn from a schema, outside of any page."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.forms import label_of, parameters_of, read_list, read_value
from tests.app.options import Everything, every_options_class


def draw(values: dict, problems: list) -> None:
    import streamlit as st

    from app.forms import Form
    from tests.app.options import Everything

    form = Form("form")
    chosen = form.options(Everything, values, "a.b", stand_ins={"personal_lr": 0.05})
    st.session_state["chosen"], st.session_state["rest"] = chosen, form.show(problems)


def drawn(values: dict[str, Any] | None = None, problems: list[str] | None = None) -> AppTest:
    page = AppTest.from_function(draw, kwargs={"values": values or {}, "problems": problems or []}).run()
    assert not page.exception
    return page


def test_a_form_starts_at_the_defaults_and_omits_unset_options():
    assert drawn().session_state["chosen"] == {
        "lam": "auto",
        "steps": 3,
        "personal_lr": "training",
        "law": "a",
        "sizes": "equal",
        "is_fair": False,
        "path": "here",
    }


def test_given_values_fill_the_form():
    given = {
        "lam": 2.5,
        "steps": 7,
        "personal_lr": 0.1,
        "law": "b",
        "sizes": [400, 5000],
        "limit": 4,
        "is_fair": True,
        "path": "there",
    }
    assert drawn(given).session_state["chosen"] == given


def test_an_empty_number_is_its_default_word():
    page = drawn({"lam": 2.5})
    page.number_input(key="form.a.b.lam").set_value(None).run()
    assert page.session_state["chosen"]["lam"] == "auto"
    assert page.number_input(key="form.a.b.personal_lr").placeholder == "as in training (0.05)"
    limit = page.number_input(key="form.a.b.limit")
    assert limit.placeholder == "no limit" and limit.help.endswith("Empty: no limit.")


def test_a_number_replaces_the_default_word():
    page = drawn()
    page.number_input(key="form.a.b.lam").set_value(12.0).run()
    assert page.session_state["chosen"]["lam"] == 12.0


def test_two_numbers_are_separated_by_a_comma():
    page = drawn()
    page.text_input(key="form.a.b.sizes.text").set_value("400, 5000").run()
    assert page.session_state["chosen"]["sizes"] == [400, 5000]


@pytest.mark.parametrize("value", ["many", float("inf"), 2.5, [1], 10**30])
def test_values_that_a_field_cannot_hold_are_shown_as_text(value):
    page = drawn({"steps": value})
    assert page.text_input(key="form.a.b.steps.text").value


def test_a_message_is_shown_at_its_field_and_others_are_returned():
    page = drawn(problems=["a.b.steps: 0, should be at least 1", "elsewhere: no"])
    assert [error.value for error in page.error] == ["0, should be at least 1"]
    assert page.session_state["rest"] == ["elsewhere: no"]


def test_a_message_about_a_field_that_is_not_drawn_names_it():
    page = drawn(problems=["a.b.steps.first: 0, should be at least 1"])
    assert [error.value for error in page.error] == ["first: 0, should be at least 1".replace(":", "\\:")]


def test_a_label_has_symbol_name_and_direction():
    labels = {p.name: label_of(p) for p in parameters_of(Everything)}
    assert labels["lam"] == "λ (lam; larger = more global)"
    assert labels["personal_lr"] == "Personal learning rate"


def draw_one(kind: str, values: dict) -> None:
    import streamlit as st

    from app.forms import Form
    from tests.app.options import every_options_class

    st.session_state["chosen"] = Form("form").options(dict(every_options_class())[kind], values, "at")


@pytest.mark.slow
def test_every_registered_entry_has_a_valid_form():
    for kind, options in every_options_class():
        needed = {p.name: "file.npz" for p in parameters_of(options) if p.required}
        page = AppTest.from_function(draw_one, kwargs={"kind": kind, "values": needed}).run()
        assert not page.exception, kind
        assert options.model_validate(page.session_state["chosen"]) == options.model_validate(needed), kind


def test_one_of_several_words_is_kept_and_can_be_typed():
    kind = "algorithm pfedfda"
    page = AppTest.from_function(draw_one, kwargs={"kind": kind, "values": {"beta": "single"}}).run()
    assert page.session_state["chosen"]["beta"] == "single"
    field = page.text_input(key="form.at.beta.text")
    assert field.help.endswith("A number, or one of: double, single.")
    for typed, value in {"double": "double", "0.3": 0.3}.items():
        field.set_value(typed).run()
        assert page.session_state["chosen"]["beta"] == value


def test_lists_are_parsed_as_written():
    assert read_list("1, 0.5, auto") == [1, 0.5, "auto"]
    assert read_list("[1, 2]") == [1, 2]
    assert read_list("") == []
    assert read_list("{") == "{"
    assert read_value("1e-3") == 0.001
