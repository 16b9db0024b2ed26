"""Data sets, partitioners and models: description, options and source."""

import html

import streamlit as st

from app.components import terms
from app.data.entry_text import EntryText, text_of
from app.handbook.options_table import options_table, scrolled
from app.handbook.prose import citation, sentences
from app.wording import plain
from engine.core.registry import Entry


def thing(entry: Entry) -> None:
    """A heading, a sentence, other remarks, and the options."""
    text = text_of(entry)
    st.header(plain(entry.title), anchor=entry.name)
    st.html(_description(entry, text) + options_table(entry))


def _description(entry: Entry, text: EntryText) -> str:
    names = [parameter.name for parameter in entry.parameters]
    parts = [_with_terms(text.summary, names)] if text.summary else []
    if text.citation and "http" not in text.citation:
        parts.append(f'<p class="handbook-text">{sentences(text.citation, names)}</p>')
    if text.equations:
        block = "\n".join(line[4:] for line in text.equations)
        parts.append(scrolled(f'<pre class="handbook">{html.escape(block)}</pre>', "Equations"))
    parts += [_with_terms(remark, names) for remark in text.remarks]
    source = text.citation if "http" in text.citation else entry.paper
    parts.append(f'<p class="source"><code>{html.escape(entry.name)}</code> · {citation(source)}</p>')
    return "".join(parts)


def _with_terms(text: str, names: list[str]) -> str:
    return f'<p class="handbook-text">{terms.marked_html(sentences(text, names))}</p>'
