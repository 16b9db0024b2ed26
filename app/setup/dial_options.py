"""The dials of a configuration: settings that act on uploads, whatever the method."""

from collections.abc import Mapping
from typing import Any

from app.forms import changes
from engine.config.schema import DIALS, OPTION_DIALS
from engine.core.errors import cut
from engine.core.registry import NoOptions, Options


def options_of(dial: str, chosen: Mapping[str, Any]) -> type[Options]:
    return DIALS[dial].get(chosen["name"]).options if dial in DIALS else OPTION_DIALS[dial]


def in_words(dial: str, value: Any) -> str:
    """``aggregator Median``, ``no attack``, ``system, deadline (s) 1.4``: a dial that one method sets.

    It may come from a link, so it may be anything.
    """
    if value is None:
        return f"no {dial}"
    values = value if isinstance(value, Mapping) else {"name": value}
    what, options = dial, OPTION_DIALS.get(dial, NoOptions)
    if dial in DIALS and "name" in values:
        name = str(values["name"])
        is_known = name in DIALS[dial]
        what = f"{dial} {DIALS[dial].get(name).title if is_known else cut(name, 40)}"
        options = DIALS[dial].get(name).options if is_known else NoOptions
    return ", ".join([what, *changes(options, values, options.model_fields)])
