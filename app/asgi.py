"""The web server: Streamlit with a few routes beside it, for what grows while somebody looks.

    /live/feed?runs=3,5&after=10,-1&model=personalized     where these runs stand, and their new points
    /live/overview                                         the strip: running, queued, device
    /live/plotly.js                                        the drawing library, from this host as everything else
    /, /live, /compare, ...                                the empty page that Streamlit fills

Reading only, GET only, for this origin and these hosts only: Streamlit's own check of the host guards its WebSocket,
not routes. Under ``streamlit run app/main.py`` there are no routes, and pages fall back to reruns.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import plotly
import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.routing import Route

from app import live_feed, pages, routes, settings
from storage import StorageError, Store, store_from_env

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
INDEX = Path(st.__file__).parent / "static" / "index.html"
YEAR_S = 365 * 24 * 3600


@asynccontextmanager
async def lifespan(app: st.App) -> AsyncIterator[dict[str, Store]]:
    store = store_from_env(settings.ROOT)
    routes.are_served = True
    yield {"store": store}
    store.close()


def live(request: Request) -> JSONResponse:
    query = request.query_params
    model = query.get("model", "personalized")
    try:
        if model not in ("personalized", "global"):
            raise ValueError(f"model is personalized or global, not {model!r}")
        cursors = live_feed.parse_cursors(query.get("runs", ""), query.get("after", ""))
    except ValueError as error:
        return JSONResponse({"problem": str(error)}, 400)
    return _answer(lambda store: live_feed.feed(store, cursors, model))


def overview(request: Request) -> JSONResponse:
    return _answer(live_feed.overview)


def drawing_library(request: Request) -> FileResponse:
    headers = {"Cache-Control": f"public, max-age={YEAR_S}, immutable"}  # its address has the version
    return FileResponse(PLOTLY, media_type="text/javascript", headers=headers)


@cache
def _index() -> str:
    """Streamlit's own, told where its server is: for a link to /live it would ask at /live/_stcore first, and wait."""
    told = "<title>Fedscape</title><script>window.__streamlit = {BACKEND_BASE_URL: location.origin + '/'};</script>"
    return INDEX.read_text(encoding="utf-8").replace("<title>Streamlit</title>", told)


def index(request: Request) -> HTMLResponse:
    return HTMLResponse(_index(), headers={"Cache-Control": "no-cache"})


def _answer(read: Callable[[Store], dict[str, object]]) -> JSONResponse:
    """What was read, never kept by the browser; or why it cannot be read."""
    try:
        return JSONResponse(read(app.state["store"]), headers={"Cache-Control": "no-store"})
    except StorageError as error:
        return JSONResponse({"problem": str(error)}, 503)


hosts = Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts(os.environ), www_redirect=False)
app = st.App(
    "main.py",
    lifespan=lifespan,
    routes=[
        Route(routes.FEED, live, methods=["GET"]),
        Route(routes.OVERVIEW, overview, methods=["GET"]),
        Route(routes.PLOTLY, drawing_library, methods=["GET"]),
        *(Route(path, index, methods=["GET"]) for path in ["/", *(f"/{name}" for name in pages.names())]),
    ],
    middleware=[hosts],
)
