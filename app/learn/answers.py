"""The answers of a class as a dot plot: one dot for each reader."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components import page
from app.data import queries, rooms
from app.learn.classroom import answers_of
from app.stories.questions import Choice, Question
from app.wording import plural, unbroken
from storage import RoomRecord

TITLE = "Answers of the class"
HEIGHT = 280
COLUMN = 180  # pixels for dots above each other
MAX_DOT = 18
MIN_ROWS = 8
MAX_TICKS = 11


def answers_plot(question: Question, room: RoomRecord) -> None:
    """Draw the answers that were stored when the lecturer pressed *Show answers*."""
    df = data(question, rooms.tally(queries.store(), room))
    page.section(TITLE)
    page.finding_chart(figure(df), df, finding(question, df), key="room_answers", name="answers")


def data(question: Question, tally: Mapping[str, int]) -> pd.DataFrame:
    """[answer, readers]: every possible answer in order; others in ``tally`` are left out."""
    shown = answers_of(question)
    return pd.DataFrame({"answer": list(shown.values()), "readers": [tally.get(answer, 0) for answer in shown]})


def finding(question: Question, df: pd.DataFrame) -> str:
    """``12 answers. Most frequent: “Alone”, 7.``; for a number ``12 answers. Median: 45 %.``"""
    total = int(df["readers"].sum())
    count = plural(total, "answer")
    if not total:
        return "No answers yet."
    if isinstance(question, Choice):
        top = df[df["readers"] == df["readers"].max()]
        return f"{count}. Most frequent: {' and '.join(f'“{one}”' for one in top['answer'])}, {top['readers'].iloc[0]}."
    return unbroken(f"{count}. Median: {question.say(median(question.stops, df['readers']))}.")


def median(stops: object, readers: pd.Series) -> float:
    return float(np.median(np.repeat(np.asarray(stops, float), readers)))


def figure(df: pd.DataFrame) -> go.Figure:
    """A column of dots for each answer."""
    highest = max(int(df["readers"].max()), 1)
    columns = [(at, height) for at, readers in enumerate(df["readers"]) for height in range(1, readers + 1)]
    fig = go.Figure()
    fig.add_scatter(
        x=[at for at, _ in columns],
        y=[height for _, height in columns],
        mode="markers",
        marker={"size": min(MAX_DOT, COLUMN / highest), "color": palette.ground().accent},
        customdata=[[df["answer"][at], df["readers"][at]] for at, _ in columns],
        hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
    )
    palette.base_layout(fig, height=HEIGHT)
    every = -(-len(df) // MAX_TICKS)
    fig.update_xaxes(
        tickvals=list(range(len(df)))[::every],
        ticktext=list(df["answer"])[::every],
        range=[-0.6, len(df) - 0.4],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_yaxes(range=[0.2, max(highest, MIN_ROWS) + 0.6], visible=False, fixedrange=True)
    return fig.update_layout(showlegend=False)
