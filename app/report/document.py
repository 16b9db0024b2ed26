"""The file around the parts of a report: its style in light and dark, the drawing library, no network."""

import html
from collections.abc import Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from app.charts.plot import palette
from app.components.shown import Shown
from app.report.html import figures_data

_HERE = Path(__file__).parent
# Everything is in the file; with this policy a browser makes no requests.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def document(title: str, body: Sequence[str], charts: Sequence[Shown]) -> str:
    """``body`` has an element for each of ``charts``, which were drawn in the light theme."""
    css = _themes(palette.LIGHT, palette.DARK) + (_HERE / "report.css").read_text(encoding="utf-8")
    js = (_HERE / "report.js").read_text(encoding="utf-8")
    return "".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{html.escape(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n<main>\n",
            "\n".join(body),
            "\n</main>\n<noscript>The figures need JavaScript; all numbers are in the tables.</noscript>\n",
            figures_data(charts, palette.pairs()),
            f"\n<script>{get_plotlyjs()}</script>\n<script>{js}</script>\n</body>\n</html>\n",
        ]
    )


def _themes(light: palette.Theme, dark: palette.Theme) -> str:
    colors = [";".join(f"--{name}:{value}" for name, value in vars(theme).items()) for theme in (light, dark)]
    return f":root{{{colors[0]}}}@media (prefers-color-scheme:dark){{:root{{{colors[1]}}}}}"
