"""Choices in the address: a delayed browser changes nothing, and Back and links are read."""

from pathlib import Path

import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from app.state import url_state
from app.state.visit import Visit


def script() -> None:
    import streamlit as st

    from app.state import url_state, widgets

    with url_state.page("test"):
        model = widgets.switch("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
        tail = widgets.pick("Tail", {"5": "5 %", "10": "10 %", "20": "20 %"}, "tail", "5")
        algorithms = {"fedavg": "FedAvg", "ditto": "Ditto"}
        best = widgets.pick("Best", algorithms, "best", "fedavg" if tail == "5" else "ditto")
        st.button("Take all", key="all", on_click=lambda: url_state.choose(model=None))
        st.button("Other", key="other")
        st.write(f"{model} {tail} {best}")


@pytest.fixture
def page() -> AppTest:
    return AppTest.from_function(script, default_timeout=30).run()


def shown(page: AppTest) -> str:
    assert not page.exception
    return str(page.markdown[-1].value)


def written(page: AppTest) -> dict[str, str]:
    """The parameters of the address; a test sees a text or a list of one."""
    return {name: shown if isinstance(shown, str) else shown[0] for name, shown in page.query_params.items()}


def press(
    page: AppTest,
    *,
    late: dict[str, str] | None = None,
    model: str | None = None,
    tail: str | None = None,
    other: bool = False,
) -> None:
    """A click by a browser whose address is still ``late``, if given."""
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


def test_a_click_sets_the_address_and_the_default_clears_it(page: AppTest) -> None:
    press(page, model="global")
    assert written(page) == {"model": "global"} and shown(page) == "global 5 fedavg"
    press(page, model="personal")
    assert written(page) == {} and shown(page) == "personal 5 fedavg"


def test_a_click_counts_although_another_press_stops_its_run(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise StopException

    with monkeypatch.context() as patch:
        patch.setattr(Visit, "choose", stop)
        press(page, model="global")
    page.run()
    assert shown(page) == "global 5 fedavg"
    assert written(page) == {"model": "global"}


def test_a_click_with_an_old_address_reverts_nothing(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, tail="10")
    assert written(page) == {"model": "global", "tail": "10"} and shown(page) == "global 10 ditto"


def test_a_click_on_another_control_reverts_nothing(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, other=True)
    assert shown(page) == "global 5 fedavg"
    press(page, late={}, tail="10")
    assert shown(page) == "global 10 ditto"


def test_the_last_of_two_clicks_counts_even_with_an_old_address(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={}, model="personal")
    press(page, late={"model": "global"}, tail="10")
    assert written(page) == {"tail": "10"} and shown(page) == "personal 10 ditto"
    press(page, late={}, model="global")
    assert shown(page) == "global 10 ditto"


def test_an_address_from_before_several_clicks_reverts_none(page: AppTest) -> None:
    press(page, tail="10")
    press(page, late={}, tail="20")
    press(page, late={}, model="global")
    assert shown(page) == "global 20 ditto"


def go_back(page: AppTest, monkeypatch: pytest.MonkeyPatch, to: dict[str, str], **labels: str) -> None:
    page.query_params.clear()
    page.query_params.update(to)
    with monkeypatch.context() as patch:
        patch.setattr(url_state, "is_back_or_forward", lambda: True)
        report(page, **labels)


def test_back_reverts_a_choice(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    assert shown(page) == "personal 5 fedavg"
    press(page, tail="10")
    assert written(page) == {"tail": "10"}


def test_forward_restores_it(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    go_back(page, monkeypatch, {"model": "global"})
    assert shown(page) == "global 5 fedavg" and page.segmented_control[0].value == "global"


def test_a_click_right_after_back_does_not_undo_it(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    go_back(page, monkeypatch, {})
    report(page, model="Global", tail="10 %")
    assert shown(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_a_link_within_the_page_is_read(page: AppTest) -> None:
    press(page, model="global")
    press(page, late={"tail": "20"})
    assert shown(page) == "personal 20 ditto" and written(page) == {"tail": "20"}


def test_unknown_values_are_the_default(page: AppTest) -> None:
    press(page, late={"model": "everybody's", "tail": "10", "other": "stays"})
    assert shown(page) == "personal 10 ditto" and written(page) == {"tail": "10", "other": "stays"}


def report(page: AppTest, **labels: str) -> None:
    """Reruns the page while the browser reports these titles."""
    late = page._tree.get_widget_states()
    for state in late.widgets:
        for control, label in labels.items():
            if state.id.endswith(f"address_{control}"):
                if state.HasField("string_array_value"):
                    state.string_array_value.data[:] = [label]
                else:
                    state.string_value = label
    page._run(late)


def test_an_outdated_value_of_a_moved_control_is_no_click(page: AppTest) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    assert shown(page) == "personal 5 fedavg"
    report(page, model="Global", tail="10 %")
    assert shown(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_an_outdated_value_of_a_changed_default_is_no_click(page: AppTest) -> None:
    press(page, tail="10")
    assert shown(page) == "personal 10 ditto"
    report(page, best="FedAvg", model="Global")
    assert shown(page) == "global 10 ditto" and written(page) == {"tail": "10", "model": "global"}


def test_a_click_back_counts_once_the_move_was_drawn(
    page: AppTest,
) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    press(page, tail="10")
    report(page, model="Global", tail="20 %")
    assert shown(page) == "global 20 ditto" and written(page) == {"model": "global", "tail": "20"}


def test_back_clicks_no_control(page: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    go_back(page, monkeypatch, {}, model="Global")
    assert shown(page) == "personal 5 fedavg" and written(page) == {}


def test_a_click_back_to_the_value_before_a_move_counts(page: AppTest) -> None:
    press(page, model="global")
    page.button(key="all").click().run()
    assert shown(page) == "personal 5 fedavg"
    press(page, model="global")
    assert shown(page) == "global 5 fedavg" and written(page) == {"model": "global"}
    press(page, late={}, tail="10")
    assert shown(page) == "global 10 ditto"


def test_an_outdated_value_without_a_click_is_ignored(page: AppTest) -> None:
    press(page, tail="10")
    page.query_params.clear()
    report(page, best="FedAvg", tail="10 %")
    assert shown(page) == "personal 10 ditto" and written(page) == {"tail": "10"}


def test_only_a_moved_control_is_sent_its_value(page: AppTest) -> None:
    press(page, tail="10")
    assert not page.segmented_control[0].proto.set_value and page.selectbox[1].proto.set_value
    press(page, tail="20")
    assert not page.selectbox[1].proto.set_value


def changing() -> None:
    import streamlit as st

    from app.state import url_state, widgets

    with url_state.page("test"):
        of = widgets.pick("Of", {"a": "A", "b": "B"}, "of", "a")
        first = {"a": 1, "b": 4}[of]
        own = {str(first + i): f"seed {i}" for i in range(3 if of == "a" else 2)}
        seed = widgets.pick("Seed", own, "seed", str(first))
        at = widgets.slide("At", {str(first + i): f"at {first + i}" for i in range(2)}, "at", str(first + 1))
        model = widgets.pick("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
        if st.session_state.pop("again", False):
            st.rerun()
        st.button("Again", on_click=lambda: st.session_state.update(again=True))
        st.write(f"{of} {seed} {at} {model}")


def test_a_title_that_now_belongs_to_another_value_is_no_click() -> None:
    page = AppTest.from_function(changing, default_timeout=30).run()
    page.selectbox[1].set_value("2").run()
    assert shown(page) == "a 2 2 personal"
    page.selectbox[0].set_value("b").run()
    assert shown(page) == "b 4 5 personal"
    report(page, seed="seed 1", at="at 2", model="Global")
    assert shown(page) == "b 4 5 global"


def test_an_unknown_title_is_no_click() -> None:
    page = AppTest.from_function(changing, default_timeout=30).run()
    page.selectbox[0].set_value("b").run()
    report(page, seed="seed 2")
    assert shown(page) == "b 4 5 personal" and "seed" not in written(page)


def test_rerunning_a_page_preserves_choices() -> None:
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

    from app.state import url_state, widgets

    with url_state.page("test"):
        st.session_state.setdefault("count", 0)

        def counted(letter: str) -> None:
            st.session_state["count"] += 1
            url_state.choose(letter=letter)

        if not st.checkbox("Hide"):
            letters = {"a": "a", "b": "b"}
            shown = url_state.value("letter", letters, "a")
            st.selectbox("Letter", list(letters), key=widgets.key("letters", shown, counted, letters))
        st.write(str(st.session_state["count"]))


def test_a_removed_control_does_not_click_itself() -> None:
    page = AppTest.from_function(parting, default_timeout=30).run()
    page.selectbox[0].set_value("b").run()
    assert shown(page) == "1"
    late = page._tree.get_widget_states()
    page.checkbox[0].check().run()
    late.MergeFrom(page._tree.get_widget_states())
    page._run(late)
    assert shown(page) == "1"


def test_a_click_back_counts_even_if_the_first_was_never_shown() -> None:
    page = AppTest.from_function(parting, default_timeout=30).run()
    page.selectbox[0].set_value("b")
    page.checkbox[0].check().run()  # the control disappears before it was drawn with its new value
    assert shown(page) == "1"
    page.checkbox[0].uncheck().run()
    page.selectbox[0].set_value("a").run()
    assert shown(page) == "2"


@pytest.mark.parametrize("in_popover", [False, True])
def test_a_control_shows_the_new_title_of_its_value(in_popover: bool) -> None:
    def script(in_popover: bool) -> None:
        import streamlit as st

        from app.state import url_state, widgets

        with url_state.page("test"):
            runs = st.session_state.setdefault("runs", 5)
            titles = {1: f"digits, {runs} runs", 2: "other, 3 runs"}
            key = widgets.key("experiment", 1, lambda _: st.error("pressed"), titles, in_popover=in_popover)
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


def test_a_control_in_a_popover_is_recreated_when_moved_by_the_program() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state, widgets

        with url_state.page("test"):
            shown = url_state.value("letter", ["a", "b"], "a")
            key = widgets.key("letters", shown, lambda letter: url_state.choose(letter=letter), in_popover=True)
            with st.popover("Choose"):
                st.selectbox("Letter", ["a", "b"], ["a", "b"].index(shown), key=key)
            st.button("Other", key="other", on_click=lambda: url_state.choose(letter="b"))
            st.write(shown)

    page = AppTest.from_function(script, default_timeout=30).run()
    late = page._tree.get_widget_states()
    page.button(key="other").click().run()
    assert shown(page) == "b" and page.selectbox[0].value == "b"
    page._run(late)
    assert shown(page) == "b"
    page.selectbox[0].set_value("a").run()
    assert shown(page) == "a" and written(page) == {"letter": "a"}


def test_a_global_choice_survives_an_older_link() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state, widgets

        with url_state.page("test"):
            is_presenting = widgets.toggle("Presentation", "presenting")
            st.write(f"{is_presenting} {url_state.get('preset')}")

    page = AppTest.from_function(script, default_timeout=30).run()
    page.toggle[0].set_value(True).run()
    page.query_params.clear()
    page.query_params["preset"] = "first"
    page.run()
    assert shown(page) == "True first" and written(page) == {"preset": "first", "presenting": "true"}
    page.toggle[0].set_value(False).run()
    page.query_params.update({"preset": "second", "presenting": "true"})
    page.run()
    assert shown(page) == "False second" and written(page) == {"preset": "second"}
    page.toggle[0].set_value(True)  # and a link before the server has responded
    page.query_params.clear()
    page.query_params["preset"] = "third"
    page.run()
    assert shown(page) == "True third" and written(page) == {"preset": "third", "presenting": "true"}


def test_a_fragment_sets_its_choices() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state, widgets

        @url_state.fragment
        def panel() -> None:
            widgets.switch("Shape", {"line": "Line", "bar": "Bar"}, "shape", "line")

        with url_state.page("test"):
            panel()
            st.write(str(url_state.address()))

    page = AppTest.from_function(script, default_timeout=30).run()
    page.segmented_control[0].set_value("bar").run()
    assert written(page) == {"shape": "bar"} and shown(page) == "{'shape': 'bar'}"


def test_an_outdated_empty_selection_reverts_nothing() -> None:
    def script() -> None:
        import streamlit as st

        from app.state import url_state, widgets

        with url_state.page("test"):
            chosen = url_state.ids("runs")
            choose = lambda runs: url_state.choose(runs=",".join(map(str, runs)) or None)  # noqa: E731
            st.multiselect("Runs", [1, 2], key=widgets.key("chosen", chosen, choose, {1: "one", 2: "two"}))
            st.button("All", key="all", on_click=lambda: url_state.choose(runs="1,2"))
            widgets.toggle("Other", "other")
            st.write(str(chosen))

    page = AppTest.from_function(script, default_timeout=30).run()
    page.button(key="all").click().run()
    assert shown(page) == "[1, 2]"
    page.multiselect[0].set_value([])
    page.toggle[0].set_value(True).run()
    assert shown(page) == "[1, 2]" and written(page) == {"runs": "1,2", "other": "true"}
    page.multiselect[0].set_value([2]).run()
    assert shown(page) == "[2]"


SHELL = """
import streamlit as st

from app.state import url_state, widgets

chosen = st.navigation([st.Page("one.py", url_path="one", default=True), st.Page("two.py", url_path="two")])
with url_state.page(chosen.url_path or "one"):
    widgets.toggle("Presentation", "presenting")
    chosen.run()
"""
PAGE = """
from app.state import widgets

widgets.switch("Model", {"personal": "Personalized", "global": "Global"}, "model", "personal")
"""


def test_a_switch_that_two_pages_share_shows_its_value_after_a_link(tmp_path: Path) -> None:
    for name, text in {"main": SHELL, "one": PAGE, "two": PAGE}.items():
        (tmp_path / f"{name}.py").write_text(text)
    page = AppTest.from_file(str(tmp_path / "main.py"), default_timeout=30).run()
    page.toggle[0].set_value(True).run()
    assert page.segmented_control[0].value == "personal"
    page.query_params.clear()
    page.switch_page("two.py").run()
    assert page.segmented_control[0].value == "personal" and page.segmented_control[0].proto.set_value
    assert page.toggle[0].value is True and not page.toggle[0].proto.set_value
    assert written(page) == {"presenting": "true"}
