"""The HTML that a browser loads first: Streamlit's own, with a title, our styles and a few short scripts.

This is the only module that edits what Streamlit ships. It was written for Streamlit 1.67: its index.html has the title
"Streamlit" and a bare <body>, and what draws a page comes from the files named below.
"""

from functools import cache
from pathlib import Path

import streamlit as st

from app import endpoints, pages
from app.server import guard
from engine.core.paths import ASSETS

STREAMLIT = Path(st.__file__).parent / "static" / "index.html"
LOOK = ASSETS / "look.css"
APP = Path(pages.__file__).parent

_WITH_CHARTS = ("/compare", "/study", "/run")  # drawn when the page opens
_WITH_FIGURES = ("/", "/live")  # animated ones
# If these were not preloaded, texts and buttons would appear last and push everything else down.
_FILES = ("Html", "purify.es", "ButtonGroup", "Button", "PageLink")
_CHART_FILES = ("PlotlyChart", "DataFrame", "arrowFormatUtils")
_FIGURE_FILES = ("BidiComponent", "serialization", "recordbatch", "Slider")
# Without this, a page opened at /live would first try to connect to /live/_stcore, and wait.
_SERVER = "<script>window.__streamlit = {BACKEND_BASE_URL: location.origin + '/'};</script>"
# Streamlit animates expanders with a script, which CSS cannot stop. With reduced motion they open immediately.
_REDUCED_MOTION = """<script>{
  const animate = Element.prototype.animate, still = matchMedia("(prefers-reduced-motion: reduce)");
  Element.prototype.animate = function (frames, options) {
    return animate.call(this, frames, still.matches ? {...Object(options), duration: 0} : options);
  };
}</script>"""
# The server colors figures and code, so the page reloads when the system switches between light and dark.
_COLOR_SCHEME = """<script>
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
</script>"""
_SCRIPTS = "".join(
    f"<script>{{{Path(__file__).with_name(name).read_text(encoding='utf-8')}}}</script>"
    for name in ("keyboard.js", "screen_readers.js")
)


@cache
def html(path: str) -> str:
    """The page at ``path``.

    The styles are in the body, after what Streamlit adds to the head. They stay when another page opens, to which
    their selectors do not apply. A page with charts or figures also names the files that draw them, which the browser
    then loads at once.
    """
    name = path.removeprefix("/") or pages.names()[0]
    head = f"<title>{pages.tab_title(pages.title(name))}</title>{_SERVER}{_REDUCED_MOTION}{_COLOR_SCHEME}{_SCRIPTS}"
    charts, figures = path in _WITH_CHARTS, path in _WITH_FIGURES
    for chunk in (*_FILES, *(_CHART_FILES if charts else ()), *(_FIGURE_FILES if figures else ())):
        for file in sorted(STREAMLIT.parent.glob(f"static/js/{chunk}.*.js")):
            head += f'<link rel="modulepreload" crossorigin href="/static/js/{file.name}">'
    if figures:
        head += f'<link rel="preload" as="script" fetchpriority="low" href="{endpoints.LIBRARY}">'
    index = STREAMLIT.read_text(encoding="utf-8").replace("<title>Streamlit</title>", head)
    styles = "".join(
        sheet.read_text(encoding="utf-8") for sheet in (LOOK, APP / name / f"{name}.css") if sheet.exists()
    )
    return index.replace("<body>", f"<body><style>{styles}</style>")


def inline_scripts() -> list[str]:
    """The scripts of every page, and of Streamlit's own page for an unknown address."""
    found = [STREAMLIT.read_text(encoding="utf-8"), *map(html, ("/", *(f"/{name}" for name in pages.names())))]
    return list(dict.fromkeys(script for page in found for script in guard.inline_scripts(page)))
