"""Column titles and units of a figure's numbers, for reading.

Figures compute with fractions and short names; CSV keeps both. On screen, in the report, in LaTeX and in Markdown a
column has a title as on the figure's axis, and an accuracy is a percentage.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.wording import MISSING, capital


@dataclass(frozen=True)
class Head:
    """The format of a column: ``factor`` times its numbers, with ``decimals``, or with four significant digits.

    A p-value (``is_p``) has three significant digits.
    """

    title: str
    factor: float = 1.0
    decimals: int | None = None
    is_p: bool = False

    @property
    def spec(self) -> str | None:
        """``.2f``; None where Streamlit chooses."""
        return ".3g" if self.is_p else None if self.decimals is None else f".{self.decimals}f"


Heads = Mapping[str, Head]


def percent(title: str) -> Head:
    """The head of a column of fractions, shown in percent."""
    return Head(f"{title}, %", 100.0, 2)


def in_percent(title: str) -> Head:
    """The head of a column that is already in percent."""
    return Head(f"{title}, %", 1.0, 2)


HEADS: Heads = {
    "accuracy": percent("Accuracy"),
    "mean": percent("Mean"),
    "lowest": percent("Lowest"),
    "top": percent("Top"),
    "spread": percent("Top minus lowest"),
    "other": percent("Mean of the other model"),
    "share": percent("Share"),
    "everybody": percent("Share of everyone's"),
    "own": percent("On own data"),
    "ours": percent("Ours"),
    "everywhere": percent("On everyone's data"),
    "paper": percent("Paper"),
    "pm": percent("±"),
    "difference": percent("Difference"),
    "start": percent("From"),
    "end": percent("To"),
    "shown": percent("Shown"),
    "std": percent("Std"),
    "itself": Head("Value it chose"),
    "tail": Head("Clients in a tail"),
    "gradient_evaluations": Head("Gradient evaluations"),
    "megabytes": Head("MB", decimals=3),
    "train": Head("Training"),
    "val": Head("Validation"),
    "front": Head("On the Pareto front"),
    "is_best": Head("Best"),
    "x": Head("x"),
    "y": Head("y"),
    "lam": Head("λ"),
    "rho": Head("ρ"),
    "rank": Head("Rank"),
    "is_own": Head("This run"),
    "is_global": Head("Global model"),
    "ari": Head("Adjusted Rand index", decimals=2),
    "true": Head("True class"),
    "predicted": Head("Predicted class"),
    "letter": Head("Letter"),
    "times": Head("Times personal"),
    "personal": Head("Personal"),
    "next_round": Head("Next round"),
    "center_x": Head("Cluster's x"),
    "center_y": Head("Cluster's y"),
    "is_low_before": Head("Among the lowest before"),
    "is_low_now": Head("Among the lowest now"),
    "kmeans_iterations": Head("K-means iterations"),
    "kmeans_seconds": Head("K-means seconds"),
    "e": Head("e(K)"),
    "K": Head("K"),
    "path": Head("Method and values"),
    "seeds_run": Head("Seeds run"),
    "seeds_planned": Head("Seeds planned"),
    "class": Head("Class"),
}
LIVE: Heads = {
    "mean": in_percent("Mean"),
    "lowest5": Head("Lowest 5 %", decimals=2),
    "std": in_percent("Std"),
    "loss": Head("Test loss"),
    "train_loss": Head("Training loss"),
    "accuracy": in_percent("Accuracy"),
    "share": in_percent("Share"),
}
_NAMED = ("method", "label", "line")  # make an algorithm's short name redundant


def read_columns(table: pd.DataFrame) -> list[str]:
    """The columns to show: a ± is shown with its number, and methods have one name."""
    names = [str(name) for name in table.columns]
    is_named = any(name in _NAMED for name in names)
    return [
        name
        for name in names
        if not (name.endswith("_pm") and name.removesuffix("_pm") in names) and not (is_named and name == "algorithm")
    ]


def head_of(name: str, heads: Heads) -> Head:
    """The head of a column, from ``heads`` or HEADS; any other name is its own title."""
    base = name.removesuffix("_pm")
    if base != name:
        head = head_of(base, heads)
        return Head(f"± {head.title}", head.factor, head.decimals)
    return heads.get(name) or HEADS.get(name) or Head(capital(name.replace("_", " ").strip()))


def read(table: pd.DataFrame, heads: Heads) -> pd.DataFrame:
    """The same rows with titles as columns and scaled units; a ± has a column beside its number."""
    columns = [name for name in map(str, table.columns) if name in read_columns(table) or name.endswith("_pm")]
    parts = {name: _scaled(table[name], head_of(name, heads)) for name in columns}
    return pd.DataFrame(parts, index=table.index).set_axis([head_of(n, heads).title for n in columns], axis=1)


def formats(table: pd.DataFrame, heads: Heads) -> dict[str, Any]:
    """Column settings of ``st.dataframe`` for the result of ``read``."""
    found = {}
    for name in map(str, table.columns):
        head = head_of(name, heads)
        if head.spec is not None:
            found[head.title] = st.column_config.NumberColumn(format=f"%{head.spec}")
    return found


def text(value: Any, head: Head) -> str:
    """One number or word of a column, with a hyphen as minus."""
    if value is None or (isinstance(value, Real) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return str(value)
    if head.spec is not None and math.isfinite(value):
        return f"{head.factor * value:{head.spec}}"
    return str(value) if isinstance(value, Integral) else f"{head.factor * value:.4g}"


def _scaled(values: pd.Series, head: Head) -> pd.Series:
    if pd.api.types.is_bool_dtype(values):
        return values.map({True: "yes", False: "no"})
    return values * head.factor if head.factor != 1 and pd.api.types.is_numeric_dtype(values) else values
