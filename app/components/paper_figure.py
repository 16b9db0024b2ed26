"""The dialog "Figure for a paper": charts of the page as one vector file, of the size and in the type of a paper."""

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.charts.plot import palette
from app.charts.printed.settings import (
    FONTS,
    HEIGHT_RANGE,
    LEGENDS,
    MAX_PANELS,
    SIZE_RANGE,
    WIDTH_RANGE,
    WIDTHS,
    Settings,
)
from app.components.shown import Shown
from app.wording import plain

Figures = Mapping[str, Shown]
OTHER = "other"
IN_A_ROW = (0, 1, 2, 3, 4)
_SHOWN, _OFFERED, _KEPT, _WANTED, _OPEN = (f"paper.{name}" for name in ("shown", "offered", "kept", "wanted", "open"))
_DEFAULTS: dict[str, Any] = {
    "width": "icml",
    "inches": 6.75,
    "height": None,
    "font": "times",
    "size": 8.0,
    "legend": "below",
    "columns": 0,
    "is_titled": False,
}


def forget() -> None:
    """Forget the charts of the previous page. Called at the start of a page."""
    st.session_state[_SHOWN] = {}
    st.session_state[_OFFERED] = None


def remember(one: Shown) -> None:
    """A chart that the page has drawn can be a panel."""
    st.session_state.setdefault(_SHOWN, {})[one.key] = one


def offer(make: Callable[[], Sequence[Shown]]) -> None:
    """Charts that the page does not draw now can be panels, too. They are made when the dialog opens."""
    st.session_state[_OFFERED] = make


def button(key: str, popover: str) -> None:
    """A button that opens the dialog with the chart ``key``, and closes its popover."""

    def open_dialog() -> None:
        st.session_state[popover] = False
        st.session_state[_WANTED] = key

    st.button("Figure for a paper", key=f"{key}_for_paper", type="tertiary", on_click=open_dialog)


def open_if_wanted(key: str) -> None:
    """After the popover, which has closed: the dialog cannot be drawn from within."""
    if st.session_state.get(_WANTED) == key:
        st.session_state[_WANTED] = None
        st.session_state[_OPEN] = _figures()
        dialog(key)


def _figures() -> dict[str, Shown]:
    shown: dict[str, Shown] = dict(st.session_state.get(_SHOWN, {}))
    make = st.session_state.get(_OFFERED)
    if make is None:
        return shown
    with palette.on_paper():
        offered = {one.key: one for one in make()}
    return offered | {key: one for key, one in shown.items() if key not in offered}


@st.dialog("Figure for a paper", width="large")
def dialog(key: str) -> None:
    contents(st.session_state[_OPEN], key)


def contents(figures: Figures, key: str) -> None:
    """The choices and the figure, which has the chart ``key`` as its first panel."""
    left, right = st.columns([1, 2.4], gap="large")
    with left:
        keys, settings = _choices(figures, key)
    with right:
        if keys:
            _result([figures[one] for one in keys], settings)
        else:
            st.info("Choose at least one panel.")


def _choices(figures: Figures, key: str) -> tuple[list[str], Settings]:
    """The panels in their order, and how they are printed."""
    name = _widget("width", st.selectbox, "Width", [*WIDTHS, OTHER], format_func=_width_title)
    width = WIDTHS[name][1] if name != OTHER else None
    low, high = WIDTH_RANGE
    inches = width or _widget("inches", st.number_input, "Inches", low, high, step=0.05, format="%.2f")
    low, high = HEIGHT_RANGE
    height = _widget(
        "height", st.number_input, "Height, inches", low, high, step=0.1, format="%.2f", placeholder="automatic"
    )
    font = _widget("font", st.selectbox, "Font", list(FONTS), format_func=FONTS.__getitem__)
    low, high = SIZE_RANGE
    size = _widget("size", st.number_input, "Font size, pt", low, high, step=0.5, format="%.1f")
    legend = _widget(
        "legend", st.segmented_control, "Legend", list(LEGENDS), format_func=LEGENDS.__getitem__, required=True
    )
    keys = st.multiselect(
        "Panels, in this order",
        list(figures),
        default=[key],
        format_func=lambda one: figures[one].title or figures[one].name,
        max_selections=MAX_PANELS,
        key=f"paper_panels_{key}",
    )
    columns, is_titled = 0, False
    if len(keys) > 1:
        columns = _widget(
            "columns", st.segmented_control, "Panels in a row", list(IN_A_ROW), format_func=_in_a_row, required=True
        )
        is_titled = _widget("is_titled", st.toggle, "Titles above the panels")
    titles = tuple(figures[one].title or "" for one in keys) if is_titled else ()
    return keys, Settings(inches, height, font, size, legend, columns, titles)


def _in_a_row(count: int) -> str:
    return str(count) if count else "As many as fit"


def _width_title(name: str) -> str:
    return f"{WIDTHS[name][0]} · {WIDTHS[name][1]:.2f} in" if name in WIDTHS else "Other width"


def _widget(name: str, draw: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A widget whose value is kept for the next figure, also on another page."""
    kept: dict[str, Any] = st.session_state.setdefault(_KEPT, dict(_DEFAULTS))
    key = f"paper_{name}"
    st.session_state.setdefault(key, kept[name])
    kept[name] = draw(*args, key=key, **options)
    return kept[name]


def _result(charts: Sequence[Shown], settings: Settings) -> None:
    """The figure at its actual size, the files, and a suggested caption."""
    from app.charts.printed import sheet  # loads matplotlib, which takes a second

    figures = [one.figure for one in charts]
    for one, reason in [(one, sheet.problem(one.figure)) for one in charts]:
        if reason:
            st.warning(plain(f"{one.title or one.name}: {reason} Download it as PNG or SVG instead."))
            return
    try:
        svg = sheet.render(figures, settings, "svg")
    except sheet.Unprintable as reason:
        st.warning(plain(str(reason)))
        return
    _preview(svg, settings, " ".join(one.alt for one in charts))
    name = "-".join(one.name for one in charts[:2])
    files: dict[str, Any] = {"pdf": partial(sheet.render, figures, settings, "pdf"), "svg": svg}
    with st.container(horizontal=True, key="paper_files"):
        for kind, file in files.items():
            st.download_button(
                f"Download {kind.upper()}",
                file,
                f"{name}.{kind}",
                sheet.FORMATS[kind],
                key=f"paper_{kind}",
                on_click="ignore",
            )
    st.caption("Suggested caption")
    st.code(caption(charts), language=None, wrap_lines=True)


def _preview(svg: bytes, settings: Settings, alt: str) -> None:
    """Show the SVG as an image, so that no script in it can run."""
    source = base64.b64encode(svg).decode()
    st.html(
        f'<div class="true-size"><img src="data:image/svg+xml;base64,{source}" alt="{html.escape(alt, quote=True)}" '
        f'style="width:{settings.width}in"></div>'
    )
    st.caption("Preview at actual size, identical to the download. PDF fonts are embedded; SVG text is outlined.")


def caption(charts: Sequence[Shown]) -> str:
    """``(a) Accuracy against cost. Personalized model, last round. (b) ...``"""
    parts = []
    for i, one in enumerate(charts):
        letter = f"({chr(ord('a') + i)}) " if len(charts) > 1 else ""
        title = f"{one.title.rstrip('.')}. " if one.title else ""
        parts.append(f"{letter}{title}{one.caption or one.alt}".strip())
    return " ".join(parts)
