"""A browser that has not heard of the last press when it sends the next takes nothing back, and presses nothing."""

import pytest
from streamlit.testing.v1 import AppTest

from app.state import browser


def script() -> None:
    import streamlit as st

    from app.state import address, browser

    browser.begin()
    model = address.switch("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
    tail = address.pick("Tail", {"5": "5 %", "10": "10 %", "20": "20 %"}, "tail", "5")
    best = address.pick("Best", {"fedavg": "FedAvg", "ditto": "Ditto"}, "best", "fedavg" if tail == "5" else "ditto")
    st.button("Take all", key="all", on_click=lambda: browser.put(model=None))
    st.button("Other", key="other", on_click=browser.catch_up)
    st.write(f"{model} {tail} {best}")


@pytest.fixture
def page() -> AppTest:
    return AppTest.from_function(script, default_timeout=30).run()


def said(page: AppTest) -> str:
    assert not page.exception
    return str(page.markdown[-1].value)


def written(page: AppTest) -> dict[str, str]:
    """The address; of a name that was set from outside a test has the text, else a list of one."""
    return {name: said if isinstance(said, str) else said[0] for name, said in page.query_params.items()}


def press(
    page: AppTest,
    *,
    late: dict[str, str] | None = None,
    model: str | None = None,
    tail: str | None = None,
    other: bool = False,
) -> None:
    """A press by a browser whose address is ``late``, where that is given."""
    if late is not None:
        page.query_params.clear()
        page.query_params.update(late)
    if model:
        page.segmented_control[0].set_value(model)
    if tail:
        page.selectbox[0].set_value(tail)
    if other:
        page.button(key="other").click()
    page.run()


def test_a_press_is_in_the_address_and_the_default_leaves_no_trace(page: AppTest) -> None:
    press(page, model="global")
    assert written(page) == {"model": "global"} and said(page) == "global 5 fedavg"
    press(page, model="personal")
    assert written(page) == {} and said(page) == "personal 5 fedavg"


def test_a_press_that_left_before_the_address_arrived_takes_nothing_back(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, tail="10")
    assert written(page) == {"model": "global", "tail": "10"} and said(page) == "global 10 ditto"


def test_a_press_on_something_that_is_not_in_the_address_takes_nothing_back(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, other=True)
    assert said(page) == "global 5 fedavg"
    press(page, late={}, tail="10")
    assert said(page) == "global 10 ditto"


def test_of_two_presses_on_one_control_the_last_counts_however_late_the_address_is(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, model="personal")
    press(page, late={"model": "global"}, tail="10")
    assert written(page) == {"tail": "10"} and said(page) == "personal 10 ditto"
    press(page, late={}, model="global")
    assert said(page) == "global 10 ditto"


def test_an_address_from_before_several_presses_takes_none_of_them_back(page: AppTest) -> None:
    press(page, tail="10")
    press(page, late={}, tail="20")
    press(page, late={}, model="global")
    assert said(page) == "global 20 ditto"


def test_back_takes_a_choice_back_for_good(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={})
    assert said(page) == "personal 5 fedavg"
    press(page, tail="10")
    assert written(page) == {"tail": "10"}


def test_what_another_has_written_since_stays(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={"best": "ditto"}, tail="10")
    assert said(page) == "global 10 ditto" and written(page)["best"] == "ditto"


def test_after_a_while_the_browser_is_believed(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    monkeypatch.setattr(browser, "LATE_S", 0.0)
    press(page, late={}, tail="10")
    assert said(page) == "personal 10 ditto"


def test_what_is_not_known_is_the_default(page: AppTest) -> None:
    press(page, late={"model": "everybody's", "tail": "10"})
    assert said(page) == "personal 10 ditto"


def report(page: AppTest, **labels: str) -> None:
    """A run in which the browser reports these titles, whatever it was told."""
    late = page._tree.get_widget_states()
    for state in late.widgets:
        for control, label in labels.items():
            if state.id.endswith(f"address_{control}"):
                if state.HasField("string_array_value"):
                    state.string_array_value.data[:] = [label]
                else:
                    state.string_value = label
    page._run(late)


def test_the_old_value_of_a_control_that_has_moved_is_no_press(page: AppTest) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    assert said(page) == "personal 5 fedavg"
    report(page, model="Global", tail="10 %")
    assert said(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_the_old_value_of_a_control_whose_default_has_moved_is_no_press(page: AppTest) -> None:
    press(page, tail="10")
    assert said(page) == "personal 10 ditto"
    report(page, best="FedAvg", model="Global")
    assert said(page) == "global 10 ditto" and written(page) == {"tail": "10", "model": "global"}


def test_a_press_back_beside_another_counts_once_the_browser_has_drawn_what_the_control_was_moved_to(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    monkeypatch.setattr(browser, "LATE_S", 0.0)
    press(page, tail="10")
    report(page, model="Global", tail="20 %")
    assert said(page) == "global 20 ditto" and written(page) == {"model": "global", "tail": "20"}


def test_the_browser_s_back_presses_no_control_that_it_does_not_draw(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    monkeypatch.setattr(browser, "has_gone_back", lambda: True)
    report(page, model="Global")
    assert said(page) == "personal 5 fedavg" and written(page) == {}


def test_a_press_back_to_what_a_control_showed_before_it_was_moved_counts(page: AppTest) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    assert said(page) == "personal 5 fedavg"
    press(page, model="global")
    assert said(page) == "global 5 fedavg" and written(page) == {"model": "global"}
    press(page, late={}, tail="10")
    assert said(page) == "global 10 ditto"


def test_an_old_value_without_any_press_is_none_while_the_browser_is_behind(page: AppTest) -> None:
    press(page, tail="10")
    page.query_params.clear()
    report(page, best="FedAvg", tail="10 %")
    assert said(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_a_control_that_the_browser_does_not_draw_presses_nothing_however_long_ago_it_was_moved(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    monkeypatch.setattr(browser, "LATE_S", 0.0)
    for tail in ("10", "20"):
        report(page, model="Global", tail=f"{tail} %")
        assert said(page) == f"personal {tail} ditto" and written(page) == {"tail": tail}


def test_a_control_is_told_its_value_only_where_the_browser_does_not_say_it(page: AppTest) -> None:
    assert page.segmented_control[0].proto.set_value
    press(page, tail="10")
    assert not page.segmented_control[0].proto.set_value
    reported = page._tree.get_widget_states()
    own = next(state for state in reported.widgets if state.id.endswith("address_model"))
    reported.widgets.remove(own)
    page._run(reported)
    assert page.segmented_control[0].proto.set_value and said(page) == "personal 10 ditto"


def changing() -> None:
    import streamlit as st

    from app.state import address, browser

    browser.begin()
    of = address.pick("Of", {"a": "A", "b": "B"}, "of", "a")
    first = {"a": 1, "b": 4}[of]
    own = {str(first + i): f"seed {i}" for i in range(3 if of == "a" else 2)}
    seed = address.pick("Seed", own, "seed", str(first))
    at = address.slide("At", {str(first + i): f"at {first + i}" for i in range(2)}, "at", str(first + 1))
    model = address.pick("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
    if st.session_state.pop("again", False):
        browser.rerun()
    st.button("Again", on_click=lambda: [browser.catch_up(), st.session_state.update(again=True)])
    st.write(f"{of} {seed} {at} {model}")


def test_a_title_that_belongs_to_another_value_by_now_is_no_press() -> None:
    page = AppTest.from_function(changing, default_timeout=30).run()
    page.selectbox[1].set_value("2").run()
    assert said(page) == "a 2 2 personal"
    page.selectbox[0].set_value("b").run()
    assert said(page) == "b 4 5 personal"
    report(page, seed="seed 1", at="at 2", model="Global")
    assert said(page) == "b 4 5 global"


def test_a_title_that_no_option_has_is_no_press() -> None:
    page = AppTest.from_function(changing, default_timeout=30).run()
    page.selectbox[0].set_value("b").run()
    report(page, seed="seed 2")
    assert said(page) == "b 4 5 personal" and "seed" not in written(page)


def test_a_page_that_draws_itself_again_forgets_nothing() -> None:
    page = AppTest.from_function(changing, default_timeout=30).run()
    page.selectbox[0].set_value("b").run()
    page.button[0].click()
    page.run()
    assert written(page) == {"of": "b"}
    page.query_params.clear()
    page.selectbox[2].set_value("global").run()
    assert written(page) == {"of": "b", "model": "global"}


def parting() -> None:
    import streamlit as st

    from app.state import browser

    browser.begin()
    st.session_state.setdefault("count", 0)

    def counted() -> None:
        browser.catch_up()
        st.session_state["count"] += 1

    is_hidden = st.checkbox("Hide", on_change=browser.catch_up)
    if not is_hidden:
        browser.show("letter", st.session_state.get("letter", "a"))
        st.selectbox("Letter", ["a", "b"], key="letter", on_change=browser.pressed, args=("letter", counted))
    st.write(str(st.session_state["count"]))


def test_a_control_that_is_not_drawn_any_more_does_not_press_itself() -> None:
    page = AppTest.from_function(parting, default_timeout=30).run()
    page.selectbox[0].set_value("b").run()
    assert said(page) == "1"
    late = page._tree.get_widget_states()
    page.checkbox[0].check().run()
    late.MergeFrom(page._tree.get_widget_states())
    page._run(late)
    assert said(page) == "1"


def test_a_press_back_counts_though_the_first_one_was_never_shown() -> None:
    page = AppTest.from_function(parting, default_timeout=30).run()
    shown = page._tree.get_widget_states()
    page.selectbox[0].set_value("b")
    page.checkbox[0].check().run()  # the control goes before it was drawn with its new value
    assert said(page) == "1"
    page._run(shown)
    assert said(page) == "2"


def test_a_control_whose_value_gets_another_title_shows_it() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import browser

        browser.begin()
        runs = st.session_state.setdefault("runs", 5)
        titles = {1: f"digits, {runs} runs", 2: "other, 3 runs"}
        browser.show("experiment", 1, titles)
        st.selectbox(
            "Experiment",
            list(titles),
            format_func=titles.__getitem__,
            key="experiment",
            on_change=browser.pressed,
            args=("experiment", lambda: st.error("pressed")),
        )
        st.button("Retry", key="retry", on_click=browser.catch_up)

    page = AppTest.from_function(script, default_timeout=30).run()
    page.session_state["runs"] = 6
    page.button(key="retry").click().run()
    assert not page.exception and not page.error
    assert page.selectbox[0].proto.set_value and page.selectbox[0].proto.raw_value == "digits, 6 runs"
