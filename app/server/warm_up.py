"""Loads what the first visitor would otherwise wait for."""

import gc
import importlib
import pkgutil
from contextlib import suppress

import app
from app.access.people import READER
from engine.core import slow_imports
from engine.core.errors import FedscapeError
from storage import StorageError

MAX_ROUNDS = 30_000  # of a comparison: half a second, during which other pages respond late
PROGRAMS = ("app.__main__", "app.server.asgi", "app.main", "app.views.")  # these have side effects when imported


def everything() -> None:
    """The modules of all pages, the drawing library, the presets, the newest comparison, and the cards of Papers.

    Then garbage collections begin, without what is loaded by now, which stays.
    """
    try:
        _load()
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _load() -> None:
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.startswith(PROGRAMS):
            importlib.import_module(module.name)
    slow_imports.load()
    from app.access import permits  # these need the web server, which loads after this module
    from app.data.preset_catalog import known
    from app.server import routes

    routes.zipped_library()
    with permits.requested_by(READER), suppress(StorageError):
        with suppress(FedscapeError):  # the page that needs them will report it
            known()
        comparison()
        gallery()


def gallery() -> None:
    """The cards of Papers."""
    from app.data.preset_catalog import known
    from app.papers.gallery import shown

    with suppress(FedscapeError):
        shown(known())


def comparison() -> None:
    """The tables that Compare opens with. Drawing a figure loads what Plotly imports on first use."""
    from app.charts import curves_over_seeds
    from app.charts.plot import palette
    from app.compare import selection
    from app.compare.view import View
    from app.data import queries
    from app.data.comparison import methods_of

    runs = selection.with_rounds(selection.unnamed(queries.runs()))
    view = View(tuple(methods_of(runs)))
    if sum(run.round for run in runs) > MAX_ROUNDS or len(view.methods) < 2 or view.clients().empty:
        return
    view.clients(view.other_model)
    view.with_costs()
    with palette.on_paper():  # without a session, Streamlit has no theme to look up
        curves_over_seeds.figure(view.curves("round"), "round", view.drawn(curves_over_seeds.MAX_LINES))
