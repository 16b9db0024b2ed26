"""A switch of Set up, with a sentence beside it that is not part of its name."""

from typing import Any

import streamlit as st

from app.wording import plain


def switch(name: str, about: str, *, key: str, **options: Any) -> bool:
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}.switch"):
        is_on = st.toggle(name, key=key, width="content", **options)
        st.markdown(plain(about), width="stretch")
    return is_on
