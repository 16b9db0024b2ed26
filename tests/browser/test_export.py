"""Files saved in Chromium: images, tables, and the report, which opens without the app."""

import base64
import io
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import Browser, Download, Locator, Page, expect

from app.charts import dumbbell
from app.compare import tables
from storage import Store
from tests.app.samples import DIGITS, store_experiment
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server, forget, noting, turn_to

DRAWN = "document.querySelectorAll('.js-plotly-plot .main-svg').length > 4"
FILLS = """key => {
  const figure = document.querySelector(`.st-key-figure_${key}`), drawn = figure?.querySelector('.main-svg');
  return drawn && Math.abs(drawn.clientWidth - figure.querySelector('.js-plotly-plot').clientWidth) < 2;
}"""
FILL = "text => getComputedStyle(text).fill"
SVG = "{http://www.w3.org/2000/svg}"
PIXELS_PER_INCH = 96
MARGIN_PX = 24  # of the 32 at each side of a PNG
TITLE = "Lowest 5 % ◂ mean ▸ top 5 %"
METHODS = ("FedAvg", "LocalTrain", "Ditto", "CGPFL K=3")


@pytest.fixture(scope="module")
def experiment(server: Server) -> int:
    store = Store(server.database_url)
    try:
        store.ensure_schema(wait_s=LOAD_MS / 1000)
        return store_experiment(store, DIGITS).id
    finally:
        store.close()


@pytest.fixture(scope="module")
def comparison(strangers_page: Page, server: Server, experiment: int) -> Iterator[tuple[Page, PageProblems]]:
    """A page that is drawn once, because that takes seconds, and its problems."""
    problems = PageProblems()
    problems.watch(strangers_page.context)
    strangers_page.goto(f"{server.url}/compare?experiment={experiment}")
    strangers_page.wait_for_function(DRAWN, timeout=LOAD_MS)
    strangers_page.wait_for_selector(READY, timeout=LOAD_MS)
    yield strangers_page, problems
    problems.unwatch(strangers_page.context)
    forget(strangers_page)


@pytest.fixture
def compare(comparison: tuple[Page, PageProblems]) -> Iterator[Page]:
    """The page without an open popover. It must have had no problems when the test ends."""
    page, problems = comparison
    yield page
    page.keyboard.press("Escape")
    expect(page.locator(".pictures")).to_have_count(0)
    assert problems == PageProblems()


def opened(page: Page, key: str) -> Locator:
    """The popover of a figure."""
    figure = page.locator(f".st-key-figure_{key}")
    figure.scroll_into_view_if_needed(timeout=LOAD_MS)
    figure.get_by_role("button", name="Table · Download").click()
    popover = page.get_by_test_id("stPopoverBody")
    expect(popover.get_by_role("button", name="Markdown")).to_be_visible(timeout=LOAD_MS)
    return popover


def saved(page: Page, place: Locator | Page, name: str) -> tuple[str, bytes]:
    with page.expect_download(timeout=LOAD_MS) as waiting:
        place.get_by_role("button", name=re.compile(rf"^{re.escape(name)}(,|$)")).click()
    return waiting.value.suggested_filename, content(waiting.value)


def content(download: Download) -> bytes:
    return Path(download.path()).read_bytes()


@pytest.mark.slow
def test_a_table_is_not_sent_before_it_is_opened(compare: Page) -> None:
    assert compare.locator(".pictures").count() == 0
    opened(compare, "dumbbell")
    assert compare.locator(".pictures").count() == 1


@pytest.mark.slow
def test_a_figure_is_saved_as_png_at_double_size(compare: Page) -> None:
    name, png = saved(compare, opened(compare, "dumbbell"), "PNG")
    assert name == "low-mean-top.png" and png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    plot = compare.locator(".st-key-figure_dumbbell .js-plotly-plot").bounding_box()
    assert plot and width == 2 * (round(plot["width"]) + 32)
    assert height > 2 * plot["height"]  # with title and caption


def test_a_figure_is_saved_as_svg_with_text_background_and_zoom(compare: Page) -> None:
    plot = compare.locator(".st-key-figure_dumbbell .js-plotly-plot")
    plot.evaluate("plot => { plot.layout.xaxis.range = [1234, 5678]; }")
    name, text = saved(compare, opened(compare, "dumbbell"), "SVG")
    root = ElementTree.fromstring(text)
    words = " ".join(" ".join(root.itertext()).split())
    assert name == "low-mean-top.svg" and root.findtext(f"{SVG}title") == TITLE
    assert re.match(r"Highest mean: .+ with \d+\.\d %", root.findtext(f"{SVG}desc", ""))
    assert words.count(TITLE) == 2 and "whisker" in words and "DIGITS" in words
    assert all(method in words for method in METHODS)
    assert any(tick in words for tick in ("2000", "2,000", "2k"))
    ground = root.find(f"{SVG}rect")
    assert ground is not None and ground.get("fill", "").upper() == "#FBFAF7"


@pytest.mark.slow
def test_a_figure_for_a_paper_is_the_preview(compare: Page) -> None:
    opened(compare, "dumbbell").get_by_role("button", name="Figure for a paper").click()
    dialog = compare.get_by_role("dialog", name="Figure for a paper")
    preview = dialog.locator(".true-size img")
    expect(preview).to_be_visible(timeout=LOAD_MS)
    box = preview.bounding_box()
    assert box and box["width"] == 3.25 * PIXELS_PER_INCH
    name, svg = saved(compare, dialog, "Download SVG")
    assert name == "low-mean-top.svg" and preview.get_attribute("src") == (
        f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    )
    name, pdf = saved(compare, dialog, "Download PDF")
    assert name == "low-mean-top.pdf" and pdf.startswith(b"%PDF-")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


@pytest.fixture(scope="module")
def long_names(server: Server, experiment: int) -> int:
    """Labels of one long word, which are part of a title."""
    store = Store(server.database_url)
    labeled = [{"name": name, "label": f"{name}{150 * 'w'}"} for name in ("fedavg", "local_train")]
    try:
        return store_experiment(store, DIGITS | {"name": "long names", "algorithms": labeled}).id
    finally:
        store.close()


@pytest.mark.slow
def test_no_text_of_an_image_reaches_its_edge(page: Page, server: Server, long_names: int, experiment: int) -> None:
    for of, section, keys, widths in (
        (experiment, "accuracy", ("dumbbell", "ecdf"), (480,)),
        (long_names, "clients", ("paired",), (1280, 480)),
    ):
        turn_to(page, f"{server.url}/compare?experiment={of}&section={section}")
        for width, key in product(widths, keys):
            with noting(f"{key} at {width} pixels"):
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_function(FILLS, arg=key, timeout=LOAD_MS)
                assert_room_at_the_edges(page, key)
                page.keyboard.press("Escape")


def assert_room_at_the_edges(page: Page, key: str) -> None:
    popover = opened(page, key)
    picture = Image.open(io.BytesIO(saved(page, popover, "PNG")[1])).convert("RGB")
    for left in (0, picture.width - MARGIN_PX):
        strip = picture.crop((left, 0, left + MARGIN_PX, picture.height))
        assert len(strip.getcolors() or ()) == 1, f"something is drawn at {left} of {picture.width} pixels"
    root = ElementTree.fromstring(saved(page, popover, "SVG")[1])
    room = float(root.get("width", "0")) - 32
    lengths = [float(line.get("textLength", "0")) for line in root.findall(f"{SVG}text")]
    assert len(lengths) > 2 and all(0 < length <= room for length in lengths)


def test_the_numbers_of_a_figure_are_saved_as_csv_latex_and_markdown(compare: Page) -> None:
    popover = opened(compare, "dumbbell")
    name, csv = saved(compare, popover, "CSV")
    table = pd.read_csv(io.BytesIO(csv))
    assert name == "low-mean-top.csv" and set(table["method"]) == set(METHODS)
    columns = ["run", "method", "algorithm", "split", "seed", "client", "accuracy", "test_size"]
    rows = dumbbell.data(pd.DataFrame(columns=columns), 0.05)
    assert list(table.columns) == list(tables.for_download(rows).columns)
    best = table.iloc[0]
    latex, markdown = (saved(compare, popover, kind)[1].decode() for kind in ("LaTeX", "Markdown"))
    number = f"{100 * best['mean']:.1f}"  # in percent, as on the screen
    assert number in latex and r"\toprule" in latex
    assert number in markdown and markdown.startswith("| Method |")


@pytest.mark.slow
def test_the_figures_of_a_story_can_be_saved_in_the_theme_of_the_page(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.url}/?story=dial")
    page.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    page.wait_for_selector(READY, timeout=LOAD_MS)
    page.get_by_role("button", name="Table · Download").click()
    buttons = page.locator(".pictures").get_by_role("button", name="SVG")
    expect(buttons).to_have_count(page.locator(".moving .main-svg:first-child").count(), timeout=LOAD_MS)
    with page.expect_download(timeout=LOAD_MS) as waiting:
        buttons.first.click()
    picture = ElementTree.fromstring(content(waiting.value))
    ground = picture.find(f"{SVG}rect")
    assert picture.tag == f"{SVG}svg"
    assert ground is not None and ground.get("fill", "").upper() == "#10171A"
    assert page_problems == PageProblems()


@pytest.mark.slow
def test_the_comparison_is_saved_as_a_standalone_report(compare: Page, browser: Browser, tmp_path: Path) -> None:
    figures = 8  # of all sections
    assert compare.locator("[class*=st-key-figure_] .js-plotly-plot").count() < figures
    finding = compare.locator(".lead").first.inner_text()
    name, text = saved(compare, compare, "Export report (HTML)")
    file = tmp_path / name
    file.write_bytes(text)
    context = browser.new_context(offline=True)
    seen, requests = PageProblems(), []
    seen.watch(context)
    context.on("request", lambda request: requests.append(request.url))
    report = context.new_page()
    report.goto(file.as_uri())
    report.wait_for_function(f"document.querySelectorAll('.plot .main-svg').length >= {figures}", timeout=LOAD_MS)
    assert report.locator(".plot").count() == figures
    expect(report.locator(".lead")).to_have_text(finding)
    words = report.locator("main").inner_text()
    assert all(method in words for method in METHODS) and compare.url in words
    assert "Settings that differ" in words and "torch version" in words
    body, tick = report.locator("body"), report.locator(".plot .ytick text").first
    expect(body).to_have_css("background-color", "rgb(251, 250, 247)")
    ink = tick.evaluate(FILL)
    report.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", "rgb(16, 23, 26)")
    expect(tick).not_to_have_css("fill", ink)
    assert requests == [file.as_uri()] and seen == PageProblems()
    context.close()


@pytest.mark.slow
def test_the_report_shows_the_figures_with_the_current_choices(compare: Page) -> None:
    compare.get_by_role("radio", name="Cost").click(timeout=LOAD_MS)
    compare.get_by_role("radio", name="Megabytes").or_(compare.get_by_role("button", name="Megabytes")).first.click(
        timeout=LOAD_MS
    )
    compare.wait_for_url("**x=megabytes*", timeout=LOAD_MS)
    expect(compare.locator(".st-key-figure_curves").get_by_text("megabytes sent").first).to_be_visible(timeout=LOAD_MS)
    text = saved(compare, compare, "Export report (HTML)")[1].decode()
    assert "x=megabytes" in text
    assert "personalized accuracy over megabytes sent" in text
