"""Routes beside Streamlit: read only, GET only, same origin only.

/live/feed?runs=3,5&after=10,-1&model=personalized     the state of these runs and their new points; with &log=
                                                       their log too, unless it has this digest
/live/overview?watched=3-9,12,20-&seen=4               the strip: running, queued, device; which runs have ended
/live/plotly.js                                        the drawing library
/, /live, /compare, ...                                the empty page that Streamlit fills
"""

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path

import plotly
import streamlit as st
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from app import endpoints, pages
from app.data.overview import overview as strip_overview
from app.live import live_feed
from app.server import guard
from engine.core.paths import ASSETS
from storage import StorageError, Store

LOOK = ASSETS / "look.css"

_LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_INDEX = Path(st.__file__).parent / "static" / "index.html"
_WITH_CHARTS = ("/compare", "/run")  # pages that open with charts
_DRAW = ("PlotlyChart", "DataFrame", "arrowFormatUtils")  # Streamlit's files for charts and tables
_A_YEAR_S = 365 * 24 * 3600
# With reduced motion, expanders open at once: the style sheet stops CSS motion, this Streamlit's scripted motion.
_STILL = """<script>{
  const animate = Element.prototype.animate, still = matchMedia("(prefers-reduced-motion: reduce)");
  Element.prototype.animate = function (frames, options) {
    return animate.call(this, frames, still.matches ? {...Object(options), duration: 0} : options);
  };
}</script>"""


def build(store: Store) -> list[Route]:
    """All routes, reading from ``store``."""

    def feed(request: Request) -> Response:
        return _feed(store, request)

    def overview(request: Request) -> Response:
        watched, seen = (request.query_params.get(name, "") for name in ("watched", "seen"))
        return _answer(lambda: strip_overview(store, watched, seen))

    handlers: dict[str, Callable[[Request], Response]] = {
        endpoints.FEED: feed,
        endpoints.OVERVIEW: overview,
        endpoints.PLOTLY: _drawing_library,
    }
    handlers |= dict.fromkeys(("/", *(f"/{name}" for name in pages.names())), _page)
    return [Route(address, handler, methods=["GET"]) for address, handler in handlers.items()]


def inline_scripts() -> list[str]:
    """The inline scripts of every page, and of Streamlit's own page for unknown addresses."""
    pages_ = [_INDEX.read_text(encoding="utf-8"), *map(_index, ("/", *(f"/{name}" for name in pages.names())))]
    return list(dict.fromkeys(script for html in pages_ for script in guard.inline_scripts(html)))


def _feed(store: Store, request: Request) -> Response:
    query = request.query_params
    model = query.get("model", "personalized")
    try:
        if model not in ("personalized", "global"):
            raise ValueError(f"model must be personalized or global, not {model!r}")
        cursors = live_feed.parse_cursors(query.get("runs", ""), query.get("after", ""))
    except ValueError as error:
        return JSONResponse({"problem": str(error)}, 400)
    return _answer(lambda: live_feed.feed(store, cursors, model, query.get("log")))


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
    return HTMLResponse(_index(request.url.path), headers={"Cache-Control": "no-cache"})


@cache
def _index(path: str) -> str:
    """Streamlit's index page with the server's address: for /live it would try /live/_stcore first, and wait.

    It includes the style of all pages, after Streamlit's own head, so that nothing moves when it loads. Pages with
    charts also preload the files that draw charts and tables, which would otherwise load with the first chart.
    """
    title = pages.title(path.removeprefix("/") or pages.names()[0])
    head = f"<title>{pages.tab_title(title)}</title>"
    head += "<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + '/'};</script>"
    head += _STILL
    if path in _WITH_CHARTS:
        files = [file.name for chunk in _DRAW for file in sorted(_INDEX.parent.glob(f"static/js/{chunk}.*.js"))]
        head += "".join(f'<link rel="modulepreload" crossorigin href="/static/js/{name}">' for name in files)
    elif path == "/live":
        head += f'<link rel="preload" as="script" href="{endpoints.LIBRARY}">'
    index = _INDEX.read_text(encoding="utf-8").replace("<title>Streamlit</title>", head)
    return index.replace("<body>", f"<body><style>{LOOK.read_text(encoding='utf-8')}</style>")
