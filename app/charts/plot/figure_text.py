"""Names in figures. Plotly reads a little HTML in every text, so that a label could put a link into a chart."""

import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

_KEPT = "b|i|br|sub|sup|extra"  # what our charts write; none of it leads anywhere
_OTHER_TAG = re.compile(rf"<(?!/?(?:{_KEPT})>)")
_OTHER_TAG_IN_JSON = re.compile(rf"(?:<|\\u003c)(?!(?:/|\\u002f)?(?:{_KEPT})(?:>|\\u003e))")


def without_links(figure: go.Figure) -> go.Figure:
    """The same figure, in which every tag but bold, italic, line breaks, sub- and superscripts is shown as text."""
    if _OTHER_TAG_IN_JSON.search(figure.to_json()):
        figure.update(_shown(figure.to_dict()), overwrite=True)
    return figure


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return _OTHER_TAG.sub("&lt;", value)
    if isinstance(value, dict):
        return {name: _shown(own) for name, own in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind in "OU"):
        return [_shown(own) for own in value]
    return value
