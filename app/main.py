"""The shell around the pages: navigation, the strip, the look. A file in ``views/`` is a page."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `streamlit run app/main.py` puts app/ there, not the project
    sys.path.insert(0, str(ROOT))

from app.components import page  # noqa: E402

ORDER = ("learn", "setup", "live", "compare", "library")
TITLES = {"setup": "Set up"}

st.set_page_config(page_title="Fedscape", page_icon=str(ROOT / "assets" / "icon.png"), layout="wide")
page.look()
views = sorted(
    (ROOT / "app" / "views").glob("[a-z]*.py"),
    key=lambda path: (ORDER.index(path.stem) if path.stem in ORDER else len(ORDER), path.stem),
)
chosen = st.navigation(
    [
        st.Page(path, title=TITLES.get(path.stem, path.stem.capitalize()), url_path=path.stem, default=i == 0)
        for i, path in enumerate(views)
    ],
    position="top",
)
page.strip()
chosen.run()
