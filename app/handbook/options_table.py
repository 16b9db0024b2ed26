"""The options of a registered entry as a table: symbol, name, default, allowed values, description."""

import html
from typing import Any

from app.handbook.prose import sentences
from app.wording import MISSING, count
from engine.core.registry import Entry, Parameter

THIN_SPACE, NO_BREAK = "\u2009", "\u202f"
HEAD = ("Symbol", "Option", "Default", "Allowed", "Meaning")


def options_table(entry: Entry) -> str:
    """HTML; empty if there are no options."""
    if not entry.parameters:
        return ""
    names = [parameter.name for parameter in entry.parameters]
    rows = "".join(_row(parameter, names) for parameter in entry.parameters)
    head = "".join(f"<th scope='col'>{title}</th>" for title in HEAD)
    table = f'<table class="handbook"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return scrolled(table, f"Options of {entry.title}")


def scrolled(content: str, name: str) -> str:
    """HTML that scrolls sideways where it is too wide, also by the keyboard."""
    return f'<div class="scrolled" tabindex="0" role="group" aria-label="{html.escape(name)}">{content}</div>'


def allowed(parameter: Parameter) -> str:
    """``0 to 1``, ``at least 1``, ``one of a, b``, ``a number, or "auto"``."""
    kinds = set(parameter.type.split("|"))
    words = ", ".join(f"“{choice}”" if isinstance(choice, str) else str(choice) for choice in parameter.choices or ())
    if "bool" in kinds:
        return "yes or no"
    numbers = _range(parameter) if kinds & {"int", "float"} else ""
    return ", or ".join(filter(None, [numbers, words])) or ("text" if "str" in kinds else MISSING)


def default(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return MISSING if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _range(parameter: Parameter) -> str:
    kind = "whole number" if "float" not in parameter.type else "number"
    low, high, beyond = parameter.minimum, parameter.maximum, parameter.excludes
    above = "" if low is None else f"{'above' if 'minimum' in beyond else 'from'} {_number(low)}"
    below = "" if high is None else f"{'below' if 'maximum' in beyond else 'up to'} {_number(high)}"
    if low is not None and high is not None and not beyond:
        return f"{_number(low)} to {_number(high)}"
    return f"{above}, {below}" if above and below else f"{kind} {above}{below}".strip()


def _number(bound: float) -> str:
    """``0.5``, ``1 000 000``, which does not break over lines."""
    if abs(bound) < 1000 or not float(bound).is_integer():
        return f"{bound:g}"
    return count(bound).replace(THIN_SPACE, NO_BREAK)


def _row(parameter: Parameter, names: list[str]) -> str:
    symbol = parameter.symbol if len(parameter.symbol) <= 3 and parameter.symbol != parameter.name else ""
    given = "required" if parameter.required else default(parameter.default)
    cells = (
        f"<td><i>{html.escape(symbol)}</i></td>",
        f"<th scope='row'><code>{html.escape(parameter.name)}</code></th>",
        f"<td class='number'>{html.escape(given)}</td>",
        f"<td>{html.escape(allowed(parameter))}</td>",
        f"<td class='wide'>{sentences(parameter.meaning, names)}</td>",
    )
    return f"<tr>{''.join(cells)}</tr>"
