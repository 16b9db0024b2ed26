"""A reader's position in the queue for training, updated while the reader waits."""

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from app.data import turns


@contextmanager
def queue_position() -> Iterator[None]:
    """A line at this place of the page, for waits in the block that are long enough to notice."""
    line = st.empty()

    def show(ahead: int) -> None:
        """Raises Streamlit's StopException or RerunException if this run of the page has been stopped."""
        if ahead:
            line.html(f'<p class="queue-position" role="status">{sentence(ahead)}</p>')
        else:
            line.empty()

    with turns.shown_by(show):
        yield


def sentence(ahead: int) -> str:
    return f"Waiting to train: {'1 person is' if ahead == 1 else f'{ahead} people are'} ahead of you."
