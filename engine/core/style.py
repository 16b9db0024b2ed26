"""The style of a method in figures, in words, which the app's palette translates to colors, dashes and symbols."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Hue = Literal[
    "blue",
    "vermilion",
    "green",
    "purple",
    "sky",
    "amber",
    "teal",
    "violet",
    "rust",
    "olive",
    "grey",
    "pale grey",
    "dark grey",
]
"""Grays are for the references that a personalized method has to beat."""
Dash = Literal["solid", "dash", "dot", "dashdot", "longdash"]
Symbol = Literal[
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "triangle-left",
    "triangle-right",
    "cross",
    "x",
    "pentagon",
    "hexagon",
    "hexagram",
    "star",
    "star-triangle-up",
    "hourglass",
    "bowtie",
]


class Style(BaseModel):
    """The hue, dash and symbol of a method; no two methods that ship have all three in common.

    A method registered without a style gets one derived from its name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hue: Hue
    dash: Dash
    symbol: Symbol
