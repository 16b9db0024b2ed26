"""Handbook: what each method does, what is sent, what it costs; and the available data sets, splits and models."""

import html
from pathlib import Path

import streamlit as st

from app.components import page, terms
from app.data.families import by_family
from app.handbook import methods
from app.handbook.measured import LEFT_OUT, Measured, Setting, measured
from app.handbook.method_page import method_page
from app.handbook.things import thing
from app.state import url_state, widgets
from app.wording import plain, plural
from engine.core.errors import UnknownName
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Entry

STYLE = Path(methods.__file__).with_name("handbook.css")
SECTIONS = {"methods": "Methods", "datasets": "Data sets", "partitioners": "Heterogeneity", "models": "Models"}
THINGS = {"datasets": DATASETS, "partitioners": PARTITIONERS, "models": MODELS}
NOUNS = {"methods": "method", "datasets": "data set", "partitioners": "partitioner", "models": "model"}
QUESTIONS = {
    "methods": "What does each method do, and what does it cost?",
    "datasets": "Data sets",
    "partitioners": "How can clients differ?",
    "models": "Models",
}
LEADS = {
    "methods": "The idea, one round in equations, what is sent and what is kept on the client, and the cost.",
    "datasets": "Some are bundled or generated; others are downloaded once or read from your own file.",
    "partitioners": "How a data set is split among the clients.",
    "models": "Each has a body and a head; methods that split the model keep one of them on the client.",
}


def render() -> None:
    st.html(STYLE)
    try:
        requested = url_state.get("method")
        if requested:
            method_page(methods.find(requested))
            return
    except UnknownName as error:
        st.warning(plain(str(error)))
    index()


def index() -> None:
    """All entries of one kind."""
    section = url_state.value("show", SECTIONS, "methods")
    registry = THINGS.get(section, ALGORITHMS)
    page.header(f"Handbook · {plural(len(registry.names()), NOUNS[section])}", QUESTIONS[section], LEADS[section])
    with st.container(horizontal=True, vertical_alignment="bottom", key="handbook_controls"):
        widgets.switch("Show", SECTIONS, "show", "methods")
        find = widgets.control("find", "", str, str)
        st.text_input("Find", key=find.key, placeholder="k-means, head, bytes", width=280)
    found = methods.matching(registry, find.value)
    if not found:
        st.info(f"No results for “{plain(find.value)}”.")
    elif section == "methods":
        all_methods(found)
    else:
        with st.container(key="handbook_things"):
            for entry in found:
                thing(entry)


def all_methods(found: list[Entry]) -> None:
    """The families and their methods, then all of them side by side. Numbers appear as they are measured."""
    families = by_family(found)
    for family, entries in families.items():
        with st.container(horizontal=True, vertical_alignment="top", gap="small", key=f"family_{family}"):
            st.html(f'<p class="family">{html.escape(family)}</p>', width=290)
            with st.container(horizontal=True, gap="small", key=f"links_{family}"):
                for entry in entries:
                    page.link("handbook", plain(entry.title), method=entry.name)
    st.header("Side by side", anchor=False)
    table = st.empty()
    counted: dict[str, Measured | None] = {}
    for entries in [[], *families.values()]:
        counted |= {entry.name: measured(entry) for entry in entries}
        table.html(methods.comparison_table(families, counted))
    terms.caption(
        "Down and up: bytes per round and participant, as multiples of the model size. Gradients: evaluations per "
        f"round, FedAvg = 1. Measured with default options on {Setting().in_words}; with more clients or another "
        f"network where a method needs them. {LEFT_OUT}; * depends on the network."
    )


with url_state.page("handbook"):
    render()
