"""A walk through every page with runs trained by the app: complete, accessible, without errors; links work."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from app import pages
from app.wording import percent
from benchmarks.pages import SHIFTS
from tests.browser.accessible import PHONE, assert_accessible_in_light, assert_accessible_in_the_dark
from tests.browser.conftest import (
    LOAD_MS,
    PLACEHOLDER,
    READY,
    TRAINED,
    VIEWPORT,
    PageProblems,
    Server,
    Trained,
    noting,
    turn_to,
)

COMPUTE_MS = 100_000
TOTAL_SHIFT = "new Promise(resolve => setTimeout(() => resolve(window.shifted), 100))"
MAX_SHIFT = 0.25  # up to 0.1 is good
DRAWN = "least => document.querySelectorAll('.js-plotly-plot .main-svg:first-child').length >= least"


@dataclass(frozen=True)
class Place:
    """``charts`` is the minimum number. ``title`` is that of the tab, unless it names what is shown.

    ``holds_still``: what is drawn does not move while the rest loads.
    """

    address: Callable[[Trained], str]
    charts: int = 0
    title: str | None = None
    holds_still: bool = False


PAGES = {
    "learn": Place(lambda _: "/", 2, "Learn"),
    "setup": Place(lambda _: "/setup", 1, "Set up", holds_still=True),
    "live": Place(lambda t: f"/live?experiment={t.experiment}", 5, "Live"),
    "compare": Place(lambda t: f"/compare?experiment={t.experiment}", 2, "Compare"),
    "study": Place(lambda _: "/study", 0, "Study"),
    "run": Place(lambda t: f"/run?id={t.runs['cgpfl', 0]}&client=1", 4),
    "papers": Place(lambda _: "/papers", holds_still=True),
    "library": Place(lambda t: f"/library?runs={t.runs['fedavg', 0]}", 0, "Library", holds_still=True),
    "handbook": Place(lambda _: "/handbook"),
}
FURTHER = {
    "clusters": Place(lambda t: f"/run?id={t.runs['cgpfl', 0]}&tab=clusters&round=5", 3),
    "record": Place(lambda t: f"/run?id={t.runs['plgu_lf', 0]}&tab=record"),
    "a figure": Place(lambda _: "/papers?preset=fedprox-synthetic&scale=paper", 1),
    "a method": Place(lambda _: "/handbook?method=cgpfl"),
    "data sets": Place(lambda _: "/handbook?show=datasets"),
}
IN_THE_DARK = PAGES | {place: FURTHER[place] for place in ("record", "a figure", "a method")}
"""The other places have no colors of their own."""
VARIANTS = {
    "features": Place(lambda t: f"/run?id={t.runs['fedavg', 0]}&tab=features"),
    "clusters solved for": Place(lambda t: f"/run?id={t.runs['cgpfl_heur', 0]}&tab=clusters", 3),
    "layers": Place(lambda t: f"/run?id={t.runs['plgu_lf', 0]}&tab=layers", 3),
    "profile": Place(lambda t: f"/run?id={t.runs['plgu_lf', 0]}&tab=profile", 3),
    "the global models": Place(
        lambda t: f"/compare?experiment={t.experiment}&section=clients&model=global&when=best&tail=10", 3
    ),
    "a row for each seed": Place(lambda t: f"/compare?experiment={t.experiment}&section=cost&by=seeds", 2),
}
"""Opened, but not checked by axe, since they have the same parts as the pages above."""


def test_the_walk_covers_every_page() -> None:
    assert list(PAGES) == pages.names()


@pytest.mark.timeout(600)
def test_every_page_is_complete_and_accessible(
    page: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    for place, to in (PAGES | FURTHER).items():
        with noting(place):
            page.set_viewport_size(VIEWPORT)
            if to.holds_still:
                opened(page, server.url + to.address(trained), to.charts)
                page.wait_for_selector(PLACEHOLDER, state="hidden", timeout=LOAD_MS)
                assert page.evaluate(SHIFTS + TOTAL_SHIFT) < MAX_SHIFT
            else:
                turned_to(page, server.url + to.address(trained), to.charts)
            assert_complete_and_accessible(page, to)
            assert page_problems == PageProblems()


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_every_page_is_accessible_in_the_dark(page: Page, server: Server, trained: Trained) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    for place, to in IN_THE_DARK.items():
        with noting(place):
            turned_to(page, server.url + to.address(trained), to.charts)
            assert_accessible_in_the_dark(page)


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_every_variant_of_a_page_is_complete(
    page: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    for place, to in VARIANTS.items():
        with noting(place):
            turned_to(page, server.url + to.address(trained), to.charts)
            assert_complete(page)
            assert page_problems == PageProblems()


def assert_complete_and_accessible(page: Page, place: Place) -> None:
    """Leaves the viewport at the size of a phone."""
    assert_complete(page)
    expect(page.locator(".strip")).to_contain_text("running", timeout=LOAD_MS)
    if place.title:
        expect(page).to_have_title(re.compile(rf"(^|· ){place.title} · Fedscape$"), timeout=LOAD_MS)
    assert_accessible_in_light(page)


def assert_complete(page: Page) -> None:
    assert page.get_by_role("heading", level=1).inner_text().strip()
    assert page.get_by_test_id("stException").count() == 0


@pytest.mark.slow
def test_compare_has_the_numbers_of_the_database_and_a_click_on_a_pair_opens_that_client(
    page: Page, server: Server, trained: Trained, tmp_path: Path
) -> None:
    compare = f"{server.url}/compare?experiment={trained.experiment}"
    opened(page, compare, 2)
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "CSV, all rows", tmp_path))))
    ours = {(row["algorithm"], row["model"], row["when"]): float(row["mean"]) for row in rows}
    for (algorithm, seed), run_id in trained.runs.items():
        if seed:
            continue
        both = trained.store.queue.runs(run_ids=[run_id, trained.runs[algorithm, 1]])
        mean = sum(run.summary["personalized"]["mean"] for run in both) / 2
        assert ours[algorithm, "personalized", "last round"] == pytest.approx(mean, abs=1e-5)

    turned_to(page, f"{compare}&section=clients", 2)
    chart = page.locator(".st-key-figure_paired .js-plotly-plot")
    point = chart.locator(".scatterlayer .point").first
    point.scroll_into_view_if_needed(timeout=LOAD_MS)
    client = point.evaluate("node => node.__data__.data[1]")
    point.click(force=True)
    link = page.get_by_role("link", name=f"Client {client:.0f} in").first
    expect(link).to_be_visible(timeout=LOAD_MS)
    link.click()
    expect(page.locator("strong", has_text=f"Client {client:.0f}:")).to_be_visible(timeout=LOAD_MS)


@pytest.mark.slow
def test_a_comparison_with_its_choices_is_a_link_and_back_returns_to_it(
    page: Page, server: Server, trained: Trained
) -> None:
    runs = ",".join(str(trained.runs[name, seed]) for name in ("fedavg", "cgpfl", "plgu_lf") for seed in (0, 1))
    opened(page, f"{server.url}/compare?runs={runs}", 2)
    for choice in ("Global", "10 %", "Best round"):
        pressed(page, choice).click()
    rule = page.get_by_text("10 % = 1 of 8").first
    expect(rule).to_be_visible(timeout=LOAD_MS)
    expect(rule).to_contain_text("best round")
    same = ("model=global", "tail=10", "when=best", "runs=")
    assert all(part in page.url for part in same)
    address = page.url
    page.get_by_role("link", name="Library", exact=True).first.click()
    page.wait_for_url(f"{server.url}/library", timeout=LOAD_MS)
    page.go_back()
    assert page.url == address
    expect(rule).to_be_visible(timeout=LOAD_MS)


@pytest.mark.slow
def test_a_client_in_a_round_is_in_the_address(page: Page, server: Server, trained: Trained) -> None:
    run_id = trained.runs["cgpfl", 1]
    opened(page, f"{server.url}/run?id={run_id}", 2)
    page.get_by_role("slider", name="Round").press("ArrowLeft")
    expect(page.get_by_role("heading", name="round 9")).to_be_visible(timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("button", name="Lowest", exact=True).click(timeout=LOAD_MS)
    page.wait_for_url("**client=*", timeout=LOAD_MS)
    rounds, accuracy = trained.store.metrics.array(run_id, "personalized.accuracy")
    lowest = float(accuracy[rounds == 9].min())
    expect(page.get_by_text("lowest of 8")).to_contain_text(f"{percent(lowest, 0)} in round 9", timeout=LOAD_MS)
    assert "round=9" in page.url


def test_exported_runs_have_the_numbers_of_the_database(
    page: Page, server: Server, trained: Trained, tmp_path: Path
) -> None:
    ids = [trained.runs["plgu_lf", 0], trained.runs["fedavg", 1]]
    opened(page, f"{server.url}/library?runs={ids[0]},{ids[1]}", 0)
    exported = json.loads(downloaded(page, "Export JSON", tmp_path))
    means = [run["summary"]["personalized"]["mean"] for run in exported["runs"]]
    kept = trained.store.queue.runs(run_ids=ids)
    assert sorted(means) == pytest.approx(sorted(run.summary["personalized"]["mean"] for run in kept))
    rows = list(csv.DictReader(io.StringIO(downloaded(page, "Export CSV", tmp_path))))
    assert len(rows) == len(ids) * (TRAINED["training"]["rounds"] + 1)


def test_a_mistyped_address_opens_a_page_in_the_apps_style(page: Page, server: Server) -> None:
    opened(page, f"{server.url}/libary", 0)
    expect(page.locator(".kicker").first).to_have_css("font-weight", "600", timeout=LOAD_MS)


@pytest.mark.timeout(200)
@pytest.mark.slow
def test_a_landscape_is_queued_by_its_button_and_drawn_around_the_recorded_loss(
    page: Page, server: Server, trained: Trained, page_problems: PageProblems
) -> None:
    run_id = trained.runs["plgu_lf", 1]
    opened(page, f"{server.url}/run?id={run_id}&tab=landscape&client=2", 0)
    page.get_by_role("button", name="Compute landscape").click(timeout=LOAD_MS)
    page.wait_for_function(DRAWN, arg=2, timeout=COMPUTE_MS)
    expect(page.get_by_text("from the models of round 10")).to_be_visible(timeout=LOAD_MS)
    loss = trained.store.metrics.array_at(run_id, "personalized.loss")
    shown = page.locator(".st-key-figure_landscape_1 .js-plotly-plot").evaluate(
        "plot => plot.data.flatMap(trace => trace.text ?? []).map(Number)"
    )
    assert loss is not None
    assert shown == [pytest.approx(float(loss[2]), rel=0.01)]
    assert page_problems == PageProblems()


def opened(page: Page, url: str, charts: int) -> None:
    """Opens the page and waits until this many charts are drawn."""
    page.goto(url)
    page.get_by_role("heading", level=1).wait_for(timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.wait_for_function(DRAWN, arg=charts, timeout=LOAD_MS)


def turned_to(page: Page, url: str, charts: int) -> None:
    """Like ``opened``, but within the app if it is open."""
    turn_to(page, url)
    page.get_by_role("heading", level=1).wait_for(timeout=LOAD_MS)
    page.wait_for_selector(PLACEHOLDER, state="hidden", timeout=LOAD_MS)
    page.wait_for_function(DRAWN, arg=charts, timeout=LOAD_MS)


def pressed(page: Page, name: str) -> Locator:
    """A button of a switch, for any role that Streamlit gives it."""
    return page.get_by_role("radio", name=name, exact=True).or_(page.get_by_role("button", name=name, exact=True)).first


def downloaded(page: Page, button: str, folder: Path) -> str:
    with page.expect_download(timeout=LOAD_MS) as download:
        page.get_by_role("button", name=button, exact=True).click(timeout=LOAD_MS)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path.read_text()
