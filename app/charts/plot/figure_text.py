"""Names in figures. Plotly renders some HTML in every text, so a label could put a link into a chart."""

import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

_ALLOWED = "b|i|br|sub|sup|extra"  # the tags that our charts use; none is a link
_OTHER_TAG = re.compile(rf"<(?!/?(?:{_ALLOWED})>)")
_OTHER_TAG_IN_JSON = re.compile(rf"(?:<|\\u003c)(?!(?:/|\\u002f)?(?:{_ALLOWED})(?:>|\\u003e))")


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
