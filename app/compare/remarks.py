"""What a reader should know about the compared runs, on the page and in the report."""

from collections.abc import Sequence

from app.compare.comparability import notes
from app.compare.view import View
from app.wording import names


def remarks(view: View, absent: Sequence[str]) -> list[str]:
    """Notes on the runs, those that are ``absent`` (``comparability.missing``), missing models, and shipped results."""
    found = [*notes(view.methods), *absent]
    with_model = set(view.clients()["method"])
    without = [method.name for method in view.methods if method.name not in with_model]
    if without and with_model:
        found.append(f"{names(without)} {'has' if len(without) == 1 else 'have'} no {view.model} model.")
    if any(run.example for run in view.runs.values()):
        found.append("Example results that ship with Fedscape.")
    return found
