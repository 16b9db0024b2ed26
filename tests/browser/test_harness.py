"""The witness that the other browser tests rely on sees what it should."""

from pathlib import Path

from playwright.sync_api import Page

from tests.browser.conftest import Witness


def test_a_quiet_page_leaves_nothing_to_report(page: Page, witness: Witness, tmp_path: Path) -> None:
    file = tmp_path / "quiet.html"
    file.write_text("<title>quiet</title>")
    page.goto(file.as_uri())
    assert page.title() == "quiet"
    assert witness == Witness()


def test_errors_of_a_page_are_noticed(page: Page, witness: Witness) -> None:
    page.goto("data:text/html,<script>console.error('logged'); throw new Error('thrown')</script>")
    page.wait_for_function("true")
    assert any("logged" in e for e in witness.console_errors)
    assert any("thrown" in e for e in witness.console_errors)


def test_requests_to_other_hosts_are_noticed(page: Page, witness: Witness) -> None:
    page.context.route("**/*.png", lambda route: route.abort())
    page.goto("data:text/html,<img src='http://fonts.example/a.png'>")
    assert witness.foreign_requests == ["http://fonts.example/a.png"]
