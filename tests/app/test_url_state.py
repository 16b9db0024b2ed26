"""Choices in the address: a browser that is behind takes nothing back and presses nothing; Back and links are read."""

import pytest
from streamlit.testing.v1 import AppTest

from app.state import url_state


def script() -> None:
    import streamlit as st

    from app.state import url_state

    with url_state.page("test"):
        model = url_state.switch("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
        tail = url_state.pick("Tail", {"5": "5 %", "10": "10 %", "20": "20 %"}, "tail", "5")
        algorithms = {"fedavg": "FedAvg", "ditto": "Ditto"}
        best = url_state.pick("Best", algorithms, "best", "fedavg" if tail == "5" else "ditto")
        st.button("Take all", key="all", on_click=lambda: url_state.choose(model=None))
        st.button("Other", key="other")
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


def go_back(page: AppTest, monkeypatch: pytest.MonkeyPatch, to: dict[str, str], **labels: str) -> None:
    page.query_params.clear()
    page.query_params.update(to)
    with monkeypatch.context() as patch:
        patch.setattr(url_state, "is_back_or_forward", lambda: True)
        report(page, **labels)


def test_back_takes_a_choice_back_for_good(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    assert said(page) == "personal 5 fedavg"
    press(page, tail="10")
    assert written(page) == {"tail": "10"}


def test_forward_brings_it_again(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    go_back(page, monkeypatch, {"model": "global"})
    assert said(page) == "global 5 fedavg" and page.segmented_control[0].value == "global"


def test_a_press_right_after_back_takes_nothing_of_it_back(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    report(page, model="Global", tail="10 %")
    assert said(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_a_link_within_the_page_is_read(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={"tail": "20"})
    assert said(page) == "personal 20 ditto" and written(page) == {"tail": "20"}


def test_what_is_not_known_is_the_default(page: AppTest) -> None:
    press(page, late={"model": "everybody's", "tail": "10", "other": "stays"})
    assert said(page) == "personal 10 ditto" and written(page) == {"tail": "10", "other": "stays"}


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
    page: AppTest,
) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    press(page, tail="10")
    report(page, model="Global", tail="20 %")
    assert said(page) == "global 20 ditto" and written(page) == {"model": "global", "tail": "20"}


def test_back_itself_presses_no_control(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    go_back(page, monkeypatch, {}, model="Global")
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


def test_a_control_is_sent_its_value_only_where_it_has_moved(page: AppTest) -> None:
    press(page, tail="10")
    assert not page.segmented_control[0].proto.set_value and page.selectbox[1].proto.set_value
    press(page, tail="20")
    assert not page.selectbox[1].proto.set_value


def changing() -> None:
    import streamlit as st

    from app.state import url_state

    with url_state.page("test"):
        of = url_state.pick("Of", {"a": "A", "b": "B"}, "of", "a")
        first = {"a": 1, "b": 4}[of]
        own = {str(first + i): f"seed {i}" for i in range(3 if of == "a" else 2)}
        seed = url_state.pick("Seed", own, "seed", str(first))
        at = url_state.slide("At", {str(first + i): f"at {first + i}" for i in range(2)}, "at", str(first + 1))
        model = url_state.pick("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
        if st.session_state.pop("again", False):
            st.rerun()
        st.button("Again", on_click=lambda: st.session_state.update(again=True))
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
    page.query_params.clear()
    page.button[0].click()
    page.run()
    assert written(page) == {"of": "b"}
    page.query_params.clear()
    page.selectbox[2].set_value("global").run()
    assert written(page) == {"of": "b", "model": "global"}


def parting() -> None:
    import streamlit as st

    from app.state import url_state

    with url_state.page("test"):
        st.session_state.setdefault("count", 0)

        def counted(letter: str) -> None:
            st.session_state["count"] += 1
            url_state.choose(letter=letter)

        if not st.checkbox("Hide"):
            letters = {"a": "a", "b": "b"}
            shown = url_state.value("letter", letters, "a")
            st.selectbox("Letter", list(letters), key=url_state.key("letters", shown, counted, letters))
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
    page.selectbox[0].set_value("b")
    page.checkbox[0].check().run()  # the control goes before it was drawn with its new value
    assert said(page) == "1"
    page.checkbox[0].uncheck().run()
    page.selectbox[0].set_value("a").run()
    assert said(page) == "2"


@pytest.mark.parametrize("in_popover", [False, True])
def test_a_control_whose_value_gets_another_title_shows_it(in_popover: bool) -> None:
    def script(in_popover: bool) -> None:
        import streamlit as st

        from app.state import url_state

        with url_state.page("test"):
            runs = st.session_state.setdefault("runs", 5)
            titles = {1: f"digits, {runs} runs", 2: "other, 3 runs"}
            key = url_state.key("experiment", 1, lambda _: st.error("pressed"), titles, in_popover=in_popover)
            st.selectbox("Experiment", list(titles), 0 if in_popover else None, titles.__getitem__, key)
            st.button("Retry", key="retry")

    page = AppTest.from_function(script, default_timeout=30, kwargs={"in_popover": in_popover}).run()
    late, key = page._tree.get_widget_states(), page.selectbox[0].key
    page.session_state["runs"] = 6
    page.button(key="retry").click().run()
    assert not page.exception and not page.error
    if in_popover:
        assert page.selectbox[0].key != key and page.selectbox[0].value == 1
    else:
        assert page.selectbox[0].proto.set_value and page.selectbox[0].proto.raw_value == "digits, 6 runs"
    page._run(late)
    assert not page.exception and not page.error


def test_what_is_in_a_popover_is_another_widget_where_the_program_has_moved_it() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state

        with url_state.page("test"):
            shown = url_state.value("letter", ["a", "b"], "a")
            key = url_state.key("letters", shown, lambda letter: url_state.choose(letter=letter), in_popover=True)
            with st.popover("Choose"):
                st.selectbox("Letter", ["a", "b"], ["a", "b"].index(shown), key=key)
            st.button("Other", key="other", on_click=lambda: url_state.choose(letter="b"))
            st.write(shown)

    page = AppTest.from_function(script, default_timeout=30).run()
    late = page._tree.get_widget_states()
    page.button(key="other").click().run()
    assert said(page) == "b" and page.selectbox[0].value == "b"
    page._run(late)
    assert said(page) == "b"
    page.selectbox[0].set_value("a").run()
    assert said(page) == "a" and written(page) == {"letter": "a"}


def test_a_choice_of_all_pages_outlives_a_link_that_was_drawn_before_it() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state

        with url_state.page("test"):
            is_presenting = url_state.toggle("Presentation", "presenting")
            st.write(f"{is_presenting} {url_state.get('preset')}")

    page = AppTest.from_function(script, default_timeout=30).run()
    page.toggle[0].set_value(True).run()
    page.query_params.clear()
    page.query_params["preset"] = "first"
    page.run()
    assert said(page) == "True first" and written(page) == {"preset": "first", "presenting": "true"}
    page.toggle[0].set_value(False).run()
    page.query_params.update({"preset": "second", "presenting": "true"})
    page.run()
    assert said(page) == "False second" and written(page) == {"preset": "second"}


def test_a_fragment_writes_its_choices_by_itself() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state

        @url_state.fragment
        def panel() -> None:
            url_state.switch("Shape", {"line": "Line", "bar": "Bar"}, "shape", "line")

        with url_state.page("test"):
            panel()
            st.write(str(url_state.address()))

    page = AppTest.from_function(script, default_timeout=30).run()
    page.segmented_control[0].set_value("bar").run()
    assert written(page) == {"shape": "bar"} and said(page) == "{'shape': 'bar'}"


def test_a_late_report_of_nothing_chosen_takes_no_values_back() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state

        with url_state.page("test"):
            chosen = url_state.ids("runs")
            choose = lambda runs: url_state.choose(runs=",".join(map(str, runs)) or None)  # noqa: E731
            st.multiselect("Runs", [1, 2], key=url_state.key("chosen", chosen, choose, {1: "one", 2: "two"}))
            st.button("All", key="all", on_click=lambda: url_state.choose(runs="1,2"))
            url_state.toggle("Other", "other")
            st.write(str(chosen))

    page = AppTest.from_function(script, default_timeout=30).run()
    page.button(key="all").click().run()
    assert said(page) == "[1, 2]"
    page.multiselect[0].set_value([])
    page.toggle[0].set_value(True).run()
    assert said(page) == "[1, 2]" and written(page) == {"runs": "1,2", "other": "true"}
    page.multiselect[0].set_value([2]).run()
    assert said(page) == "[2]"
