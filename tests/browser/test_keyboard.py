"""The focus of the keyboard when its control is replaced, on a page without the app."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.server import index_page
from tests.browser.conftest import LOAD_MS, Server

SCRIPT = Path(index_page.__file__).with_name("keyboard.js").read_text(encoding="utf-8")
PAGE = """
<div data-test-script-state="notRunning"></div>
<main data-testid="stMain"><button>first</button><button>Archive</button><button>last</button></main>"""
REPLACE = "() => document.querySelectorAll('button')[1].outerHTML = '<button>Unarchive</button>'"
REMOVE = "() => document.querySelectorAll('button')[1].remove()"
INSERT = "() => document.querySelector('button').insertAdjacentHTML('afterend', '<button>Unarchive</button>')"
STATE = "state => document.querySelector('[data-test-script-state]').dataset.testScriptState = state"
A_MOMENT_MS = 300  # more than the script waits


@pytest.fixture
def focused(page: Page, server: Server) -> Page:
    """The focus is on the second of three buttons."""
    page.goto(f"{server.url}/_stcore/health")
    page.evaluate("html => document.body.innerHTML = html", PAGE)
    page.evaluate(SCRIPT)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Archive", exact=True)).to_be_focused()
    return page


def test_the_focus_moves_to_the_replacement_after_the_run(focused: Page) -> None:
    focused.evaluate(STATE, "running")
    focused.evaluate(REPLACE)
    focused.wait_for_timeout(A_MOMENT_MS)
    assert focused.evaluate("document.activeElement === document.body")
    focused.evaluate(STATE, "notRunning")
    expect(focused.get_by_role("button", name="Unarchive")).to_be_focused(timeout=LOAD_MS)


def test_the_focus_moves_if_the_start_and_the_end_of_the_run_are_drawn_at_once(focused: Page) -> None:
    focused.evaluate(REPLACE)
    expect(focused.get_by_role("button", name="Unarchive")).to_be_focused(timeout=LOAD_MS)


def test_the_focus_moves_if_the_control_is_replaced_late_and_in_two_steps(focused: Page) -> None:
    focused.evaluate(STATE, "running")
    focused.evaluate(STATE, "notRunning")
    focused.wait_for_timeout(A_MOMENT_MS)
    focused.evaluate(f"() => {{ ({REMOVE})(); setTimeout({INSERT}, 20); }}")
    expect(focused.get_by_role("button", name="Unarchive")).to_be_focused(timeout=LOAD_MS)


def test_the_focus_stays_where_the_reader_moved_it(focused: Page) -> None:
    focused.evaluate(STATE, "running")
    focused.keyboard.press("Tab")
    focused.evaluate(REPLACE)
    focused.evaluate(STATE, "notRunning")
    focused.wait_for_timeout(A_MOMENT_MS)
    expect(focused.get_by_role("button", name="last")).to_be_focused()
