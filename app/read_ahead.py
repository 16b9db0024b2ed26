"""What the first visitor would wait for otherwise, read while nobody has come yet."""

import gc
import importlib
import pkgutil
from contextlib import suppress

import app
from engine.errors import FedscapeError

PROGRAMS = ("app.__main__", "app.asgi", "app.main", "app.views.")  # these do something when they are imported


def everything() -> None:
    """The modules of all pages, the drawing library, and the presets."""
    for module in pkgutil.walk_packages(app.__path__, "app."):
        if not module.name.startswith(PROGRAMS):
            importlib.import_module(module.name)
    from app import routes  # these need the web server, which comes after this module
    from app.papers.known import known

    routes.zipped_library()
    with suppress(FedscapeError):  # the page that needs them will tell
        known()
    gc.collect()
    gc.freeze()  # all this stays: Streamlit collects garbage after each rerun, and need not look through it every time
