"""The part of the page that changes while a run trains: figures, and the text beside them."""

from html import escape

import streamlit as st

from app.charts.plot import palette
from app.components.moving_figure import Picture, hidden_results
from app.components.queue_position import queue_position
from app.components.timed import timed
from app.stories.asked import all_answered
from app.stories.desk import TICK_S, Desk
from app.stories.story import Place, motif_of, picture_of, reading
from app.wording import unbroken


def stage(desk: Desk, place: Place) -> None:
    with st.container(key="stage"):
        timed(TICK_S if desk.is_playing else None)(_tick)(desk, place)


def heading_html(picture: Picture) -> str:
    """The figure's title and note, on a slide."""
    note = f" <i>{escape(picture.note)}</i>" if picture.note else ""
    return f'<p class="figure-title"><b>{escape(unbroken(picture.title))}</b>{note}</p>'


def _slide_figures(picture: Picture, motif: Picture | None) -> None:
    """The figure of a slide, beside the data if the story shows these."""
    if motif is None:
        _slide_figure(picture)
        return
    left, right = st.columns([2, 3], gap="large")
    with left, st.container(key="slide_motif"), hidden_results(False):
        _slide_figure(motif)
    with right:
        _slide_figure(picture)


def _slide_figure(picture: Picture) -> None:
    st.html(heading_html(picture))
    picture.draw()


def _tick(desk: Desk, place: Place) -> None:
    """Trains for a moment, then draws the figures. The whole page reruns when the run has finished."""
    was_open = desk.has_open_question(place)
    with queue_position():
        run = desk.train(place)
        with hidden_results(desk.has_open_question(place)), all_answered(desk.has_answered_all):
            picture = picture_of(desk.story, place, run, desk.marks) if palette.is_presenting() else None
            if picture:
                _slide_figures(picture, motif_of(desk.story, place))
                reading(desk.story, place, picture.now)
            else:
                desk.story.draw(place, run, desk.marks)
    is_over = run is not None and run.is_settled
    if is_over and (desk.is_playing or was_open != desk.has_open_question(place)):
        desk.pause()
        st.rerun()
