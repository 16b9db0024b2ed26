"""Terms of the glossary, underlined where a page first uses them."""

import re

from streamlit.testing.v1 import AppTest


def drawn(texts: list[tuple[str, str]], presenting: bool = False) -> list[str]:
    """The HTML of a page with these (text, place), in order."""

    def page(texts: list[tuple[str, str]]) -> None:
        from app.components import terms

        for text, place in texts:
            terms.caption(text, place)

    at = AppTest.from_function(page, args=(texts,))
    at.session_state["presenting"] = presenting
    at.run()
    assert not at.exception
    return [element.value for element in at.get("html")]


def marks(html: str) -> list[str]:
    return re.findall(r'<button [^>]*class="term"[^>]*>(.*?)</button>', html)


def test_the_first_use_of_a_term_on_a_page_is_marked() -> None:
    first, second = drawn([("Clients and a client", ""), ("A client in a round", "")])
    assert (marks(first), marks(second)) == (["Clients"], ["round"])


def test_a_mark_opens_the_definition_that_it_names() -> None:
    (html,) = drawn([("By weighted mean", "")])
    assert 'popovertarget="term-weighted-mean"' in html and 'popover id="term-weighted-mean"' in html
    assert "Mean accuracy over clients, weighted by their number of test samples." in html


def test_a_line_does_not_break_between_a_bracket_and_a_term() -> None:
    (html,) = drawn([("The mean (weighted mean) of them", "")])
    assert html.index('The mean <span class="unbroken">(<button') < html.index("weighted mean</button>")
    (html,) = drawn([("Ten local steps. Then more", "")])
    assert 'Ten <span class="unbroken"><button' in html and "</span>.</span> Then more" in html


def test_a_fragment_drawn_again_marks_its_terms_again_and_no_others() -> None:
    page = [("A client", "lead"), ("A client in a round", "panel")]
    *_, again, lead = drawn([*page, ("Each client in its round, by method", "panel"), page[0]])
    assert (marks(again), marks(lead)) == (["round", "method"], ["client"])


def test_text_is_escaped_and_a_presentation_has_no_marks() -> None:
    assert "&lt;b&gt;" in drawn([("<b>client</b>", "")])[0]
    assert drawn([("<b>client</b>", "")], presenting=True) == ['<p class="caption">&lt;b&gt;client&lt;/b&gt;</p>']


def test_links_code_and_headings_are_left_alone() -> None:
    def page() -> None:
        import streamlit as st

        from app.components import terms

        st.html(terms.marked_html('<th>Client</th><a href="/round">a client</a> <code>client</code>, <b>a client</b>'))

    (html,) = [element.value for element in AppTest.from_function(page).run().get("html")]
    assert len(marks(html)) == 1 and "<b>a <button" in html


def test_names_in_quotation_marks_are_not_marked() -> None:
    (html,) = drawn([("All 2 runs of “Eight clients, one round” finished", "")])
    assert marks(html) == ["runs"]
