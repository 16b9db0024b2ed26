"""Curves that grow under the reader's eyes: zoom kept, buttons obeyed, a lost connection said, a hidden tab quiet."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from engine.config import parse_experiment
from engine.worker.records import new_run
from storage import Store
from tests.browser.conftest import Server, Witness

LOAD_MS = 60_000
POINTS = "document.querySelector('[data-figure=accuracy]')?.data?.[0]?.x.length ?? 0"
RANGE = "document.querySelector('[data-figure=accuracy]').layout.xaxis.range"
LONG = {
    "name": "long enough to watch",
    "dataset": {"name": "digits"},
    "partition": {"name": "iid", "num_clients": 4},
    "model": {"name": "mlr"},
    "training": {"rounds": 50_000, "local_steps": 50},
    "algorithms": [{"name": "fedavg"}],
}


@pytest.fixture
def training(server: Server) -> Iterator[int]:
    """An experiment with one run that goes on until it is cancelled."""
    store = Store(server.database_url)
    store.ensure_schema()
    experiment = store.experiments.create(LONG["name"], LONG, [new_run(r) for r in parse_experiment(LONG).runs()])
    yield experiment.id
    runs = [run.id for run in store.queue.runs(experiment_ids=[experiment.id])]
    store.queue.request(runs, "cancel")
    store.close()


@pytest.fixture
def live(page: Page, server: Server, training: int) -> Page:
    """The page once the first points are drawn."""
    page.goto(f"{server.url}/live?experiment={training}")
    page.wait_for_function(f"({POINTS}) > 0", timeout=LOAD_MS)
    return page


def test_curves_grow_and_keep_their_zoom(live: Page, witness: Witness) -> None:
    live.evaluate("Plotly.relayout(document.querySelector('[data-figure=accuracy]'), {'xaxis.range': [1, 7]})")
    drawn = live.evaluate(POINTS)
    live.wait_for_function(f"({POINTS}) > {drawn}", timeout=LOAD_MS)
    assert live.evaluate(RANGE) == [1, 7]
    live.get_by_role("radio", name="Global").or_(live.get_by_role("button", name="Global")).first.click()
    live.wait_for_function(f"({POINTS}) > 0", timeout=LOAD_MS)
    assert witness == Witness()


def test_a_run_is_paused_resumed_and_cancelled_from_the_page(live: Page) -> None:
    run = live.locator(".live-run")
    run.get_by_role("button", name="pause").click()
    expect(run).to_have_attribute("data-status", "paused", timeout=LOAD_MS)
    run.get_by_role("button", name="resume").click()
    expect(run).to_have_attribute("data-status", "running", timeout=LOAD_MS)
    run.get_by_role("button", name="cancel").click()
    expect(run).to_have_attribute("data-status", "cancelled", timeout=LOAD_MS)
    expect(live.get_by_role("heading", level=1)).to_have_text("How did it go?", timeout=LOAD_MS)


def test_a_lost_connection_is_said_and_comes_back(live: Page) -> None:
    live.route("**/live/feed*", lambda route: route.abort())
    expect(live.locator(".live-state")).to_contain_text("The connection is lost", timeout=LOAD_MS)
    live.unroute("**/live/feed*")
    expect(live.locator(".live-state")).to_be_hidden(timeout=LOAD_MS)


def test_a_hidden_tab_asks_for_nothing(live: Page) -> None:
    live.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
    live.wait_for_timeout(1500)
    asked: list[str] = []
    live.on("request", lambda request: asked.append(request.url))
    live.wait_for_timeout(2500)
    assert [url for url in asked if "/live/" in url] == []
    live.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    live.wait_for_event("request", lambda request: "/live/feed" in request.url, timeout=LOAD_MS)
