"""Profile: the recorded cost of each round, and where a round's time goes when it is profiled."""

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import profile, round_parts
from app.charts.plot import figure_cache
from app.charts.plot.palette import is_presenting
from app.components import page, terms
from app.data import queries
from app.inside import analysis
from app.inside.tab import Tab
from app.inside.view import RunView
from app.wording import count, duration, ordinal, percent, plural, seconds
from engine.core.findings import Findings
from engine.core.vocabulary import COSTS
from storage import RunRecord


def panel(view: RunView) -> None:
    st.header("What did it cost?", anchor=False)
    series = queries.scalar_series([view.run], COSTS)
    recorded(view.run, series)
    st.header("Where does a round's time go?", anchor=False)
    breakdown(view, series)


TAB = Tab("Profile", order=60, panel=panel)


def recorded(run: RunRecord, series: pd.DataFrame) -> None:
    finding = profile.finding(series)
    table = profile.data(series)
    if table.empty:
        terms.caption(finding)
        return
    per_point = " Each point is the mean of several rounds." if run.round > profile.MAX_POINTS else ""
    for column, (name, title) in zip(st.columns(len(profile.PANELS)), profile.PANELS.items(), strict=True):
        with column:
            st.plotly_chart(
                figure_cache.figure(profile.figure, table, name),
                theme=None,
                key=f"cost_{name}",
                config=page.modebar(name),
                alt=f"{title.capitalize()} by round. {finding}",
            )
    terms.caption(f"{finding}{per_point} {beside_training(run, series)}")
    if not is_presenting():
        with st.container(horizontal=True, key="figure_head_costs"):
            page.table_button(table, key="costs", name="costs", caption=finding, scope="[class*=st-key-cost_]")


def beside_training(run: RunRecord, series: pd.DataFrame) -> str:
    """The share of training in the time from start to end, if known."""
    if run.started_at is None or run.finished_at is None:
        return "Seconds: training only, without evaluation."
    trained = float(series.loc[series["name"] == "seconds", "value"].sum())
    whole = (run.finished_at - run.started_at).total_seconds()
    if whole <= trained:
        return "Seconds: training only, without evaluation."
    return (
        f"Of {duration(whole)} in total, {percent(trained / whole, 0)} was training; the rest was loading data, "
        "evaluation, checkpoints and waiting."
    )


def breakdown(view: RunView, series: pd.DataFrame) -> None:
    """The timings and operators of the analysis ``profile``."""
    took = series.loc[(series["name"] == "seconds") & (series["round"] > 0), "value"]
    each = f", about {seconds(5 * float(took.mean()))} of training" if len(took) else ""
    found = analysis.findings(
        view,
        "profile",
        {},
        verb="Profile five rounds",
        cost=f"Retrains the first five rounds{each}, and one more under torch's profiler",
    )
    if found is None:
        return
    parts = round_parts.data(*clocks(found))
    left, right = st.columns([3, 2], gap="large")
    with left:
        page.finding_chart(
            figure_cache.figure(round_parts.figure, parts),
            parts,
            round_parts.finding(parts),
            key="round_parts",
            name="parts-of-a-round",
            title="Seconds per round, by part",
            also=pace(found),
        )
    with right:
        st.subheader("The most expensive operators", anchor=False)
        st.dataframe(
            operators(found),
            hide_index=True,
            key="operators",
            alt="Operators by their own CPU time",
            column_config={"own ms": st.column_config.NumberColumn(format="%.2f")},
        )
        steps = plural(found.values["profiled_steps"], "local step")
        st.caption(f"For {steps} of one round, by CPU time excluding nested calls.")


def clocks(found: Findings) -> tuple[list[int], dict[str, np.ndarray]]:
    """The rounds, and the seconds of each part."""
    return list(found.arrays["rounds"]), {name: found.arrays[f"seconds.{name}"] for name in found.values["parts"]}


def pace(found: Findings) -> str:
    """Gradient evaluations per second, and how often and how long an evaluation runs."""
    every, once = found.values["evaluation_every"], seconds(found.values["evaluation_seconds"])
    often = "Every round is evaluated" if every == 1 else f"Only every {ordinal(every)} round is evaluated"
    speed = count(float(np.median(found.arrays["samples_per_second"])))
    return f"Median: {speed} gradient evaluations per second. {often}; one evaluation takes {once}."


def operators(found: Findings) -> pd.DataFrame:
    """[Operator, Calls, own ms], the most expensive first."""
    rows = [(o["name"], o["calls"], o["self_ms"]) for o in found.values["operators"]]
    return pd.DataFrame(rows, columns=["Operator", "Calls", "own ms"])
