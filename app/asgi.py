"""The web server: Streamlit, the routes beside it, and the hosts under whose names it answers.

Streamlit's own check of the host guards its WebSocket only, hence the middleware.
"""

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from app import read_ahead, routes, settings
from engine.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS
from storage import store_from_env

store = store_from_env(settings.ROOT)
hosts = Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts(os.environ), www_redirect=False)


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    for registry in (ALGORITHMS, DATASETS, MODELS, PARTITIONERS):  # before the first visitor, not during the visit
        registry.names()
    threading.Thread(target=read_ahead.everything, name="read-ahead", daemon=True).start()
    routes.are_served = True
    yield
    store.close()


app = st.App("main.py", routes=routes.build(store), middleware=[hosts], lifespan=lifespan)
