"""Parts of a page that are drawn again without the rest of it."""

import pytest
from streamlit.testing.v1 import AppTest

from engine.core.errors import PluginBroken
from storage import StorageError


def script() -> None:
    import streamlit as st

    from app.state.fragments import fragment

    @fragment
    def part() -> None:
        st.write("before")
        if error := st.session_state.get("error"):
            raise error

    part()
    st.write("after")


@pytest.mark.parametrize("error", [StorageError("the disk is full"), PluginBroken("mine.py: cannot be imported")])
def test_a_part_that_cannot_be_drawn_shows_the_reason_and_leaves_the_rest(error: Exception) -> None:
    page = AppTest.from_function(script, default_timeout=30).run()
    assert [text.value for text in page.markdown] == ["before", "after"] and not page.warning
    page.session_state["error"] = error
    page.run()
    assert [text.value for text in page.markdown] == ["before", "after"] and not page.exception
    assert page.warning[0].value.replace("\\", "") == str(error)


def test_another_error_of_a_part_is_not_hidden() -> None:
    page = AppTest.from_function(script, default_timeout=30)
    page.session_state["error"] = ValueError("a bug")
    page.run()
    assert page.exception and not page.warning
