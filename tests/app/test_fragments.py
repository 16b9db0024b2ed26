"""Parts of a page that are drawn again without the rest of it."""

from dataclasses import replace
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequest, ScriptRequests
from streamlit.testing.v1 import AppTest

from engine.core.errors import PluginBroken
from storage import StorageError

ERRORS = [StorageError("the disk is full"), PluginBroken("mine.py: cannot be imported")]


def script() -> None:
    import streamlit as st

    from app.state import url_state
    from app.state.fragments import fragment
    from engine.core.errors import PluginBroken
    from storage import StorageError

    def part() -> None:
        st.write("before")
        st.session_state.drawn += 1
        if st.session_state.drawn == st.session_state.fails_at:
            raise st.session_state.error

    try:
        with url_state.page("test"):
            fragment(part, st.session_state.run_every)()
            st.write("after")
    except (StorageError, PluginBroken) as reason:
        st.error(str(reason))


def opened(error: Exception, fails_at: int, run_every: float | None = None) -> AppTest:
    page = AppTest.from_function(script, default_timeout=30)
    for name, value in {"drawn": 0, "error": error, "fails_at": fails_at, "run_every": run_every}.items():
        page.session_state[name] = value
    return page.run()


def draw_the_part_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the fragment alone once, after the page."""
    original, requests = ScriptRequests.on_scriptrunner_ready, iter(["page", "part"])

    def request_first(self: ScriptRequests) -> ScriptRequest:
        context = get_script_run_ctx()
        assert context is not None
        if next(requests, None) == "part":
            (part,) = context.shared.new_fragment_ids.snapshot()
            run = RerunData(context.query_string, page_script_hash=context.page_script_hash)
            self.request_rerun(replace(run, fragment_id=part))
        return original(self)

    monkeypatch.setattr(ScriptRequests, "on_scriptrunner_ready", request_first)


def texts(elements: Any) -> list[str]:
    return [element.value.replace("\\", "") for element in elements]


@pytest.mark.parametrize("error", ERRORS)
def test_the_page_gives_the_reason_if_a_part_of_it_cannot_be_drawn(error: Exception) -> None:
    page = opened(error, fails_at=1)
    assert texts(page.error) == [str(error)] and texts(page.markdown) == ["before"] and not page.exception


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("run_every", [None, 60.0])
def test_a_part_that_is_drawn_alone_gives_the_reason_in_its_place(
    error: Exception, run_every: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_the_part_again(monkeypatch)
    page = opened(error, 2, run_every)
    assert page.session_state["drawn"] == 2
    assert texts(page.caption if run_every else page.warning) == [str(error)]
    assert [button.label for button in page.button] == ([] if run_every else ["Try again"])
    assert "after" in texts(page.markdown) and not page.exception and not page.error


def test_the_page_runs_again_once_the_part_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_the_part_again(monkeypatch)
    page = opened(ERRORS[0], fails_at=1, run_every=60.0)
    assert page.session_state["drawn"] == 3  # in the page, alone, in the page
    assert texts(page.markdown) == ["before", "after"] and not page.error
    page.run()
    assert page.session_state["drawn"] == 4


def test_any_other_error_of_a_part_is_a_bug() -> None:
    page = opened(ValueError("a bug"), fails_at=1)
    assert page.exception and not page.error
