"""The panel on clients that never trained: what a method is worth to somebody who joins afterwards."""

from typing import cast

import pandas as pd

from app.charts import dumbbell
from app.compare.view import SORTS, View
from app.components import page
from app.data.comparison import Ranking, doubt, per_run, ranking
from app.state import url_state
from app.wording import names, percent, plural


def newcomers(view: View) -> None:
    """Drawn only where clients were held out."""
    unseen = view.unseen_clients()
    if unseen.empty:
        return
    page.section("And clients that never trained?")
    by = cast(dumbbell.SortKey, url_state.value("sort", SORTS, "mean"))
    rows = dumbbell.data(unseen, view.share, by, view.clients("personalized", "last"))
    found = finding(rows, ranking(per_run(unseen, view.share), "mean"))
    page.told(
        dumbbell.figure(rows, view.share, "the trained clients'"),
        rows,
        found,
        key="newcomers",
        name="newcomers",
        title=f"Newcomers: lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
        also="Each got the last round's server model and one participation on its own training data, by the method's "
        f"own rule. Ring: mean of the clients that trained.{_without(view, unseen)}",
    )


def finding(rows: pd.DataFrame, by_mean: Ranking) -> str:
    """``3 clients were held out; they fare best under Ditto: 91.2 %, against 93.0 % of the clients that trained.``"""
    best = rows.loc[rows["method"] == by_mean.first].iloc[0]
    held_out = plural(int(best["clients"]), "client was held out", "clients were held out")
    value = percent(best["mean"], samples=best["samples"])
    trained = percent(best["other"], samples=best["other_samples"])
    said = f"{value}, against {trained} of the clients that trained" if pd.notna(best["other"]) else value
    if by_mean.is_clear:
        return f"{held_out}; they fare best under {by_mean.first}: {said}."
    unsure = doubt(by_mean.seeds, by_mean.tied[1:])
    return f"{held_out}; their mean is highest under {by_mean.first}: {said}{unsure}."


def _without(view: View, unseen: pd.DataFrame) -> str:
    absent = [method.name for method in view.methods if method.name not in set(unseen["method"])]
    return f" {names(absent)}: nothing was measured on newcomers." if absent else ""
