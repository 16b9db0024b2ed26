"""Live curves: they keep the zoom, follow actions, report a lost connection, and pause in a hidden tab.

Also toasts when a run ends, reordering of the queue, and retries.
"""

import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from engine.config.schema import parse_experiment
from engine.exchange.records import new_run
from storage import Store
from tests.browser.conftest import LOAD_MS, PageProblems, Server, turn_to
from tests.browser.plugins.unhurried import LEAST_ROUNDS

pytestmark = pytest.mark.slow

POINTS = "document.querySelector('[data-figure=accuracy]')?.data?.[0]?.x.length ?? 0"
RANGE = "document.querySelector('[data-figure=accuracy]').layout.xaxis.range"
OPACITY = """() => { const live = document.querySelector(".st-key-live"); live.style.opacity = 0.33;
  const { opacity } = getComputedStyle(live); live.style.opacity = ""; return opacity; }"""
FIGURES = "[...document.querySelectorAll('.live-figure')]"
LONG: dict[str, Any] = {
    "name": "long enough to watch",
    "dataset": {"name": "digits"},
    "partition": {"name": "iid", "num_clients": 4},
    "model": {"name": "mlr"},
    "training": {"rounds": LEAST_ROUNDS, "local_steps": 5},
    "algorithms": [{"name": "fedavg"}],
}
SHORT = LONG | {"name": "soon over", "training": {"rounds": 3, "local_steps": 5}}


@pytest.fixture
def store(server: Server) -> Iterator[Store]:
    """The app's database; unfinished runs are cancelled at the end."""
    store = Store(server.database_url)
    store.ensure_schema()
    yield store
    store.queue.request(store.queue.ids(["queued", "running", "paused"]), "cancel")
    store.close()


@pytest.fixture
def training(store: Store) -> int:
    """An experiment with one run that continues until it is cancelled."""
    return queue(store, LONG)


def queue(store: Store, raw: dict[str, Any]) -> int:
    return store.experiments.create(raw["name"], raw, [new_run(run) for run in parse_experiment(raw).runs()]).id


@pytest.fixture
def live(page: Page, server: Server, training: int) -> Page:
    """The page once the first points are drawn."""
    page.goto(f"{server.url}/live?experiment={training}")
    page.wait_for_function(f"({POINTS}) > 0", timeout=LOAD_MS)
    return page


def test_curves_grow_keep_their_zoom_freeze_and_rest_in_a_hidden_tab(live: Page, page_problems: PageProblems) -> None:
    assert live.evaluate(OPACITY) == "1"  # also if Streamlit fades it
    live.evaluate("Plotly.relayout(document.querySelector('[data-figure=accuracy]'), {'xaxis.range': [1, 7]})")
    drawn = live.evaluate(POINTS)
    live.wait_for_function(f"({POINTS}) > {drawn}", timeout=LOAD_MS)
    assert live.evaluate(RANGE) == [1, 7]

    live.get_by_role("button", name="Freeze charts").click()
    drawn = live.evaluate(POINTS)
    expect(live.locator(".live-held")).to_have_text(re.compile(r"^Frozen\. \d+ new points?\.$"), timeout=LOAD_MS)
    assert live.evaluate(POINTS) == drawn
    live.get_by_role("button", name="Resume charts").click()
    live.wait_for_function(f"({POINTS}) > {drawn}", timeout=LOAD_MS)
    rounds = live.evaluate("document.querySelector('[data-figure=accuracy]').data[0].x")
    assert len({after - before for before, after in pairwise(rounds)}) == 1

    live.get_by_role("radio", name="Global").or_(live.get_by_role("button", name="Global")).first.click()
    live.wait_for_function(f"({POINTS}) > 0", timeout=LOAD_MS)

    live.evaluate("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
    live.wait_for_timeout(1500)
    requested: list[str] = []
    live.on("request", lambda request: requested.append(request.url))
    live.wait_for_timeout(2500)
    assert [url for url in requested if "/live/" in url] == []
    live.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    live.wait_for_event("request", lambda request: "/live/feed" in request.url, timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_after_a_lost_connection_a_run_is_paused_resumed_and_cancelled_and_its_log_updates(live: Page) -> None:
    live.route("**/live/feed*", lambda route: route.abort())
    expect(live.locator(".live-state")).to_contain_text("Connection lost", timeout=LOAD_MS)
    live.unroute("**/live/feed*")
    expect(live.locator(".live-state")).to_be_hidden(timeout=LOAD_MS)

    live.locator(".live-log summary").click()
    run = live.locator(".live-method")
    run.get_by_role("button", name="pause").click()
    expect(run).to_have_attribute("data-status", "paused", timeout=LOAD_MS)
    run.get_by_role("button", name="resume").click()
    expect(run).to_have_attribute("data-status", "running", timeout=LOAD_MS)
    run.get_by_role("button", name="cancel").click()
    expect(run).to_have_attribute("data-status", "cancelled", timeout=LOAD_MS)
    expect(live.locator(".live-log pre")).to_contain_text("cancelled at round", timeout=LOAD_MS)
    expect(live.get_by_role("heading", level=1)).to_have_text("How did it go?", timeout=LOAD_MS)
    expect(live.locator(".announcements")).to_contain_text("How did it go?", timeout=LOAD_MS)
    expect(live.locator("[data-figure=accuracy]")).to_have_attribute("aria-label", re.compile(r"seed 0: mean \d"))


def test_figures_follow_their_curves_after_a_run_is_cancelled_and_retried(
    page: Page, server: Server, store: Store, page_problems: PageProblems
) -> None:
    experiment = queue(store, LONG | {"seeds": [0, 1, 2, 3]})
    page.goto(f"{server.url}/live?experiment={experiment}")
    page.wait_for_function(f"({POINTS}) > 0", timeout=LOAD_MS)
    method = page.locator(".live-method")
    cancel = method.get_by_role("button", name="cancel", exact=False)
    expect(cancel).to_have_count(0)  # of four seeds at once: it is final
    page.locator(".live-run").last.click()
    cancel.click()
    method.get_by_role("button", name="retry").click(timeout=LOAD_MS)
    expect(page.locator(".live-run")).to_have_count(5, timeout=LOAD_MS)
    page.wait_for_function(f"({FIGURES}).every(figure => figure.data.length % 5 === 0)", timeout=LOAD_MS)
    page.wait_for_function(f"({POINTS}) > 1", timeout=LOAD_MS)
    tops = page.evaluate(f"({FIGURES}).map(figure => figure._fullLayout.yaxis.range[1])")
    assert 20 < tops[0] != 100  # the range of accuracies; 100 is that of a figure without points
    assert page.evaluate(f"({FIGURES}).slice(2).every(figure => figure._fullLayout.yaxis.autorange)")
    assert page_problems == PageProblems()


def test_a_run_that_ends_is_announced_on_other_pages_with_a_link(
    page: Page, server: Server, store: Store, page_problems: PageProblems
) -> None:
    queue(store, SHORT | {"name": "ended before"})
    wait_until_idle(store)
    page.goto(f"{server.url}/papers")
    expect(page.locator(".strip")).to_contain_text("0 running", timeout=LOAD_MS)
    experiment = queue(store, SHORT)
    page.evaluate("window.dispatchEvent(new Event('online'))")  # otherwise it polls in ten seconds
    toast = page.locator(".strip-toast")
    expect(toast).to_contain_text("FedAvg, seed 0 is done.", timeout=LOAD_MS)
    assert "ended before" not in toast.inner_text()
    toast.get_by_role("link", name="Live").click()
    page.wait_for_url(f"**/live?experiment={experiment}", timeout=LOAD_MS)
    expect(toast).to_be_hidden(timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_the_queue_can_be_reordered(page: Page, server: Server, store: Store) -> None:
    experiment = queue(store, LONG | {"seeds": list(range(6))})
    last = store.queue.runs(experiment_ids=[experiment])[0].id
    page.goto(f"{server.url}/live?experiment={experiment}&queued={last}")
    page.get_by_role("button", name="First", exact=True).click(timeout=LOAD_MS)
    expect(page.get_by_text(f"seed 5 · run {last}")).to_be_visible(timeout=LOAD_MS)
    wait_until(lambda: store.queue.waiting()[0].id == last)
    assert store.queue.waiting()[0].id == last


def test_large_losses_are_cut_off_and_a_failed_run_is_retried_from_its_card(
    page: Page, server: Server, store: Store
) -> None:
    losses = "document.querySelector('[data-figure=loss]')"
    too_strong = {"algorithms": [{"name": "fedavg"}, {"name": "fedprox", "mu": 1000}]}
    too_fast = {"training": {"rounds": 20, "local_steps": 5, "lr": 1e30}, "algorithms": [{"name": "fedprox"}]}
    high, failed = (queue(store, SHORT | changes) for changes in (too_strong, too_fast))
    wait_until_idle(store)
    page.goto(f"{server.url}/live?experiment={high}")
    page.wait_for_function(f"{losses}?.layout?.annotations?.[0]?.text.startsWith('axis ends at ')", timeout=LOAD_MS)
    assert page.evaluate(f"Math.max(...{losses}.data.flatMap(({{ y }}) => [...y]))") > 1000
    assert page.evaluate(f"{losses}.layout.yaxis.range[1]") < 10  # three times the first

    turn_to(page, f"{server.url}/live?experiment={failed}")
    card = page.locator("[class*=st-key-card_trouble_]")
    expect(card).to_contain_text("FedProx, seed 0 diverged at round", timeout=LOAD_MS)
    card.get_by_role("button", name="Retry with the same seed").click()
    expect(card).to_contain_text("2 runs diverged", timeout=LOAD_MS)
    assert len(store.queue.runs(experiment_ids=[failed])) == 2


def wait_until_idle(store: Store) -> None:
    wait_until(lambda: not store.queue.ids(["queued", "running"]))


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + LOAD_MS / 1000
    while not holds() and time.monotonic() < until:
        time.sleep(0.1)
