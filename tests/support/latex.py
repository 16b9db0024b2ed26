"""Finds errors that pdflatex with booktabs would report, without running it."""

import re

COMMANDS = frozenset(
    re.findall(
        r"\w+",
        """
    usepackage begin end centering caption toprule midrule bottomrule pm cdot infty mathbf textbackslash
    textasciitilde textasciicircum dots rightarrow leftarrow uparrow downarrow leftrightarrow triangleleft
    triangleright triangle bigtriangledown times bullet circ diamond star leq geq neq approx surd in nabla sum alpha
    beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi psi
    omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ss o O ae AE l L aa AA i pounds u r H v c
""",
    )
)
SIGNS = frozenset("\\&%$#_{}|,`'^~=.\"")  # \& and so on, accents, and a thin space


def problems(text: str) -> list[str]:
    """A description of every error; empty if LaTeX can set the table."""
    found = [f"not ASCII: {sign!r}" for sign in sorted(set(text)) if not sign.isascii()]
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    used = re.findall(r"\\([A-Za-z]+|.)", body, re.DOTALL)
    found += [f"unknown command: \\{name}" for name in used if name not in COMMANDS and name not in SIGNS]
    bare = re.sub(r"\\(?:[A-Za-z]+|.)", lambda command: " " * len(command[0]), body, flags=re.DOTALL)
    depth, is_math = 0, False
    for at, sign in enumerate(bare):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        is_math ^= sign == "$"
        if depth < 0 or (sign == "\n" and is_math):
            found.append(f"unbalanced at {body[max(0, at - 30) : at + 10]!r}")
        if (sign in "#%~" or (sign in "^_" and not is_math)) or (sign in "<>|" and not is_math):
            found.append(f"{sign} as it is at {body[max(0, at - 30) : at + 10]!r}")
    found += ["a brace or a formula is left open"] if depth or is_math else []
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    columns = re.search(r"\\begin\{tabular\}\{([lrc]+)\}", body)
    counts = {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows}
    if columns is None or counts != {len(columns[1])}:
        found.append(f"rows of {sorted(counts)} cells in {columns and columns[1]}")
    opened = re.findall(r"\\begin\{(\w+)\}", body)
    return found + ([] if opened == re.findall(r"\\end\{(\w+)\}", body)[::-1] else ["environments do not nest"])
