r"""Converts equations in a method's docstring to LaTeX.

    v_i <- v_i - lr [grad f_i(v_i) + lam (v_i - w)]      ->     v_i \gets v_i-\mathrm{lr}\,[\nabla f_i(v_i)+...]

Names of Greek letters, subscripts, ``~``, ``-bar`` and a trailing ``^`` (a hat), sums, norms and roots are converted;
other words are unchanged. It never fails: unknown input is shown unchanged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

GREEK = {
    "alpha": r"\alpha",
    "beta": r"\beta",
    "gamma": r"\gamma",
    "delta": r"\delta",
    "eps": r"\varepsilon",
    "epsilon": r"\varepsilon",
    "zeta": r"\zeta",
    "eta": r"\eta",
    "theta": r"\theta",
    "kappa": r"\kappa",
    "lam": r"\lambda",
    "lambda": r"\lambda",
    "mu": r"\mu",
    "nu": r"\nu",
    "xi": r"\xi",
    "pi": r"\pi",
    "rho": r"\rho",
    "sigma": r"\sigma",
    "tau": r"\tau",
    "phi": r"\varphi",
    "chi": r"\chi",
    "psi": r"\psi",
    "omega": r"\omega",
    "Gamma": r"\Gamma",
    "Delta": r"\Delta",
    "Theta": r"\Theta",
    "Lambda": r"\Lambda",
    "Phi": r"\Phi",
    "Psi": r"\Psi",
    "Sigma": r"\Sigma",
    "Omega": r"\Omega",
}
BIG = {
    "sum": r"\sum",
    "prod": r"\prod",
    "mean": r"\operatorname*{mean}",
    "max": r"\max",
    "min": r"\min",
    "argmin": r"\operatorname*{arg\,min}",
    "argmax": r"\operatorname*{arg\,max}",
}
SYMBOLS = {
    **GREEK,
    "grad": r"\nabla",
    "log": r"\log",
    "exp": r"\exp",
    "inf": r"\infty",
    "infinity": r"\infty",
    "lr": r"\mathrm{lr}",
}
ACCENTS = {"~": r"\tilde", "-tilde": r"\tilde", "-bar": r"\bar", "^": r"\hat", "-hat": r"\hat"}
OPERATORS = {
    "<-": r"\gets",
    "->": r"\to",
    "<=": r"\le",
    ">=": r"\ge",
    "!=": r"\ne",
    "==": "=",
    "...": r"\dots",
    "..": r"\ldots",
    "~": r"\sim",
    "*": r"\cdot",
    "{": r"\{",
    "}": r"\}",
    "%": r"\%",
    "#": r"\#",
    "&": r"\&",
    "$": r"\$",
    "_": r"\_",
    "\\": r"\backslash",
    "`": "",
    "^": r"\wedge",
    ";": r";\;",
}
TOKEN = re.compile(
    rf"""(?P<space>\s+)
      | (?P<norm>\|\|)
      | (?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)
      | (?P<prose>'s\b | [A-Za-z]+(?:-[A-Za-z]{{4,}})+
        | (?!(?:{"|".join(SYMBOLS)})['-])[A-Za-z]{{2,}}(?:'s?|-[A-Za-z]{{2,}})(?![\w^]))
      | (?P<name>[^\W\d_][^\W_]*)
        (?P<before>~(?=[\w^)\],;']|\s|$) | -(?:bar|hat|tilde)(?![A-Za-z]) | \^(?=[\s_),=\]]|$))?
        (?P<subscripts>(?:_(?:\{{[^{{}}]*\}}|[^\W_]+(?:,[A-Z0-9]\b)*))*)
        (?P<after>~ | -(?:bar|hat|tilde)(?![A-Za-z]))?
        (?P<primes>(?:'(?!s\b))*)
      | (?P<operator><-|->|<=|>=|!=|==|\.\.\.|\.\.|.)""",
    re.VERBOSE,
)
GAP = re.compile(r"\s{3,}(?=\S)(?!(?:<-|->|<=|>=|=|~|\+|-\s))")


@dataclass(frozen=True)
class Token:
    """A piece of a line: ``kind`` is a group of TOKEN or ``text``; ``tex`` is what it becomes."""

    kind: str
    source: str
    tex: str
    is_spaced: bool


def aligned(lines: Sequence[str]) -> str:
    """A block of docstring lines as one LaTeX environment: indented as they are, comments in a column at the right."""
    margin = min((_indent(line) for line in lines if line.strip()), default=0)
    rows = [_row(line, margin) for line in lines if line.strip()]
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def formula(text: str) -> str:
    """One line, without its comment."""
    return _joined(_words(_tokens(text)))


def split_comment(line: str) -> tuple[str, str]:
    """A comment follows three or more blanks; blanks before an operator align it with that of other lines."""
    left, *rest = GAP.split(line.strip(), maxsplit=1)
    return left, rest[0] if rest else ""


def _row(line: str, margin: int) -> str:
    left, comment = split_comment(line)
    depth = (_indent(line) - margin + 2) // 4
    tex = "& " + r"\quad " * depth + formula(left)
    return f"{tex} && {{\\small {formula(comment)}}}" if comment else tex


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _tokens(text: str) -> list[Token]:
    found, is_spaced = [], False
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match["name"] is None else "name"
        if kind == "space":
            is_spaced = True
            continue
        found.append(_token(match, kind or "operator", is_spaced))
        is_spaced = False
    return found


def _token(match: re.Match[str], kind: str, is_spaced: bool) -> Token:
    source = match[0]
    if kind == "name":
        return _name(match, is_spaced)
    if kind == "prose":
        return Token("text", source, source, is_spaced)
    tex = OPERATORS.get(source, _letters(source))
    return Token(kind, source, tex, is_spaced)


def _name(match: re.Match[str], is_spaced: bool) -> Token:
    """A symbol with its accent and subscripts; a word where it is none."""
    stem, accent = match["name"], match["before"] or match["after"]
    subscripts = [part.strip("{}") for part in re.findall(r"\{[^{}]*\}|[^\W_]+(?:,[A-Z0-9]\b)*", match["subscripts"])]
    is_decorated = bool(accent or subscripts or match["primes"])
    digits = re.fullmatch(r"([^\W\d_]+?)(\d+)", stem)
    if digits and (len(digits[1]) == 1 or digits[1] in GREEK):
        stem, subscripts, is_decorated = digits[1], [digits[2], *subscripts], True
    if stem in BIG and (subscripts or match.string[match.end() :].lstrip()[:1] in ("(", "{", "[", "|")):
        symbol, kind = BIG[stem], "big"
    elif stem in SYMBOLS:
        symbol, kind = SYMBOLS[stem], "name"
    elif len(stem) == 1:
        symbol, kind = _letters(stem), "name"
    elif match.string[match.end() :][:1] == "(" or (stem.isupper() and stem.isascii()):
        symbol, kind = f"\\operatorname{{{_safe(stem)}}}", "name"
    elif is_decorated:
        symbol, kind = f"\\mathrm{{{_safe(stem)}}}", "name"
    else:
        return Token("text", match[0], _safe(stem), is_spaced)
    if _is_identifier(stem, subscripts):
        return Token("name", match[0], f"\\mathrm{{{_safe('_'.join([stem, *subscripts]))}}}", is_spaced)
    tex = f"{ACCENTS[accent]}{{{symbol}}}" if accent else symbol
    if subscripts:
        tex += "_{" + ",".join(map(_subscript, subscripts)) + "}"
    return Token(kind, match[0], tex + match["primes"], is_spaced)


def _is_identifier(stem: str, subscripts: list[str]) -> bool:
    """``inner_steps`` and ``alpha_lr`` are options with a name, not symbols with an index like ``grad_phi``."""
    known = SYMBOLS.keys() | BIG.keys()
    has_word = any(part == "lr" or (len(part) > 2 and part.isalpha() and part not in known) for part in subscripts)
    return has_word and len(stem) > 1 and stem not in BIG and not stem.isupper()


def _subscript(text: str) -> str:
    """An index, several, or a word."""
    if text in SYMBOLS or not re.fullmatch(r"[A-Za-z]{2,}", text):
        return formula(text)
    return text if len(text) == 2 and text != "lr" else f"\\mathrm{{{text}}}"


def _safe(text: str) -> str:
    """Letters, digits and escaped underscores; no LaTeX commands."""
    return re.sub(r"[^\w-]", "", text).replace("_", r"\_")


def _letters(text: str) -> str:
    """Greek letters as symbols; other letters that formulas lack as upright text."""
    return text if text.isascii() or "\u0370" <= text <= "\u03ff" else f"\\text{{{text}}}"


def _words(tokens: list[Token]) -> list[Token]:
    """Neighboring words become one; an article among words is a word, and so is what punctuates them."""
    found: list[Token] = []
    for place, token in enumerate(tokens):
        last = found[-1] if found else None
        follower = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.source == "in" and last and last.kind != "text" and follower and follower.kind != "text":
            token = Token("relation", "in", r"\in", token.is_spaced)
        elif token.source == "a" and (not last or last.kind == "text") and follower and follower.kind == "text":
            token = Token("text", "a", "a", token.is_spaced)
        elif token.source in (",", ":", ".", ";") and last and last.kind == "text" and not token.is_spaced:
            token = Token("text", token.source, token.source, False)
        if last and last.kind == token.kind == "text":
            gap = " " if token.is_spaced else ""
            found[-1] = Token("text", last.source, f"{last.tex}{gap}{token.tex}", last.is_spaced)
        else:
            found.append(token)
    return found


def _joined(tokens: list[Token]) -> str:
    """The tokens one after another: norms open and close, roots and exponents take what follows them."""
    out: list[str] = []
    is_open, place = False, 0
    while place < len(tokens):
        token = tokens[place]
        piece, step = token.tex, 1
        if token.kind == "norm":
            if token.is_spaced and place + 1 < len(tokens) and tokens[place + 1].is_spaced:
                piece = r"\,\Vert\,"  # between two arguments
            else:
                piece, is_open = (r"\rVert" if is_open else r"\lVert"), not is_open
        elif token.kind == "text":
            piece = _as_text(tokens, place)
        elif token.source == "sqrt" or token.tex == r"\operatorname{sqrt}":
            inside, step = _group(tokens, place + 1)
            piece, step = f"\\sqrt{{{_joined(inside)}}}", step + 1
        elif token.source in ("^", "_") and out and place + 1 < len(tokens) and not tokens[place + 1].is_spaced:
            inside, step = _group(tokens, place + 1)
            base, step = out.pop(), step + 1
            taken = "*" if [t.source for t in inside] == ["*"] else _joined(inside)
            piece = f"{{{base}}}" if token.source in base else base  # two exponents are an error in LaTeX
            piece += f"{token.source}{{{taken}}}"
        elif token.source in ("<", ">"):
            piece = _angle(tokens, place)
        out += ([r"\,"] if _is_product(tokens, place) else []) + [piece]
        place += step
    return " ".join(filter(None, out))


def _group(tokens: list[Token], start: int) -> tuple[list[Token], int]:
    """The argument of a root or exponent: the inside of brackets or one token with its sign; and how many tokens."""
    closing = {"(": ")", "{": "}"}.get(tokens[start].source) if start < len(tokens) else None
    if closing is None:
        signed = start < len(tokens) and tokens[start].source in "+-" and start + 1 < len(tokens)
        width = 2 if signed else 1
        return tokens[start : start + width], len(tokens[start : start + width])
    depth = 0
    for place in range(start, len(tokens)):
        depth += (tokens[place].source == tokens[start].source) - (tokens[place].source == closing)
        if depth == 0:
            return tokens[start + 1 : place], place - start + 1
    return tokens[start + 1 :], len(tokens) - start


def _as_text(tokens: list[Token], place: int) -> str:
    before = " " if tokens[place].is_spaced and place else ""
    after = " " if place + 1 < len(tokens) and tokens[place + 1].is_spaced else ""
    return f"\\text{{{before}{tokens[place].tex}{after}}}"


def _angle(tokens: list[Token], place: int) -> str:
    """``<a, b>`` is an inner product, ``a < b`` compares."""
    follower = tokens[place + 1] if place + 1 < len(tokens) else None
    if tokens[place].source == "<" and follower and not follower.is_spaced:
        return r"\langle"
    return r"\rangle" if tokens[place].source == ">" and not tokens[place].is_spaced else tokens[place].source


def _is_product(tokens: list[Token], place: int) -> bool:
    """Two factors with a blank between them keep a thin one."""
    if place == 0 or not tokens[place].is_spaced:
        return False
    last, token = tokens[place - 1], tokens[place]
    if token.source == "<":
        return _angle(tokens, place) == r"\langle"
    ends = (last.kind in ("name", "number") and not last.source.startswith("grad")) or last.source in (")", "]", "}")
    return ends and (token.kind in ("name", "number", "big") or token.source in ("(", "["))
