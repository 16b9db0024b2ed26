"""Presses that come while a run of a page is going on."""

import itertools
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import AppTest


def stop_this_run() -> None:
    """As another press does."""
    context = get_script_run_ctx()
    assert context is not None and context.script_requests is not None
    context.script_requests.request_stop()


def press_during(patch: pytest.MonkeyPatch, module: object, name: str, call: int = 1, **request: Any) -> None:
    """Another press comes at this call of a function of the module."""
    original, number = getattr(module, name), itertools.count(1)

    def called(*arguments: Any, **named: Any) -> Any:
        context = get_script_run_ctx()
        assert context is not None and context.script_requests is not None
        if next(number) == call:
            known = {"page_script_hash": context.page_script_hash, "query_string": context.query_string}
            context.script_requests.request_rerun(RerunData(**known | request))
        return original(*arguments, **named)

    patch.setattr(module, name, called)


def reported(page: AppTest) -> Any:
    """The values of all widgets, as a browser that has not received those of the next run reports them again."""
    return page._tree.get_widget_states()
