"""Inside a run: a click on the map opens a client, and choices are in the address."""

import pytest
from playwright.sync_api import Page, expect

from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, PLACEHOLDER, READY, PageProblems, Server

pytestmark = pytest.mark.slow

MAP = "[class*='st-key-figure_client_map'] .js-plotly-plot"
CENTER_OF_LOWEST = """plot => {
  const [x, y] = [plot._fullLayout.xaxis, plot._fullLayout.yaxis], box = plot.getBoundingClientRect();
  return [box.x + x._offset + x._length / 2, box.y + y._offset + y.l2p(0)];
}"""
SMALL = DIGITS | {"name": "looked into", "algorithms": ["fedavg", "local_train", "ditto"], "seeds": [0]}


@pytest.fixture(scope="module")
def run_id(server: Server) -> int:
    """A finished Ditto run with both references."""
    store = Store(server.database_url)
    store.ensure_schema()
    experiment = store_experiment(store, SMALL)
    runs = store.queue.runs(experiment_ids=[experiment.id])
    store.close()
    return next(run.id for run in runs if run.algorithm == "ditto")


def test_a_client_opened_on_the_map_and_tabs_are_links_and_the_configuration_can_be_saved(
    page: Page, server: Server, run_id: int, page_problems: PageProblems
) -> None:
    page.goto(f"{server.url}/run?id={run_id}&round=3")
    page.wait_for_selector(f"{MAP} .main-svg", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.wait_for_selector(PLACEHOLDER, state="hidden", timeout=LOAD_MS)
    lowest = lowest_client(page)
    place = page.locator(MAP).evaluate(CENTER_OF_LOWEST)
    page.mouse.click(*place)
    page.wait_for_url(f"**client={lowest}*", timeout=LOAD_MS)
    expect(page.locator("strong", has_text=f"Client {lowest}:")).to_be_visible(timeout=LOAD_MS)
    page.reload()
    expect(page.locator("strong", has_text=f"Client {lowest}:")).to_contain_text("in round 3", timeout=LOAD_MS)
    assert f"id={run_id}" in page.url and "round=3" in page.url

    page.get_by_role("radio", name="Configuration and log").or_(
        page.get_by_role("button", name="Configuration and log")
    ).first.click(timeout=LOAD_MS)
    page.wait_for_url("**tab=record*", timeout=LOAD_MS)
    with page.expect_download(timeout=LOAD_MS) as download:
        page.get_by_role("button", name="Download YAML").click(timeout=LOAD_MS)
    assert download.value.suggested_filename == "ditto-seed0.yaml"
    page.get_by_role("link", name="Compare with its experiment").click()
    page.wait_for_url("**/compare?experiment=*", timeout=LOAD_MS)
    assert page_problems == PageProblems()


def lowest_client(page: Page) -> str:
    """The client in the lowest row, by its tick label."""
    return page.locator(MAP).evaluate("plot => plot.layout.yaxis.ticktext[0].match(/\\d+/)[0]")
