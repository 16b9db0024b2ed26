"""Study in the browser: a study that the app's own workers computed."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.studies import STUDY, queue_study
from tests.browser.accessible import PHONE, assert_accessible_in_light, assert_accessible_in_the_dark
from tests.browser.conftest import LOAD_MS, READY, TRAIN_S, PageProblems, Server


@pytest.fixture(scope="module")
def experiment(server: Server) -> Iterator[int]:
    """Queues a study and waits for its final runs."""
    store = Store(server.database_url)
    store.ensure_schema(wait_s=LOAD_MS / 1000)
    queued = queue_study(store, STUDY | {"splits": [0, 1]}).id
    until, runs = time.monotonic() + TRAIN_S, []
    while time.monotonic() < until:
        runs = store.queue.runs(experiment_ids=[queued], with_partition=False)
        if {run.study["role"] for run in runs if run.study} == {"trial", "final"} and not any(
            r.is_active for r in runs
        ):
            break
        time.sleep(0.3)
    assert {run.status for run in runs} == {"done"}, [(run.label, run.status, run.error) for run in runs]
    yield queued
    store.close()


def drawn(page: Page) -> None:
    page.wait_for_selector(".st-key-figure_critical_differences .main-svg", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)


@pytest.mark.slow
def test_a_study_of_the_apps_workers_is_complete_and_accessible_and_on_a_phone_does_not_scroll_sideways(
    page: Page, server: Server, experiment: int, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/study?experiment={experiment}")
    drawn(page)
    expect(page.get_by_role("heading", name="Download the chosen settings")).to_be_visible(timeout=LOAD_MS)
    assert_accessible_in_light(page)  # leaves it on a phone
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= PHONE["width"]
    with page.expect_download(timeout=LOAD_MS) as waiting:
        page.get_by_role("button", name="Export report (HTML)").click()
    assert waiting.value.suggested_filename == "study.html"
    with page.expect_navigation():  # the app reloads itself
        page.emulate_media(color_scheme="dark")
    drawn(page)
    assert_accessible_in_the_dark(page)
    assert page_problems == PageProblems()
