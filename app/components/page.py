"""The frame of a page and of a chart: kicker, title, lead; figure, table, download."""

import html
import zlib
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.delta_generator_singletons import context_dg_stack, get_default_dg_stack_value
from streamlit.errors import StreamlitAPIException

from app import endpoints, pages
from app.access import limits, permits
from app.charts.plot import figure_text, palette
from app.components import download, live_plot, paper_figure, terms
from app.components.shown import Shown, with_finding
from app.data import column_heads, queries, table_files
from app.data.column_heads import Heads
from app.data.overview import overview
from app.state import links, widgets
from app.state.fragments import fragment
from app.wording import capitals, plain, unbroken
from engine.core.paths import ASSETS

PRESENTING_CSS = """<style>html { font-size: 20px; } [data-testid=stMainBlockContainer] { max-width: none; }
@media (max-width: 1700px) { .strip { display: none; } }  /* the larger navigation needs its space */
</style>"""
DARK_PRINT_CSS = """<style>@media print {
  .stApp, [data-testid=stMain] { background: #000000 !important; }
  .stApp, .stApp img { filter: invert(1) hue-rotate(180deg); }  /* on white, also what the server colored */
}</style>"""
ROLES = {
    "admin": "Admin: you can change everything.",
    "member": "Member: you can see everything, and change what you queued or imported.",
    "visitor": "Visitor: you can see everything, but change nothing.",
}


def draw_from_the_top() -> None:
    """Draw this run from the top of the page.

    A run requested just as a fragment's run ends reuses its thread. Streamlit leaves the thread in the container around
    that fragment and would draw the whole page there.
    """
    context_dg_stack.set(get_default_dg_stack_value())


def look() -> None:
    """The style of all pages, from the shell: the colors, and the style sheet that uses them.

    ``routes`` sends the sheet with each page, except where Streamlit answers itself, as for an unknown address.
    """
    terms.forget()
    paper_figure.forget()
    colors = "".join(f"--{name}: {value};" for name, value in vars(palette.theme()).items())
    st.html(f"<style>:root {{ {colors} }}</style>")
    st.html(ASSETS / "look.css")
    if palette.is_dark():
        st.html(DARK_PRINT_CSS)


def require_sign_in() -> None:
    """Stop with a sign-in button if this person has to sign in first."""
    if permits.signed_in() is not None:
        return
    st.set_page_config(pages.tab_title("Sign in"), layout="centered")  # an icon would have to be fetched
    st.html(
        "<style>[data-testid=stMainBlockContainer] { padding-top: 20vh; max-width: 32rem; margin: 0 auto; }</style>"
    )
    header("Sign in", pages.PRODUCT, "Personalized federated learning: train, compare and understand.")
    st.button("Sign in", type="primary", key="sign_in", on_click=st.login)
    st.stop()


def person() -> None:
    """The signed-in person with their role, and a button to sign out."""
    now = permits.current()
    if not now.name:
        return
    with st.popover(plain(now.name), type="tertiary", key="person"):
        st.write(plain(ROLES[now.role]))
        if limits.can_hold_runs() and not queries.problem():
            used = queries.store().shares.usage(now.name)
            if waits := limits.why_waiting(now, used, datetime.now(UTC)):
                st.write(plain(waits))
        st.button("Sign out", key="sign_out", on_click=st.logout)


def strip() -> None:
    """The status strip of every page: running, queued, device; and the switch for presentation mode."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="strip_row"):
        reason = queries.problem()
        now = {"text": reason, "wait_ms": 2000} if reason else overview(queries.store())
        live_plot.strip(now, is_served=endpoints.are_served)
        person()
        is_presenting = widgets.toggle("Presentation", "presenting", help="Larger type, fewer controls")
        st.session_state["presenting"] = is_presenting
    if palette.is_presenting():
        st.html(PRESENTING_CSS)


def titled(what: str, name: str) -> None:
    """The browser title of the page ``name`` while it shows ``what``."""
    st.set_page_config(pages.tab_title(what, pages.title(name)))


def header(kicker: str, question: str, lead: str | None = None, *, skip_to: str | None = None) -> DeltaGenerator:
    """A line in capitals with the setting, the title of the page, and one sentence.

    ``skip_to`` names a ``landing``: a link to it comes first, which is seen while it has the focus. Returns the first
    line, for a ``kicker`` that is known only after the rest of the page.
    """
    with st.container(key="page_header"):
        first = st.html(kicker_html(kicker, skip_to))
        st.title(plain(unbroken(question)), anchor=False)
        if lead:
            st.html(f'<p class="lead">{terms.marked(unbroken(lead), "lead")}</p>')
    return first


def kicker_html(kicker: str, skip_to: str | None = None) -> str:
    """The first line of the header."""
    skip = f'<a class="skip" href="#{_anchor(skip_to)}">Skip to {html.escape(skip_to)}</a>' if skip_to else ""
    return f'{skip}<p class="kicker">{html.escape(capitals(kicker))}</p>'


def landing(name: str) -> None:
    """The target of the link "Skip to ``name``": Tab continues from here."""
    st.html(f'<span id="{_anchor(name)}" tabindex="-1"></span>')


def _anchor(name: str) -> str:
    return f"skip-to-{name.casefold()}"


def link(name: str, label: str, **params: object) -> None:
    """A link to another page without reloading the app; a plain link if the page runs alone."""
    given = {key: str(value) for key, value in params.items() if value is not None}
    if palette.is_presenting():
        given["presenting"] = "true"
    try:
        st.page_link(f"views/{name}.py", label=label, query_params=given)
    except StreamlitAPIException:
        st.markdown(f"[{label}]({links.link(name, **given)})")


def require_store() -> None:
    """Stops the page with the reason if the database cannot be read."""
    reason = queries.problem()
    if reason:
        unavailable(reason)
        st.stop()


def unavailable(reason: str) -> None:
    """Shown instead of a page that cannot be drawn because its database or a plugin cannot be read."""
    st.warning(plain(reason))
    st.button("Try again", key="try_again")


def section(question: str) -> None:
    """The heading of a panel."""
    st.header(plain(unbroken(question)), anchor=False)


def chart(
    fig: go.Figure,
    table: pd.DataFrame,
    *,
    key: str,
    alt: str,
    title: str | None = None,
    name: str,
    caption: str | None = None,
    on_select: Any = "ignore",
    heads: Heads | None = None,
    hint: str = "",
) -> Any:
    """A figure with its caption, and its table behind a button; the arguments are those of ``Shown``.

    Returns what ``st.plotly_chart`` returns.
    """
    return show(Shown(fig, table, alt, title, caption, key, name, heads or {}, hint), on_select=on_select)


def show(one: Shown, *, on_select: Any = "ignore", has_frame: bool = False) -> Any:
    """Draws the figure, with a tool to select several marks if it ``has_frame``. Returns what ``st.plotly_chart`` does.

    While that tool is in use, Streamlit turns off clicks on marks.
    """
    if one.figure.layout.datarevision is None:
        figure_text.without_links(one.figure)
        one.figure.layout.datarevision = _revision(one.figure)
    paper_figure.remember(one)
    with st.container(key=f"figure_{one.key}", gap="small"):
        with st.container(horizontal=True, horizontal_alignment="distribute", key=f"figure_head_{one.key}"):
            if one.title:
                st.subheader(plain(unbroken(one.title)), anchor=False)
            if not palette.is_presenting():
                table_button(
                    one.table,
                    key=one.key,
                    name=one.name,
                    title=one.title,
                    caption=one.caption,
                    alt=one.alt,
                    heads=one.heads,
                    has_paper=True,
                )
        result = st.plotly_chart(
            one.figure,
            theme=None,
            key=one.key,
            alt=one.named_alt,
            config=modebar(one.name, has_frame),
            on_select=on_select,
        )
        if below := " ".join(filter(None, [one.caption, one.hint])):
            terms.caption(below, f"figure_{one.key}")
    return result


def _revision(fig: go.Figure) -> int:
    """Streamlit gives Plotly two copies of each figure: with equal revisions, Plotly draws only one."""
    return zlib.crc32(fig.to_json().encode())


def finding_chart(
    fig: go.Figure,
    table: pd.DataFrame,
    finding: str,
    *,
    key: str,
    name: str,
    title: str | None = None,
    also: str = "",
    heads: Heads | None = None,
    hint: str = "",
) -> None:
    """``show`` of ``with_finding`` with these arguments."""
    show(with_finding(fig, table, finding, key=key, name=name, title=title, also=also, heads=heads, hint=hint))


@fragment
def table_button(
    table: pd.DataFrame,
    *,
    key: str,
    name: str,
    title: str | None = None,
    caption: str | None = None,
    alt: str = "",
    scope: str | None = None,
    heads: Heads | None = None,
    has_paper: bool = False,
) -> None:
    """The popover "Table · Download": images and numbers of figures; nothing is sent before it is opened.

    ``scope`` is the CSS selector of the figures' container, if not a chart of this ``key``. ``has_paper``: this chart
    can be a figure for a paper.
    """
    opened = st.popover("Table · Download", type="tertiary", key=f"{key}_table", on_change="rerun")
    if opened.open:
        with opened:
            where = scope or download.scope_of(f"figure_{key}")
            download.pictures(where, key=f"{key}_pictures", name=name, title=title, caption=caption, alt=alt)
            if has_paper:
                paper_figure.button(key, f"{key}_table")
            st.dataframe(
                column_heads.read(table, heads or {}),
                hide_index=True,
                key=f"{key}_rows",
                column_config=column_heads.formats(table, heads or {}),
                alt=f"The numbers of {name}",
            )
            words = " ".join(filter(None, [title and f"{title}.", caption]))
            files(table, key=key, name=name, caption=words, heads=heads)
    if has_paper:
        paper_figure.open_if_wanted(key)


def table_height(rows: int, most: int = 520) -> int:
    """The height of a table, in pixels, that shows all its rows; beyond ``most`` it scrolls."""
    return min(38 + 35 * rows, most)


def files(table: pd.DataFrame, *, key: str, name: str, caption: str = "", heads: Heads | None = None) -> None:
    """Downloads of a table's numbers, each file made on request; ``caption`` goes into it."""
    with st.container(horizontal=True, gap="small", key=f"{key}_files"):
        for kind in table_files.FORMATS:
            st.download_button(
                kind.title,
                partial(kind.write, table, caption, heads or {}),
                f"{name}.{kind.ending}",
                kind.mime,
                key=f"{key}_{kind.ending}",
                type="tertiary",
                on_click="ignore",
                help=f"Download these numbers as {kind.title}",
            )


def modebar(name: str, has_frame: bool = False) -> dict[str, Any]:
    """Zoom, reset and an SVG of the figure, made in the browser; box selection; and no upload to Plotly's servers."""
    unused = ["lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", *([] if has_frame else ["select2d"])]
    return {
        "displaylogo": False,
        "showSendToCloud": False,
        "responsive": True,
        "modeBarButtonsToRemove": unused,
        "toImageButtonOptions": {"format": "svg", "filename": name},
    }
