"""The panel on clients that never trained: what a method is worth to somebody who joins afterwards."""

from typing import cast

import pandas as pd

from app import address
from app.charts import dumbbell
from app.compare.view import SORTS, View
from app.components import page
from app.wording import names, percent, plural


def newcomers(view: View) -> None:
    """Drawn only where clients were held out."""
    unseen = view.unseen_clients()
    if unseen.empty:
        return
    page.section("And clients that never trained?")
    by = cast(dumbbell.SortKey, address.value("sort", SORTS, "mean"))
    rows = dumbbell.data(unseen, view.share, by, view.clients("personalized", "last"))
    page.told(
        dumbbell.figure(rows, view.share, "the trained clients'"), rows, finding(rows), key="newcomers",
        name="newcomers", title=f"Newcomers: lowest {view.tail} % ◂ mean ▸ top {view.tail} %",
        also="Each got the last round's server model and one participation on its own training data, by the method's "
             f"own rule. Ring: mean of the clients that trained.{_without(view, unseen)}",
    )  # fmt: skip


def finding(rows: pd.DataFrame) -> str:
    """``Newcomers fare best under Ditto: 91.2 %, against 93.0 % of the clients that trained.``"""
    best = rows.loc[rows["mean"].idxmax()]
    held_out = plural(int(best["clients"]), "client was held out", "clients were held out")
    own = f", against {percent(best['other'])} of the clients that trained" if pd.notna(best["other"]) else ""
    return f"{held_out}; they fare best under {best['method']}: {percent(best['mean'])}{own}."


def _without(view: View, unseen: pd.DataFrame) -> str:
    absent = [method.name for method in view.methods if method.name not in set(unseen["method"])]
    return f" {names(absent)}: nothing was measured on newcomers." if absent else ""
