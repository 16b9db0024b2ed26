"""The page of one method, from its registry entry and the docstring of its file."""

import html

import streamlit as st

from app.components import page, terms
from app.data.entry_text import EntryText, text_of
from app.handbook import methods
from app.handbook.mathematics import aligned
from app.handbook.measured import LEFT_OUT, Measured, measured
from app.handbook.options_table import options_table
from app.handbook.prose import capitalized, citation, sentences
from app.state.links import pack_config
from engine.core.registry import Entry


def method_page(entry: Entry) -> None:
    """Draw the page of a method: its explanation on the left, its facts and costs on the right."""
    text = text_of(entry)
    page.titled(entry.title, "handbook")
    page.header(f"{entry.family} · {entry.paper}", entry.title, text.summary)
    with st.container(horizontal=True, gap="medium", key="handbook_links"):
        page.link("handbook", "All methods")
        page.link("setup", "Open in Set up", config=pack_config(methods.experiment(entry)))
    left, facts = st.columns([2, 1], gap="large")
    with left:
        explanation(entry, text)
    with facts:
        at_a_glance(entry, text, measured(entry))


def explanation(entry: Entry, text: EntryText) -> None:
    options = [parameter.name for parameter in entry.parameters]
    paragraph(text.labeled.get("Idea", ""), options)
    if text.equations:
        equations(text)
    for remark in text.remarks:
        paragraph(remark, options)
    table = options_table(entry)
    if table:
        st.header("Hyper-parameters", anchor=False)
        st.html(table)
    for label, title in (("Pitfalls", "Pitfalls"), ("Deviations", "Deviations from the paper")):
        if label in text.labeled:
            st.header(title, anchor=False)
            paragraph(text.labeled[label], options)


LETTERS = (
    "In most methods, w is the shared model, wᵢ its copy on client i, fᵢ the loss of client i, θᵢ or vᵢ its "
    "personalized model, φ and h the body and the head of a model, B a batch, E the number of local steps, lr the "
    "learning rate, mᵢ the number of training samples of client i, and N the number of clients; ← means “becomes”."
)


def equations(text: EntryText) -> None:
    st.header("One round", anchor=False)
    with st.container(key="handbook_equations"):
        st.latex(aligned(text.equations))
        terms.caption(LETTERS)


def at_a_glance(entry: Entry, text: EntryText, costs: Measured | None) -> None:
    options = [parameter.name for parameter in entry.parameters]
    parts = text.labeled
    first = {"When": "When to use it", "Needs": "Needs", "Sent": "Sent", "Kept": "Kept on the client"}
    shown = parts | ({"When": f"When {parts['When']}"} if "When" in parts else {})
    rows = [(title, paragraph_of(shown[label], options)) for label, title in first.items() if label in shown]
    if costs:
        rows.append(("Models", _models(costs)))
        rows.append(("Bytes per round", _bytes(costs)))
        rows.append(("Gradients per round", f"<b>{methods.times(costs.gradients, costs.varies)}</b> FedAvg’s"))
    more = {"Cost": "Cost", "Newcomers": "Newcomers", "Diagnostics": "Diagnostics"}
    rows += [(title, paragraph_of(parts[label], options)) for label, title in more.items() if label in parts]
    rows.append(("Source", citation(text.citation or entry.paper)))
    rows.append(("Configuration name", f"<code>{{name: {html.escape(entry.name)}}}</code>"))
    st.html(f'<dl class="handbook">{"".join(f"<dt>{title}</dt><dd>{fact}</dd>" for title, fact in rows)}</dl>')
    if costs:
        terms.caption(
            "Bytes as multiples of the model per participant, gradients relative to FedAvg's; on "
            f"{costs.setting.in_words}. {LEFT_OUT}."
        )


def paragraph(text: str, options: list[str]) -> None:
    if text:
        st.html(f'<p class="handbook-text">{paragraph_of(text, options)}</p>')


def paragraph_of(text: str, options: list[str]) -> str:
    return terms.marked_html(sentences(capitalized(text, options), options))


def _models(costs: Measured) -> str:
    own = "a personalized model per client" if costs.is_personalized else ""
    shared = {"none": "", "one": "one global model", "one for each group": "a shared model per group"}[costs.common]
    return "; ".join(filter(None, [own, shared]))


def _bytes(costs: Measured) -> str:
    if not costs.down and not costs.up:
        return "<b>none</b>"
    down, up = (methods.times(value, costs.varies) for value in (costs.down, costs.up))
    depends = any(costs.depends_on_network(value) for value in (costs.down, costs.up))
    return f"<b>{down}</b> the model size down, <b>{up}</b> up{' (for this network)' if depends else ''}"
