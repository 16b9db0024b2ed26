"""The panel on configurations: the settings in which the methods differ, and how many they share."""

import streamlit as st

from app.compare.view import View
from app.components import page
from app.data import config_fields
from app.data.column_heads import Head
from app.state import url_state
from app.wording import names, plain, plural


@url_state.fragment
def configurations(view: View) -> None:
    table = config_fields.table(view.methods)
    page.section("Settings that differ")
    shown = [method.name for method in view.methods][: config_fields.MAX_COLUMNS]
    st.dataframe(
        table,
        hide_index=True,
        key="configurations",
        column_config={"field": st.column_config.TextColumn("Setting", pinned=True)},
        alt=f"{plural(len(table), 'setting')} in which {names(shown)} differ",
    )
    page.files(
        table,
        key="configurations",
        name="settings",
        caption="Settings in which the methods differ.",
        heads={name: Head(name) for name in table.columns} | {"field": Head("Setting")},
    )
    st.caption(plain(config_fields.about(view.methods)))
