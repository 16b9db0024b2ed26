"""Text and tables for plain pdflatex: ASCII only, with booktabs as the only package."""

import re
import unicodedata
from collections.abc import Sequence

from app.wording import MISSING

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    **{c: rf"\{c}" for c in "&%$#_{}"},
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "°": r"$^\circ$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "↔": r"$\leftrightarrow$",
    "◂": r"$\triangleleft$",
    "◀": r"$\triangleleft$",
    "▸": r"$\triangleright$",
    "▶": r"$\triangleright$",
    "▲": r"$\triangle$",
    "△": r"$\triangle$",
    "▼": r"$\bigtriangledown$",
    "●": r"$\bullet$",
    "•": r"$\bullet$",
    "○": r"$\circ$",
    "□": r"$[\,]$",
    "■": r"$[\bullet]$",
    "◆": r"$\diamond$",
    "◇": r"$\diamond$",
    "★": r"$\star$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "√": r"$\surd$",
    "∈": r"$\in$",
    "‖": r"$\|$",
    "∇": r"$\nabla$",
    "∑": r"$\sum$",
    "µ": r"$\mu$",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "„": "``",
    "«": "``",
    "»": "''",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "å": r"\aa{}",
    "Å": r"\AA{}",
    "ı": r"\i{}",
    "€": "EUR",
    "£": r"\pounds{}",
    "\u2060": "",
    "\u200b": "",
    "\u00ad": "",
}
_GREEK = {
    **dict(
        zip(
            "αβγδεζηθικλμνξπρστυφχψω",
            (
                "alpha",
                "beta",
                "gamma",
                "delta",
                "varepsilon",
                "zeta",
                "eta",
                "theta",
                "iota",
                "kappa",
                "lambda",
                "mu",
                "nu",
                "xi",
                "pi",
                "rho",
                "sigma",
                "tau",
                "upsilon",
                "varphi",
                "chi",
                "psi",
                "omega",
            ),
            strict=True,
        )
    ),
    **dict(
        zip(
            "ΓΔΘΛΞΠΣΥΦΨΩ",
            ("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi", "Omega"),
            strict=True,
        )
    ),
}
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
_RAISED = {**dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)), "⁻": "-"}
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))


def escape(text: str) -> str:
    """Text escaped for LaTeX, in one line; an unsupported character becomes its code point, ``U+4E2D``."""
    signs = re.findall(r"[^\u0300-\u036f][\u0300-\u036f]*|[\u0300-\u036f]+", " ".join(text.split()))
    return "".join(map(_sign, signs))


def booktabs(titles: Sequence[str], rows: Sequence[Sequence[str]], alignment: str, caption: str) -> str:
    """All arguments are already LaTeX. Needs ``\\usepackage{booktabs}``, as its first line says."""
    body = [_row(cells) for cells in rows]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \begin{{tabular}}{{{alignment}}}",
            r"    \toprule",
            _row(titles),
            r"    \midrule",
            *body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def number(value: str, spread: str = "") -> str:
    """A printed number in math mode, with its spread; ``1.2e-05`` becomes a power of ten. MISSING is a dash."""
    if value == MISSING:
        return escape(MISSING)
    return f"${_with_exponent(value)} \\pm {_with_exponent(spread)}$" if spread else f"${_with_exponent(value)}$"


def _row(cells: Sequence[str]) -> str:
    """A [ or * at the start would belong to the rule or the line break before it."""
    text = " & ".join(cells)
    return "    " + ("{}" if text.startswith(("[", "*")) else "") + text + r" \\"


def _sign(sign: str) -> str:
    """A character with its combining accents."""
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if sign in _GREEK:
        return rf"$\{_GREEK[sign]}$"
    if sign in _RAISED:
        return f"$^{{{_RAISED[sign]}}}$"
    if sign in _LOWERED:
        return f"$_{{{_LOWERED[sign]}}}$"
    base, *marks = list(unicodedata.normalize("NFD", sign))
    if marks and all(mark in _ACCENTS for mark in marks):
        inner = _sign(base)
        for mark in marks:
            inner = rf"\{_ACCENTS[mark]}{{{inner}}}"
        return inner
    if len(sign) > 1:
        return "".join(map(_sign, sign))
    plain = unicodedata.normalize("NFKC", sign)
    if plain.isascii():
        return plain if plain == sign and plain.isprintable() else "".join(map(_sign, plain)) if plain != sign else ""
    return f"U+{ord(sign):04X}"


def _with_exponent(text: str) -> str:
    mantissa, e, exponent = text.partition("e")
    infinite = mantissa.replace("inf", r"\infty")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if e else infinite
