"""Inside a run: one tab a question, one round for all of them. Every choice on this page is in its address."""

from importlib import import_module

from app import address, queries
from app.components import page
from app.inside.view import RunView
from app.wording import kicker
from storage import RunRecord

TABS = {
    "clients": "Clients",
    "clusters": "Clusters",
    "landscape": "Landscape",
    "features": "Features",
    "layers": "Layers",
    "profile": "Profile",
    "record": "Configuration and log",
}


def render() -> None:
    page.require_store()
    run = chosen()
    if run is None:
        page.header("INSIDE A RUN", "What happened inside?", "No run has results yet; queue one in Set up.")
        return
    view = RunView(run)
    page.header(kicker(run), f"Inside {view.name}")
    tab = address.switch("Look at", TABS, "tab", "clients")
    import_module(f"app.inside.{tab}").panel(view)


def chosen() -> RunRecord | None:
    """The run of ``?id=5``, or the newest with rounds."""
    ids = address.ids("id")
    found = queries.runs(run_ids=ids[:1], include_archived=True, with_partition=True) if ids else []
    newest = (run for run in queries.runs(newest_first=True) if run.round >= 0)
    return next((run for run in found if run.round >= 0), None) or next(newest, None)


render()
