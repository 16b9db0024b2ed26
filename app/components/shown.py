"""A figure with its texts and numbers, for pages and reports."""

from dataclasses import dataclass, field

import pandas as pd
import plotly.graph_objects as go

from app.data.column_heads import Heads


@dataclass(frozen=True)
class Shown:
    """``alt`` is the finding, ``name`` the name of the files; ``title`` and ``caption`` are shown literally.

    ``key`` names the figure on its page. ``hint``, what a reader can do with it, follows the caption on the screen and
    nowhere else. ``heads`` are the heads of columns specific to this table (``column_heads``).
    """

    figure: go.Figure
    table: pd.DataFrame
    alt: str
    title: str | None
    caption: str | None
    key: str
    name: str
    heads: Heads = field(default_factory=dict)
    hint: str = ""

    @property
    def named_alt(self) -> str:
        """The title and the finding: several figures of a page can have the same finding."""
        if not self.title:
            return self.alt
        return f"{self.title}{'' if self.title.endswith('?') else '.'} {self.alt}"


def with_finding(
    figure: go.Figure,
    table: pd.DataFrame,
    finding: str,
    *,
    key: str,
    name: str,
    title: str | None = None,
    also: str = "",
    heads: Heads | None = None,
    hint: str = "",
) -> Shown:
    """A figure whose ``finding`` is its alt text and the start of its caption, followed by ``also``."""
    caption = " ".join(filter(None, [finding, also]))
    return Shown(figure, table, finding, title, caption, key, name, heads or {}, hint)
