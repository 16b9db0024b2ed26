"""The lecture of docs/how-to/give-a-lecture.md, played with its keys."""

from itertools import pairwise

import pytest
from playwright.sync_api import Page

from benchmarks import lecture
from tests.browser.conftest import PageProblems, Server

LENGTH_S = 600


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_the_lecture_can_be_played_with_its_keys(page: Page, server: Server, page_problems: PageProblems) -> None:
    steps = lecture.script()
    assert [step for step, _ in lecture.play(page, server.url)] == steps
    assert page_problems == PageProblems()


def test_the_script_leads_in_ten_minutes_through_six_stories() -> None:
    times = [step.at_s for step in lecture.script()]
    assert times[0] == 0 and all(before < after for before, after in pairwise(times)) and times[-1] < LENGTH_S
    assert len({step.story.slug for step in lecture.script()}) == 6
