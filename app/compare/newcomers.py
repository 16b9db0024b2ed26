"""The panel on newcomers: the accuracy of clients that join after training."""

from typing import cast

import pandas as pd

from app.charts import dumbbell
from app.compare import tables
from app.compare.accuracy import SORT
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head
from app.data.comparison import Ranking, doubt, per_run, ranking
from app.state.choice import Choices
from app.wording import capital, names, percent, plural

HEADING = "Newcomers: clients that never trained"


def draw(view: View) -> None:
    """Drawn only where clients were held out."""
    if not view.unseen_clients().empty:
        page.section(HEADING)
        page.show(figure(view, SORT.value()))


def part(view: View, choices: Choices) -> Part | None:
    return None if view.unseen_clients().empty else Part(HEADING, (figure(view, SORT.made_in(choices)),))


def figure(view: View, by: str) -> Shown:
    unseen = view.unseen_clients()
    rows = dumbbell.data(unseen, view.share, cast(dumbbell.SortKey, by), view.clients("personalized", "last"))
    found = finding(rows, ranking(per_run(unseen, view.share), "mean"), view.is_ranked)
    return with_finding(
        dumbbell.figure(rows, view.share, "trained clients'"),
        tables.for_download(rows),
        found,
        key="newcomers",
        name="newcomers",
        title=f"Lowest {view.tail} % ◂ mean ▸ top {view.tail} % of newcomers",
        also="Each received the final server model and adapted it once to its own training data, as the "
        f"method prescribes. Ring: mean of the clients that trained.{_without(view, unseen)}",
        heads={"seeds": Head(capital(view.spread))},
    )


def finding(rows: pd.DataFrame, by_mean: Ranking, is_ranked: bool = True) -> str:
    """``3 clients were held out; Ditto is best for them: 91.2 %, against 93.0 % for clients that trained.``"""
    best = rows.loc[rows["method"] == by_mean.first].iloc[0]
    held_out = plural(int(best["clients"]), "client was held out", "clients were held out")
    if not is_ranked:
        return f"{held_out}. {dumbbell.finding(rows.sort_values('mean', ascending=False), is_ranked=False)}"
    value = percent(best["mean"], samples=best["samples"])
    trained = percent(best["other"], samples=best["other_samples"])
    score = f"{value}, against {trained} for clients that trained" if pd.notna(best["other"]) else value
    if by_mean.is_clear:
        return f"{held_out}; {by_mean.first} is best for them: {score}."
    unsure = doubt(by_mean.seeds, by_mean.tied[1:], unit=by_mean.unit)
    return f"{held_out}; their mean is highest under {by_mean.first}: {score}{unsure}."


def _without(view: View, unseen: pd.DataFrame) -> str:
    absent = [method.name for method in view.methods if method.name not in set(unseen["method"])]
    return f" Not measured on newcomers: {names(absent)}." if absent else ""
