"""The shell around the pages: navigation, the strip, the look."""

import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `streamlit run app/main.py` puts app/ there, not the project
    sys.path.insert(0, str(ROOT))

from app import browser, pages  # noqa: E402
from app.components import page  # noqa: E402
from storage import StorageError  # noqa: E402

page.look()
chosen = st.navigation(
    [
        st.Page(pages.FOLDER / f"{name}.py", title=pages.title(name), url_path=name, default=i == 0)
        for i, name in enumerate(pages.names())
    ],
    position="top",
)
st.set_page_config(pages.tab_title(chosen.title), str(ROOT / "assets" / "icon.png"), layout="wide")
try:
    browser.begin()
    page.strip()
    chosen.run()
except StorageError as error:
    page.no_store(str(error))
