"""Routes in addition to Streamlit's: GET only, same origin only. Only the heartbeats of a room write to the database.

/live/feed?runs=3,5&after=10,-1&model=personalized     the state of these runs and their new points; with &log=
                                                       their log too, unless it has this digest
/live/overview?watched=3-9,12,20-&seen=4               the strip: running, queued, device; which runs have ended
/live/plotly.js                                        the drawing library
/learn/room?code=ABCDEFGH                              the version and the counts of a room, and a heartbeat of the
                                                       browser, which its cookie identifies
/, /live, /compare, ...                                the empty page that Streamlit fills
/learn                                                 leads to /, which is Learn
"""

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path

import plotly
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from app import endpoints, pages
from app.access import browsers
from app.actions import rooms as room_actions
from app.data import rooms
from app.data.overview import overview as strip_overview
from app.learn import room_feed
from app.live import live_feed
from app.server import index_page
from engine.core.vocabulary import MODEL_KINDS
from storage import StorageError, Store

_LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_A_YEAR_S = 365 * 24 * 3600


def build(store: Store) -> list[Route]:
    """All routes, reading from ``store``."""

    def feed(request: Request) -> Response:
        return _feed(store, request)

    def overview(request: Request) -> Response:
        watched, seen = (request.query_params.get(name, "") for name in ("watched", "seen"))
        return _answer(lambda: strip_overview(store, watched, seen))

    def room(request: Request) -> Response:
        return _room(store, request)

    handlers: dict[str, Callable[[Request], Response]] = {
        endpoints.FEED: feed,
        endpoints.OVERVIEW: overview,
        endpoints.PLOTLY: _drawing_library,
        endpoints.ROOM: room,
    }
    first, *others = pages.names()
    handlers |= {f"/{first}": _to_first_page} | dict.fromkeys(("/", *(f"/{name}" for name in others)), _page)
    return [Route(address, handler, methods=["GET"]) for address, handler in handlers.items()]


def _feed(store: Store, request: Request) -> Response:
    query = request.query_params
    model = query.get("model", "personalized")
    try:
        if model not in MODEL_KINDS:
            raise ValueError(f"model must be {' or '.join(MODEL_KINDS)}, not {model!r}")
        cursors = live_feed.parse_cursors(query.get("runs", ""), query.get("after", ""))
    except ValueError as error:
        return JSONResponse({"problem": str(error)}, 400)
    return _answer(lambda: live_feed.feed(store, cursors, model, query.get("log")))


def _room(store: Store, request: Request) -> Response:
    """The version and the counts of a room; 404 without an open room of this code."""
    code = rooms.parse_code(request.query_params.get("code", ""))
    try:
        found = rooms.room(store, code) if code else None
    except StorageError as error:
        return JSONResponse({"problem": str(error)}, 503)
    if found is None:
        return JSONResponse({"problem": "There is no room with this code."}, 404, {"Cache-Control": "no-store"})
    secret = browsers.secret_in(request.cookies)
    heartbeat = BackgroundTask(room_actions.renew, store, secret, found) if secret else None
    return JSONResponse(room_feed.feed(found), headers={"Cache-Control": "no-store"}, background=heartbeat)


def _answer(read: Callable[[], dict[str, object]]) -> Response:
    """The data, never cached by the browser; or why it cannot be read."""
    try:
        return JSONResponse(read(), headers={"Cache-Control": "no-store"})
    except StorageError as error:
        return JSONResponse({"problem": str(error)}, 503)


def _drawing_library(request: Request) -> Response:
    headers = {"Cache-Control": f"public, max-age={_A_YEAR_S}, immutable", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return FileResponse(_LIBRARY, media_type="text/javascript", headers=headers)
    return Response(zipped_library(), media_type="text/javascript", headers=headers | {"Content-Encoding": "gzip"})


@cache
def zipped_library() -> bytes:
    """Compressed once, not for every visitor: 4.7 MB to 1.5 MB."""
    return gzip.compress(_LIBRARY.read_bytes(), mtime=0)


def _page(request: Request) -> Response:
    """The page, with the cookie by which a room recognizes the browser."""
    response = HTMLResponse(index_page.html(request.url.path), headers={"Cache-Control": "private, no-cache"})
    response.set_cookie(
        browsers.COOKIE,
        browsers.secret_in(request.cookies) or browsers.new_secret(),
        max_age=browsers.MAX_AGE_S,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )
    return response


def _to_first_page(request: Request) -> Response:
    """Streamlit serves the first page at the root only."""
    return RedirectResponse(f"/?{request.url.query}" if request.url.query else "/")
