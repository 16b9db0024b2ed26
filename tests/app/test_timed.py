"""Parts of a page that a timer draws again."""

from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from app.components.timed import timed

    @timed(0.5)
    def clock(name: str) -> None:
        st.write(name)

    clock("first")
    clock("second")


def test_a_late_timer_names_no_part_of_the_page_that_a_press_has_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    names, intervals, fragment = [], set(), st.fragment

    def noted(draw: Callable[..., Any], run_every: float | None = None) -> Callable[..., Any]:
        names.append(draw.__qualname__)
        intervals.add(run_every)
        return fragment(draw, run_every=run_every)

    monkeypatch.setattr(st, "fragment", noted)
    page = AppTest.from_function(script).run().run()
    assert [text.value for text in page.markdown] == ["first", "second"]
    assert len(names) == len(set(names)) == 4
    assert intervals == {0.5}
