"""The section on clients: who pays for a setting, two methods client by client, clusters, and newcomers."""

from collections.abc import Iterator

import streamlit as st

from app.compare import newcomers, pair, structure, who_pays
from app.compare.section import Part
from app.compare.view import View
from app.state.choice import Choices

PANELS = (who_pays, pair, structure, newcomers)


def draw(view: View, rows: View) -> None:
    who_pays.draw(view)
    pair.draw(view)
    if structure.clustered_run(view) is None or view.unseen_clients().empty:
        structure.draw(view)
        newcomers.draw(view)
        return
    left, right = st.columns(2, gap="large")
    with left:
        structure.draw(view)
    with right:
        newcomers.draw(view)


def parts(view: View, rows: View, choices: Choices) -> Iterator[Part]:
    yield from filter(None, (panel.part(view, choices) for panel in PANELS))
