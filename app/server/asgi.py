"""The web server: Streamlit, additional routes, allowed hosts and the request guard.

Streamlit's own host and origin checks cover only its WebSocket, and allow every port of this machine.
"""

import gc
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

gc.disable()  # until ``warm_up`` has loaded everything: what is imported stays

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from app import endpoints
from app.access import rules as access
from app.data import memory_limit, queries
from app.server import index_page, routes, settings, sign_in, warm_up
from app.server.guard import Guard
from app.server.reconnection import Reconnection
from engine.core.paths import ROOT
from engine.core.registry import ALGORITHMS, ANALYSES, DATASETS, MODELS, PARTITIONERS

settings.check_access(os.environ | {"HOST": str(st.get_option("server.address") or "0.0.0.0")})
rules = access.rules(os.environ)
store = queries.store()
memory_limit.web_servers = settings.web_servers(os.environ)
hosts = Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts(os.environ), www_redirect=False)
guard = Middleware(Guard, scripts=index_page.inline_scripts())


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    for registry in (
        ALGORITHMS,
        DATASETS,
        MODELS,
        PARTITIONERS,
        ANALYSES,
    ):  # before the first visitor, not during the visit
        registry.names()
    threading.Thread(target=warm_up.everything, name="read-ahead", daemon=True).start()
    endpoints.are_served = True
    yield
    store.close()


app = st.App(
    ROOT / "app" / "main.py",
    routes=routes.build(store),
    middleware=[hosts, guard, *sign_in.middleware(rules), Middleware(Reconnection)],
    lifespan=lifespan,
    secrets=sign_in.secrets(rules),
)
