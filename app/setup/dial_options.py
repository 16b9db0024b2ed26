"""The dials of a configuration: settings that act on uploads, whatever the method."""

from collections.abc import Mapping
from typing import Any

from app.forms import changes, parameters_of
from engine.config.schema import DIALS, OPTION_DIALS, own_dials
from engine.core.errors import cut
from engine.core.registry import NoOptions, Options


def options_of(dial: str, chosen: Mapping[str, Any]) -> type[Options]:
    return DIALS[dial].get(chosen["name"]).options if dial in DIALS else OPTION_DIALS[dial]


def whole(dial: str, entry: Mapping[str, Any], experiment: Mapping[str, Any]) -> dict[str, Any] | None:
    """The dial that a method sets, with the keys that it takes from the experiment; None: it is off.

    Empty if its kind does not exist.
    """
    found = own_dials(entry, experiment)[dial]
    if found is None:
        return None
    found = dict(found) if isinstance(found, Mapping) else {"name": found}
    if dial not in DIALS:
        return found
    name = found.get("name")
    return found if isinstance(name, str) and name in DIALS[dial] else {}


def is_unusable(dial: str, given: Mapping[str, Any] | None) -> bool:
    """Whether ``whole`` found that its kind does not exist."""
    return dial in DIALS and given is not None and not given


def is_same(dial: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both set the same values, defaults included."""
    if dial in DIALS and one["name"] != other["name"]:
        return False
    defaults = {p.name: p.default for p in parameters_of(options_of(dial, one))}
    return all(one.get(name, default) == other.get(name, default) for name, default in defaults.items())


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
