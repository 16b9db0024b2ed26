"""The focus when its control is replaced, and links that wait for a typed value, on a page without the app."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from app.server import index_page
from tests.browser.conftest import LOAD_MS, Server

SCRIPT = Path(index_page.__file__).with_name("keyboard.js").read_text(encoding="utf-8")
PAGE = """
<div data-test-script-state="notRunning"></div>
<nav><a href="/library">Library</a><a href="/handbook">Handbook</a><a href="#top">Top</a></nav>
<main data-testid="stMain"><button>first</button><button>Archive</button><button>last</button>
<input><a href="/method">Method</a></main>"""
RECORD_LINKS = """() => {
  window.followed = [];
  window.endedRuns = 0;
  addEventListener("change", ({ timeStamp }) => (window.changedAt = timeStamp));
  addEventListener("click", (event) => {
    event.preventDefault();
    if (!event.target.href) return;
    window.followed.push(event.target.textContent);
    window.followedAfter = { ms: performance.now() - window.changedAt, runs: window.endedRuns };
  });
}"""
RUN_AFTER_THE_CHANGE = """([start, end]) => {
  const state = document.querySelector("[data-test-script-state]").dataset;
  addEventListener("change", () => {
    setTimeout(() => (state.testScriptState = "running"), start);
    setTimeout(() => (state.testScriptState = "notRunning", ++window.endedRuns), end);
  });
}"""
CHANGE_LINK = """change => addEventListener("mouseup", () => {
  setTimeout(() => eval(change)(document.querySelector("nav a")));
})"""
REPLACE = "() => document.querySelectorAll('button')[1].outerHTML = '<button>Unarchive</button>'"
REMOVE = "() => document.querySelectorAll('button')[1].remove()"
INSERT = "() => document.querySelector('button').insertAdjacentHTML('afterend', '<button>Unarchive</button>')"
STATE = "state => document.querySelector('[data-test-script-state]').dataset.testScriptState = state"
Key = Literal["Control", "Shift"]
A_MOMENT_MS = 300  # more than the script waits


@pytest.fixture
def drawn(page: Page, server: Server) -> Page:
    page.goto(f"{server.url}/_stcore/health")
    page.evaluate("html => document.body.innerHTML = html", PAGE)
    page.evaluate(SCRIPT)
    return page


@pytest.fixture
def focused(drawn: Page) -> Page:
    """The focus is on the second of three buttons."""
    drawn.get_by_role("button", name="first").focus()
    drawn.keyboard.press("Tab")
    expect(drawn.get_by_role("button", name="Archive", exact=True)).to_be_focused()
    return drawn


@pytest.fixture
def typed(drawn: Page) -> Page:
    """A value was typed. ``followed()`` returns the links that were followed; they open nothing."""
    drawn.evaluate(RECORD_LINKS)
    drawn.get_by_role("textbox").fill("a value")
    return drawn


def press(page: Page, name: str, key: Key | None = None) -> None:
    page.get_by_role("link", name=name).click(modifiers=[key] if key else None)


def followed(page: Page) -> list[str]:
    links: list[str] = page.evaluate("window.followed")
    return links


def followed_after(page: Page, what: Literal["ms", "runs"]) -> float:
    """The time from the change of the field to the first link, or how many runs ended meanwhile."""
    page.wait_for_function("window.followed.length", timeout=LOAD_MS)
    after: float = page.evaluate(f"window.followedAfter.{what}")
    return after


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


def test_a_link_waits_until_the_run_that_reads_the_value_has_ended(typed: Page) -> None:
    typed.evaluate(RUN_AFTER_THE_CHANGE, [300, 1300])  # the server is far away
    press(typed, "Library")
    assert followed_after(typed, "runs") == 1 and followed_after(typed, "ms") < 2900
    assert followed(typed) == ["Library"]


@pytest.mark.parametrize(("state", "start", "end"), [("notRunning", 800, 2000), ("running", 3000, 5000)])
def test_a_link_is_followed_if_no_run_starts_or_it_does_not_end(typed: Page, state: str, start: int, end: int) -> None:
    typed.evaluate(STATE, state)
    press(typed, "Library")
    assert start < followed_after(typed, "ms") < end and followed(typed) == ["Library"]


def test_a_link_waits_for_the_run_of_the_value_not_for_the_run_before(drawn: Page) -> None:
    drawn.evaluate(STATE, "running")
    drawn.evaluate(RECORD_LINKS)
    drawn.evaluate(RUN_AFTER_THE_CHANGE, [0, 50])
    drawn.evaluate(RUN_AFTER_THE_CHANGE, [300, 1300])
    drawn.get_by_role("textbox").fill("a value")
    press(drawn, "Library")
    assert followed_after(drawn, "runs") == 2 and followed(drawn) == ["Library"]


def test_a_press_on_a_button_cancels_a_link_that_waits(typed: Page) -> None:
    press(typed, "Library")
    typed.evaluate(STATE, "running")
    typed.get_by_role("button", name="first").click()
    typed.evaluate(STATE, "notRunning")
    typed.wait_for_timeout(A_MOMENT_MS)
    assert followed(typed) == []


def test_of_two_links_only_the_last_is_followed(typed: Page) -> None:
    press(typed, "Library")
    typed.evaluate(STATE, "running")
    press(typed, "Handbook")
    assert followed(typed) == []
    typed.evaluate(STATE, "notRunning")
    typed.wait_for_function("window.followed.length")
    typed.wait_for_timeout(A_MOMENT_MS)
    assert followed(typed) == ["Handbook"]


def test_back_cancels_a_link_that_waits(typed: Page) -> None:
    typed.evaluate("history.pushState(null, '', '?round=2')")
    press(typed, "Library")
    typed.evaluate(STATE, "running")
    typed.evaluate("history.back()")
    typed.wait_for_function("!location.search")
    typed.evaluate(STATE, "notRunning")
    typed.wait_for_timeout(A_MOMENT_MS)
    assert followed(typed) == []


def test_a_link_within_the_page_is_followed_before_the_run_replaces_it(typed: Page) -> None:
    typed.evaluate(RUN_AFTER_THE_CHANGE, [0, LOAD_MS])
    press(typed, "Method")
    assert 60 < followed_after(typed, "ms") < 2000, "the value is sent by then"
    assert followed_after(typed, "runs") == 0 and followed(typed) == ["Method"]


@pytest.mark.parametrize(
    ("change", "name"),
    [("link => link.outerHTML = '<a href=/library>New</a>'", "New"), ("link => link.href += '?round=2'", "Library")],
)
def test_a_link_that_is_replaced_while_it_waits_is_followed(typed: Page, change: str, name: str) -> None:
    typed.evaluate(CHANGE_LINK, change)
    press(typed, "Library")
    typed.wait_for_function("window.followed.length")
    assert followed(typed) == [name]


@pytest.mark.parametrize(
    "change",
    [
        "link => link.remove()",
        "link => link.outerHTML = '<a href=/other>Other</a>'",
        "link => Object.assign(link, { href: '/other', textContent: 'Other' })",
    ],
)
def test_a_link_that_is_removed_while_it_waits_is_not_followed(typed: Page, change: str) -> None:
    typed.evaluate(CHANGE_LINK, change)
    press(typed, "Library")
    typed.wait_for_timeout(1000 + A_MOMENT_MS)
    assert followed(typed) == [] and typed.url.endswith("/health")


def test_links_do_not_wait_if_no_value_was_typed(drawn: Page) -> None:
    drawn.evaluate(RECORD_LINKS)
    drawn.get_by_role("textbox").focus()
    drawn.evaluate(STATE, "running")
    press(drawn, "Library")
    assert followed(drawn) == ["Library"]


@pytest.mark.parametrize(("name", "key"), [("Top", None), ("Library", "Control"), ("Library", "Shift")])
def test_links_to_a_place_on_the_page_or_to_another_tab_do_not_wait(typed: Page, name: str, key: Key | None) -> None:
    press(typed, name, key)
    assert followed(typed) == [name]
