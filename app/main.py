"""The shell around the pages: navigation, status strip, style."""

import streamlit as st

from app import pages
from app.components import page
from app.state import url_state
from engine.core.errors import PluginBroken
from engine.core.paths import ASSETS
from storage import StorageError

page.draw_from_the_top()
page.look()
page.require_sign_in()
chosen = st.navigation(
    [
        st.Page(pages.FOLDER / f"{name}.py", title=pages.title(name), url_path=name, default=i == 0)
        for i, name in enumerate(pages.names())
    ],
    position="top",
)
st.set_page_config(pages.tab_title(chosen.title), str(ASSETS / "icon.png"), layout="wide")
try:
    with url_state.page(chosen.url_path or pages.names()[0]):
        page.strip()
        chosen.run()
except (StorageError, PluginBroken) as error:
    page.unavailable(str(error))
