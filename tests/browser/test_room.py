"""A room with two browsers: the reader's page follows the lecturer's without a press; axe finds nothing on either."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from app.learn import classroom
from app.stories import stories
from tests.browser.accessible import violations
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server

STORY = stories()["one-model"]
NOT_FOR_READERS = (".strip", ".strip-toast", ".kicker", ".lead", ".st-key-stories")  # who follow on a phone


@pytest.fixture
def reader(stranger: Page, page_problems: PageProblems) -> Iterator[Page]:
    """A page of another browser, on a phone: its cookie is not the lecturer's."""
    stranger.set_viewport_size({"width": 390, "height": 844})
    page_problems.watch(stranger.context)
    yield stranger
    page_problems.unwatch(stranger.context)


def at_scene(page: Page, letter: str) -> None:
    """Waits until the page is at this scene, and its run has ended."""
    expect(page.get_by_role("radio", name=f"{letter} · ")).to_be_checked(timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_a_reader_follows_leaves_comes_back_and_answers(
    page: Page, reader: Page, server: Server, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/learn?story={STORY.slug}")
    page.get_by_role("button", name="Teach a class").click(timeout=LOAD_MS)
    link = page.locator(".st-key-room [data-testid=stCode]")
    expect(link).to_contain_text(f"{server.url}/learn?room=", timeout=LOAD_MS)

    reader.goto(link.inner_text().strip())
    expect(reader.get_by_role("heading", level=1)).to_have_text(STORY.title, timeout=LOAD_MS)
    at_scene(reader, "a")
    assert reader.evaluate("document.documentElement.scrollWidth") <= 390
    reader.evaluate("document.querySelector('.strip-toast').textContent = 'FedAvg is done.'")
    for name in NOT_FOR_READERS:
        expect(reader.locator(name)).to_be_hidden(timeout=LOAD_MS)

    page.get_by_role("radio", name="b · ").click()
    at_scene(reader, "b")

    reader.get_by_role("button", name="Stop following").click()
    expect(reader.get_by_role("button", name="Follow again")).to_be_visible(timeout=LOAD_MS)
    page.get_by_role("radio", name="c · ").click()
    at_scene(page, "c")
    at_scene(reader, "b")
    reader.get_by_role("button", name="Follow again").click()
    at_scene(reader, "c")

    page.get_by_role("radio", name="a · ").click()
    at_scene(reader, "a")
    reader.get_by_role("radio", name="Learning alone").click()
    expect(page.locator(".room-counts")).to_have_text("1 of 1 answered", timeout=LOAD_MS)
    page.get_by_role("button", name="Show answers").click()
    expect(reader.get_by_role("heading", name="Class answers")).to_be_visible(timeout=LOAD_MS)
    expect(reader.get_by_text("1 answer. Most frequent: “Learning alone”, 1.").first).to_be_visible(timeout=LOAD_MS)
    assert violations(page) == violations(reader) == []
    assert page_problems == PageProblems()

    page.get_by_role("button", name="Close room").click()
    expect(reader.get_by_text(classroom.CLOSED)).to_be_visible(timeout=LOAD_MS)
    expect(reader.get_by_role("button", name="Teach a class")).to_be_visible(timeout=LOAD_MS)
    for name in NOT_FOR_READERS:
        expect(reader.locator(name)).to_be_visible(timeout=LOAD_MS)
