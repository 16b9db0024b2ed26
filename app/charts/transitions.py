"""The previous clusters of each cluster's members: CGPFL's matrix Q of one step.

    Q_jk = |C_j and C_k'| / |C_k'|          columns of the clusters that are used sum to 1

Clusters use the letters of the raster, which stay with a group when a method renumbers its clusters. So a client off
the diagonal has moved, and Q is the one that CGPFL records, up to the order of its columns.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.cluster_raster import letter
from app.charts.plot.annotations import annotate
from app.charts.plot.palette import base_layout, contrast, rgb, theme, translucent
from app.wording import percent, plural

ROOM = 7  # clusters whose cells are high enough for two lines


def data(cells: pd.DataFrame, before: int, after: int) -> pd.DataFrame:
    """Cells of the raster, two of its rounds -> [before, after, clients, share]: a row per pair of letters in use."""
    old, new = (cells[cells["round"] == at].set_index("client")["cluster"] for at in (before, after))
    used = range(int(max(old.max(), new.max())) + 1)
    counts = pd.crosstab(old, new).reindex(index=used, columns=used, fill_value=0)
    counts = counts.loc[:, counts.sum() > 0]
    counts = counts.loc[(counts.sum(axis=1) > 0) | counts.index.isin(counts.columns)]
    share = counts / counts.sum()
    return pd.DataFrame(
        [
            {"before": letter(j), "after": letter(k), "clients": int(counts.loc[j, k]), "share": float(share.loc[j, k])}
            for j in counts.index
            for k in counts.columns
        ]
    )


def figure(df: pd.DataFrame, before: int, after: int) -> go.Figure:
    """Shares as shades and numbers; columns are the clusters now, rows where their members were."""
    shade = theme()
    share, count = (df.pivot(index="before", columns="after", values=v) for v in ("share", "clients"))
    order = df["before"].unique(), df["after"].unique()
    share, count = (table.loc[order[0], order[1]] for table in (share, count))
    fig = go.Figure()
    fig.add_heatmap(
        z=share.to_numpy(np.float32),
        x=list(share.columns),
        y=list(share.index),
        zmin=0,
        zmax=1,
        showscale=False,
        colorscale=[(0, translucent(shade.accent, 0.04)), (1, shade.accent)],
        xgap=2,
        ygap=2,
        customdata=count.to_numpy(),
        hovertemplate="%{customdata} now in %{x} were in %{y}: %{z:.0%}<extra></extra>",
    )
    base_layout(fig, height=360)
    few = len(order[0]) <= ROOM
    annotate(
        fig,
        (
            {
                "x": row.after,
                "y": row.before,
                "showarrow": False,
                "text": f"<b>{row.clients}</b><br>{row.share:.0%}" if few else str(row.clients),
                "font": {"color": _readable(row.share), "size": 13 if few else 10},
            }
            for row in df[df["clients"] > 0].itertuples()
        ),
    )
    fig.update_xaxes(title_text=f"cluster in round {after}", showline=False, ticks="")
    fig.update_yaxes(title_text=f"cluster in round {before}", autorange="reversed", showgrid=False, ticks="")
    return fig


def _readable(share: float) -> str:
    """Paper or ink, whichever has more contrast with the shade of ``share``."""
    shade = theme()
    mixed = [round(low + share * (high - low)) for low, high in zip(rgb(shade.paper), rgb(shade.accent), strict=True)]
    cell = "#{:02X}{:02X}{:02X}".format(*mixed)
    return max(shade.paper, shade.ink, key=lambda text: contrast(text, cell))


def finding(df: pd.DataFrame, before: int, after: int) -> str:
    """``Between rounds 4 and 5, 3 of 40 clients moved; 25 % of A came from elsewhere.``"""
    moved, total = int(df.loc[df["before"] != df["after"], "clients"].sum()), int(df["clients"].sum())
    step = f"Between rounds {before} and {after},"
    if not moved:
        return f"{step} no client moved."
    worst = df[(df["before"] == df["after"])].sort_values("share", kind="stable").iloc[:1]
    if not len(worst):
        return f"{step} all clients moved."
    name, stayed = worst["after"].iloc[0], worst["share"].iloc[0]
    return f"{step} {moved} of {plural(total, 'client')} moved; {percent(1 - stayed, 0)} of {name} came from elsewhere."
