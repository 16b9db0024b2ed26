"""The answers of a class as a dot plot: one dot for each reader, and their number above the dots."""

import json
import textwrap
from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.plot import palette
from app.components import page, terms
from app.components.moving_figure import moving_figure
from app.data import queries, rooms
from app.learn.classroom import answers_of
from app.stories.questions import Choice, Question
from app.wording import plural, unbroken
from storage import RoomRecord

TITLE = "Class answers"
HEIGHT = 280
COLUMN = 180  # pixels for dots above each other
MAX_DOT = 18
ON_A_SLIDE = 1.5  # larger
MIN_ROWS = 8
MAX_TICKS = 11
LINE = 18  # letters of an answer in a line, so that three fit on a phone


def answers_plot(question: Question, room: RoomRecord) -> None:
    """Draw the answers that were stored when the lecturer pressed *Show answers*; on a slide, as high as the slide."""
    df = data(question, rooms.tally(queries.store(), room))
    fig, found = figure(df), finding(question, df)
    page.section(TITLE)
    if palette.is_presenting():
        moving_figure(json.loads(fig.to_json()), {}, key="room_answers", alt=found, name="answers")
        terms.caption(found, "room_answers")
    else:
        page.finding_chart(fig, df, found, key="room_answers", name="answers")


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
    highest, scale = max(int(df["readers"].max()), 1), ON_A_SLIDE if palette.is_presenting() else 1.0
    columns = [(at, height) for at, readers in enumerate(df["readers"]) for height in range(1, readers + 1)]
    fig = go.Figure()
    fig.add_scatter(
        x=[at for at, _ in columns],
        y=[height for _, height in columns],
        mode="markers",
        marker={"size": scale * min(MAX_DOT, COLUMN / highest), "color": palette.theme().accent},
        customdata=[[df["answer"][at], df["readers"][at]] for at, _ in columns],
        hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
    )
    given = df[df["readers"] > 0]
    fig.add_scatter(
        x=given.index,
        y=given["readers"] + 0.4,
        text=given["readers"].astype(str),
        mode="text",
        textposition="top center",
        textfont={"size": 14 * scale},
        hoverinfo="skip",
    )
    palette.base_layout(fig, height=HEIGHT)
    every = -(-len(df) // MAX_TICKS)
    fig.update_xaxes(
        tickvals=list(range(len(df)))[::every],
        ticktext=["<br>".join(textwrap.wrap(answer, LINE)) for answer in df["answer"]][::every],
        tickangle=0,
        tickfont={"size": 12 * scale},
        range=[-0.6, len(df) - 0.4],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_yaxes(range=[0.2, max(highest, MIN_ROWS) * 1.15 + 0.6], visible=False, fixedrange=True)
    return fig.update_layout(showlegend=False)
