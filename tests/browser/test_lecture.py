"""The lecture of docs/how-to/give-a-lecture.md: where its keys lead, and its first story played in a browser."""

from itertools import accumulate, islice, pairwise

import pytest
from playwright.sync_api import Page, expect

from app.stories import stories
from app.stories.questions import Choice
from benchmarks import lecture
from tests.browser.conftest import LOAD_MS, READY, PageProblems, Server

LENGTH_S = 600
NUM_PLAYED = 3  # scenes of the first story


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_keys_lead_through_the_first_story_to_the_next_and_out(
    page: Page, server: Server, page_problems: PageProblems
) -> None:
    played = [step for step, _ in islice(lecture.play(page, server.url), NUM_PLAYED)]
    assert played == lecture.script()[:NUM_PLAYED]
    story = list(stories().values())[1]
    one, two = (scene.question for scene in story.scenes[:2])
    assert one and two
    for key, question in (("n", one), ("PageDown", two), ("PageUp", one)):
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(question.text, timeout=LOAD_MS)
        page.wait_for_selector(READY, timeout=LOAD_MS)
        if key == "PageDown":
            page.keyboard.press("ArrowDown")  # guesses that the number falls
            page.wait_for_selector(lecture.GUESSED, timeout=LOAD_MS)
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text(story.title, timeout=LOAD_MS)
    page.wait_for_function("!location.search.includes('presenting')", timeout=LOAD_MS)
    assert page_problems == PageProblems()


def test_the_keys_of_the_script_lead_to_its_scenes_and_answer_their_questions() -> None:
    scenes = [(story.slug, scene) for story in stories().values() for scene in story.scenes]
    starts = list(accumulate((len(story.scenes) for story in stories().values()), initial=0))
    at = 0
    for step in lecture.script():
        for key in step.moves:
            at = at + 1 if key == "→" else next(start for start in starts if start > at)
        assert scenes[at] == (step.story.slug, step.scene)
        *guess, last = step.answers
        allowed = "123"[: len(step.question.answers)] if isinstance(step.question, Choice) else "↑↓"
        assert guess and set(guess) <= set(allowed) and last in ("Space", "S"), step.scene.title


def test_the_script_leads_in_ten_minutes_through_six_stories() -> None:
    times = [step.at_s for step in lecture.script()]
    assert times[0] == 0 and all(before < after for before, after in pairwise(times)) and times[-1] < LENGTH_S
    assert len({step.story.slug for step in lecture.script()}) == 6
