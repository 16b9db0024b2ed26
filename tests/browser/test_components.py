"""Single components: superseded calls, slow or failing drawings, and removal."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app import endpoints
from app.components import drawing_library, live_plot, room_link
from tests.browser.conftest import LOAD_MS, Server

MOUNT = """async ([script, html]) => {
  window.component = (await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})))).default;
  window.holder = document.createElement("div");
  holder.innerHTML = html;
  document.body.replaceChildren(holder);
}"""
CALL = "(data) => { (window.ends ??= []).push(component({data, parentElement: holder})) }"
END = "(i) => ends.at(i)()"
SLOW = """() => {
  const react = Plotly.react;
  Object.assign(window, {inFlight: 0, most: 0, drawn: []});
  Plotly.react = async (place, traces, layout, config) => {
    drawn.push(traces[0].x[0]);
    if (traces[0].x[0] === "broken") throw new Error("no such figure");
    window.most = Math.max(most, ++window.inFlight);
    await react(place, traces, layout, config);
    await new Promise((resolve) => setTimeout(resolve, 100));
    window.inFlight--;
  };
}"""
CALL_AND_COUNT = """(data) => {
  window.runs ??= 0;
  (window.ends ??= []).push(component({data, parentElement: holder, setTriggerValue: () => window.runs++}));
}"""
FAR_MS = 600_000  # the second poll is not part of the test
POLL = f"{endpoints.ROOM}?code=ABCDEFGH"
FEED, ONLINE = f"**{endpoints.FEED}*", "window.dispatchEvent(new Event('online'))"
HTML_PAGE = {"body": "<title>Oh no</title>", "content_type": "text/html"}
MOVING = '<div class="moving" role="figure"></div>'


def moved(x: object) -> dict[str, Any]:
    """A figure with one point at ``x``."""
    figure = {"data": [{"name": "points", "type": "scatter"}], "layout": {"height": 200}}
    moves = {"points": {"x": [x], "y": [1]}}
    return {"figure": figure, "moves": moves, "alt": "", "config": {}, "glide_ms": 50, "plotly": endpoints.LIBRARY}


@pytest.fixture
def blank(page: Page, server: Server) -> Page:
    """A page of the app's host without the app."""
    page.goto(f"{server.url}/_stcore/health")
    return page


def mount(page: Page, script: str, html: str) -> None:
    page.evaluate(MOUNT, [drawing_library.script(script), html])


@pytest.fixture
def figure(blank: Page) -> Page:
    """An animated figure that has drawn its first point; the next ones are slow."""
    mount(blank, "moving_figure.js", MOVING)
    blank.evaluate(CALL, moved(0))
    blank.wait_for_selector(".moving .main-svg", timeout=LOAD_MS)
    blank.evaluate(SLOW)
    return blank


def test_a_figure_draws_one_frame_at_a_time_and_skips_superseded_ones(figure: Page) -> None:
    figure.evaluate(CALL, moved(1))
    figure.wait_for_function("drawn.length === 1", timeout=LOAD_MS)
    figure.evaluate(f"calls => calls.forEach(one => ({CALL})(one))", [moved(x) for x in (2, 3, 4)])
    figure.wait_for_function("inFlight === 0 && drawn.at(-1) === 4", timeout=LOAD_MS)
    assert figure.evaluate("[most, drawn]") == [1, [1, 4]]


def test_a_drawing_error_is_shown_until_the_next_drawing(figure: Page) -> None:
    figure.evaluate(CALL, moved("broken"))
    problem = figure.get_by_role("alert")
    expect(problem).to_contain_text("The figure cannot be drawn (no such figure)", timeout=LOAD_MS)
    figure.evaluate(CALL, moved(5))
    expect(problem).to_have_count(0, timeout=LOAD_MS)
    assert figure.locator(".moving .main-svg").first.is_visible()


def test_the_end_of_a_superseded_call_does_not_affect_the_figure(figure: Page) -> None:
    figure.evaluate(CALL, moved(1))
    figure.evaluate(CALL, moved(2))
    figure.evaluate(END, -2)
    figure.wait_for_function("inFlight === 0 && drawn.at(-1) === 2", timeout=LOAD_MS)
    figure.evaluate(END, -1)
    assert figure.evaluate("Boolean(holder.fedscapeMoving) && !holder.fedscapeMoving.closed")


def test_a_removed_figure_ends_after_its_last_drawing(figure: Page) -> None:
    figure.evaluate(CALL, moved(1))
    figure.evaluate("holder.remove()")
    figure.evaluate(END, -1)
    figure.wait_for_function("!holder.querySelector('.main-svg')", timeout=LOAD_MS)
    assert figure.evaluate("[holder.fedscapeMoving ?? null, inFlight]") == [None, 0]


def test_the_strip_continues_after_a_superseded_call(blank: Page) -> None:
    mount(blank, "strip.js", live_plot.STRIP)
    activity = {"alerts": [], "wait_ms": 60_000, "route": None}
    blank.evaluate(CALL, {"text": "1 running", **activity})
    blank.evaluate(CALL, {"text": "2 running", **activity})
    blank.evaluate(END, 0)
    assert blank.locator(".strip").inner_text() == "2 running"
    assert blank.evaluate("!holder.fedscapeStrip.closed")
    blank.evaluate("holder.remove()")
    blank.evaluate(END, 1)
    assert blank.evaluate("holder.fedscapeStrip ?? null") is None


def show_live_charts(page: Page, *runs: dict[str, Any]) -> None:
    """Draws the live charts of ``runs``, without curves."""
    layout = {"height": 200, "margin": {"r": 0}, "font": {"size": 12}}
    mount(page, "live_plot.js", live_plot.HTML)
    names = {"feed": endpoints.FEED, "plotly": endpoints.LIBRARY, "model": "global", "presenting": False}
    of_runs = {"runs": runs, "swatches": {}, "links": {}}
    figures = {"figures": {"accuracy": {"data": [], "layout": layout}}, "titles": {"accuracy": "Accuracy"}}
    page.evaluate(CALL_AND_COUNT, {**of_runs, **names, **figures})


def answer_feed(page: Page, **answer: Any) -> None:
    """From now on, the feed of the live charts responds like this."""
    page.unroute_all()
    page.route(FEED, lambda route: route.fulfill(**answer))


def test_live_charts_say_why_they_get_no_data(blank: Page) -> None:
    show_live_charts(blank)
    no_route, lost = "this server has no live charts; start it with python -m app", "Connection lost"
    for answer, why in (
        ({"status": 404, "body": "Not Found", "content_type": "text/plain"}, no_route),
        ({"status": 502, **HTML_PAGE}, lost),
        ({"status": 200, **HTML_PAGE}, no_route),
        ({"status": 500, "body": "Internal Server Error", "content_type": "text/plain"}, lost),
        ({"status": 503, "json": {"problem": "The disk is full"}}, "The disk is full"),
        ({"status": 504, "json": {}}, lost),
    ):
        answer_feed(blank, **answer)
        blank.evaluate(ONLINE)
        expect(blank.locator(".live-state")).to_contain_text(f"{why}. Retrying in", timeout=LOAD_MS)


def test_live_charts_reload_the_page_when_the_sign_in_has_expired(blank: Page) -> None:
    answer_feed(blank, status=401, json={"problem": "Sign in to see this page."})
    with blank.expect_event("load", timeout=LOAD_MS):
        show_live_charts(blank)


def test_live_charts_ask_for_a_redraw_again_until_a_changed_status_is_shown(blank: Page) -> None:
    run = {"id": 1, "label": "FedAvg", "seed": 0, "share": 0, "progress": "", "actions": []}
    nothing_new = {"points": {}, "clients": {}, "log": None, "active": False, "wait_ms": FAR_MS}
    answer_feed(blank, json={"runs": [run | {"status": "done"}], **nothing_new})
    show_live_charts(blank, run | {"status": "running"})
    blank.wait_for_function("runs === 1", timeout=LOAD_MS)
    with blank.expect_response(FEED):
        blank.evaluate(ONLINE)
    blank.evaluate("() => { const now = Date.now; Date.now = () => now() + 5000; }")
    blank.evaluate(ONLINE)
    blank.wait_for_function("runs === 2", timeout=LOAD_MS)


def room_at(version: int | None) -> dict[str, Any]:
    """A page in a room, at this version; None does not follow."""
    return {"address": POLL, "version": version, "text": "0 of 1 answered", "wait_ms": 0}


def in_room(page: Page, version: int | None, status: int, body: dict[str, Any]) -> None:
    """Draws the component, and waits until it has handled the response of its first poll."""
    page.route(f"**{POLL}", lambda route: route.fulfill(status=status, json=body))
    mount(page, "room_link.js", room_link.HTML)
    page.evaluate(CALL_AND_COUNT, room_at(version))
    page.wait_for_function(f"holder.fedscapeRoom.polling.due > Date.now() + {FAR_MS / 2}", timeout=LOAD_MS)


@pytest.mark.parametrize(("version", "runs"), [(1, 1), (2, 0), (None, 0)])
def test_a_page_that_follows_runs_again_when_the_version_has_changed(
    version: int | None, runs: int, blank: Page
) -> None:
    in_room(blank, version, 200, {"version": 2, "text": "1 of 1 answered", "wait_ms": FAR_MS})
    assert blank.locator(".room-counts").inner_text() == "1 of 1 answered"
    assert blank.evaluate("runs") == runs


@pytest.mark.parametrize("version", [1, None])
def test_a_page_runs_again_when_its_room_is_closed(version: int | None, blank: Page) -> None:
    in_room(blank, version, 404, {"problem": "no room", "wait_ms": FAR_MS})
    assert blank.evaluate("runs") == 1


def test_a_removed_page_stops_polling_its_room(blank: Page) -> None:
    in_room(blank, 2, 200, {"version": 2, "text": "", "wait_ms": FAR_MS})
    blank.evaluate("window.polling = holder.fedscapeRoom.polling; holder.remove()")
    blank.evaluate(END, 0)
    blank.evaluate("polling.soon(0)")
    assert blank.evaluate(f"[polling.closed, polling.due > Date.now() + {FAR_MS / 2}]") == [True, True]
