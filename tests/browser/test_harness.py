"""``page_problems``, which other browser tests rely on, records console errors and foreign requests."""

from pathlib import Path

from playwright.sync_api import Page

from tests.browser.conftest import VIEWPORT, PageProblems, Server, emptied


def test_a_correct_page_has_no_problems(page: Page, page_problems: PageProblems, tmp_path: Path) -> None:
    file = tmp_path / "quiet.html"
    file.write_text("<title>quiet</title>")
    page.goto(file.as_uri())
    assert page.title() == "quiet"
    assert page_problems == PageProblems()


def test_errors_of_a_page_are_recorded(page: Page, page_problems: PageProblems) -> None:
    page.goto("data:text/html,<script>console.error('logged'); throw new Error('thrown')</script>")
    page.wait_for_function("true")
    assert any("logged" in e for e in page_problems.console_errors)
    assert any("thrown" in e for e in page_problems.console_errors)


def test_requests_to_other_hosts_are_recorded(page: Page, page_problems: PageProblems) -> None:
    page.context.route("**/*.png", lambda route: route.abort())
    page.goto("data:text/html,<img src='http://fonts.example/a.png'>")
    assert page_problems.foreign_requests == ["http://fonts.example/a.png"]


def test_a_used_page_is_emptied(page: Page, server: Server) -> None:
    page.route("**/*.png", lambda route: route.abort())
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark", reduced_motion="no-preference")
    emptied(page)
    page.goto(f"{server.url}/_stcore/health")
    assert page.viewport_size == VIEWPORT
    assert page.evaluate("matchMedia('(prefers-color-scheme: light)').matches")
    assert page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    assert page.evaluate("fetch('absent.png').then(answer => answer.ok)") is False  # instead of an aborted request
