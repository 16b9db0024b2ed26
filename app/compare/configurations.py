"""The panel on what the methods were told: the settings in which they differ, and how many they share."""

import streamlit as st

from app.compare import fields
from app.compare.view import View
from app.components import page
from app.wording import names, plain, plural


@st.fragment
def configurations(view: View) -> None:
    table = fields.table(view.methods)
    _, alike = fields.varied(view.methods)
    page.section("What was set differently?")
    shown = [method.name for method in view.methods][: fields.MOST_COLUMNS]
    st.dataframe(
        table, hide_index=True, key="configurations",
        column_config={"field": st.column_config.TextColumn("Setting", pinned=True)},
        alt=f"{plural(len(table), 'setting')} in which {names(shown)} differ",
    )  # fmt: skip
    page.files(table, key="configurations", name="settings", caption="Settings in which the methods differ.")
    left_out = len(view.methods) - len(shown)
    rest = f" {plural(left_out, 'more method has', 'more methods have')} no column here." if left_out > 0 else ""
    st.caption(plain(f"{plural(alike, 'setting is', 'settings are')} the same in all and not shown; – : a method does "
                     f"not know the setting. Seeds are not settings.{rest}"))  # fmt: skip
