"""Converts sentences of a docstring to HTML: symbols, option names in code type, links."""

import html
import re
from collections.abc import Collection

GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "eps": "ε",
    "eta": "η",
    "theta": "θ",
    "lam": "λ",
    "mu": "μ",
    "xi": "ξ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "psi": "ψ",
    "omega": "ω",
    "Sigma": "Σ",
}
SIGNS = {"grad": "∇", "sum": "∑"}
ACCENTS = {"~": "\u0303", "-tilde": "\u0303", "-bar": "\u0304", "^": "\u0302", "-hat": "\u0302"}
_CODE = re.compile(r"``([^`]+)``|`([^`]+)`")
_ADDRESS = re.compile(r"https?://[^\s<>&]*[^\s<>&.,;)]")
_START = r"(?:(?<![\w'&#;.-])|(?<=[ (]-))"  # of a symbol: not inside a word or a number, but after a minus sign
_SYMBOL = re.compile(
    rf"{_START}({'|'.join([*GREEK, *SIGNS])}|[A-Za-z])(~|-bar|-tilde|-hat|\^(?=_|[\s,.;)=]|$))?"
    r"('(?![a-zA-Z]))?(?:_([A-Za-z0-9]{1,2}))?(?!\w|'(?!s\b))"
)
_IDENTIFIER = rf"(?!(?:{'|'.join([*GREEK, *SIGNS])})_)(?:[a-z]+\.)?[a-z]{{3,}}(?:_[a-z]+)*_[a-z]{{2,}}(?:_[a-z])?"
_TIMES = re.compile(r"(?<=\d) x (?=\d)")
_POWER = re.compile(r"\^(?:\(([^()]*)\)|\{([^{}]*)\}|(-?\w+))")


def sentences(text: str, options: Collection[str] = ()) -> str:
    """Text about a method whose options have these names."""
    parts = _CODE.split(_TIMES.sub(" × ", text))  # text, code or None, code or None, text, ...
    out = []
    for place in range(0, len(parts), 3):
        out.append(_with_symbols(html.escape(parts[place], quote=False), options))
        out += [f"<code>{html.escape(code)}</code>" for code in parts[place + 1 : place + 3] if code]
    return "".join(out)


def capitalized(text: str, options: Collection[str] = ()) -> str:
    """``sentences`` with a capital first letter, unless it begins with a symbol or the name of an option."""
    first = re.match(r"[a-z]{2,}(?![\w~^(]|-bar)", text)
    return text[:1].upper() + text[1:] if first and first[0] not in {*GREEK, *options, "lr"} else text


def citation(text: str) -> str:
    """Authors, title, venue; the address is a link."""
    return _ADDRESS.sub(
        lambda found: f'<a href="{found[0]}" target="_blank" rel="noopener">{found[0]}</a>',
        html.escape(text, quote=False),
    )


def _with_symbols(escaped: str, options: Collection[str]) -> str:
    linked = re.split(f"({_ADDRESS.pattern})", escaped)
    names = [re.escape(name) for name in options if "_" in name]
    is_option = re.compile(rf"(?<![\w.])({'|'.join([*names, _IDENTIFIER])})(?!\w)")
    for place, piece in enumerate(linked):
        if place % 2:
            linked[place] = citation(html.unescape(piece))
            continue
        pieces = is_option.split(piece)
        linked[place] = "".join(
            f"<code>{part}</code>" if i % 2 else _POWER.sub(_raised, _SYMBOL.sub(_symbol, part))
            for i, part in enumerate(pieces)
        )
    return "".join(linked)


def _symbol(found: re.Match[str]) -> str:
    """``omega~'_i`` as a letter with its tilde, prime and index. A, a, I and sum alone are words."""
    letter, accent, prime, index = found.groups()
    if letter in ("a", "A", "I", "sum") and not accent and not index:
        return found[0]
    shown = SIGNS.get(letter) or f"<i>{GREEK.get(letter, letter)}{ACCENTS.get(accent or '', '')}</i>"
    shown += "\u2032" if prime else ""
    return f"{shown}<sub>{index}</sub>" if index else shown


def _raised(found: re.Match[str]) -> str:
    return f"<sup>{found[1] or found[2] or found[3]}</sup>"
