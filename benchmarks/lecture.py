"""Plays the ten-minute lecture of docs/how-to/give-a-lecture.md in a browser, with its keys.

    python -m benchmarks.lecture [--url http://127.0.0.1:8501]

For each scene: its time in the script, and the seconds until its result is on the screen, of a run that plays or the
shipped one. The speaker talks in the meantime. Without ``--url`` the app runs on a free port.
"""

import argparse
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from app.stories import stories
from app.stories.questions import Question
from app.stories.story import Scene, Story
from benchmarks.running import ROOT, chromium, running_app

SCRIPT = ROOT / "docs" / "how-to" / "give-a-lecture.md"
ROW = re.compile(r"^\| (\d+):(\d\d) \| (\d+) · (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
KEYS = {"→": "ArrowRight", "←": "ArrowLeft", "↑": "ArrowUp", "↓": "ArrowDown", "N": "n", "S": "s"}
MOVES = ("→", "←", "N")
READY = "[data-test-script-state=notRunning]"
OFFERED = ".st-key-slide_prediction button:enabled"
GUESSED = ".st-key-slide_prediction :is([data-testid=stBaseButton-primary], .verdict:has-text('Your guess'))"
ANSWERED = ".verdict:is(:has-text('You guessed'), :has-text('You chose'))"
WAIT_MS = 60_000


@dataclass(frozen=True)
class Step:
    """A row of the script. ``at_s`` is its time, ``moves`` lead to the scene, ``answers`` guess and show the result."""

    at_s: int
    story: Story  # type: ignore[type-arg]
    scene: Scene
    moves: tuple[str, ...]
    answers: tuple[str, ...]

    @property
    def question(self) -> Question:
        assert self.scene.question, self.scene.title
        return self.scene.question


def script() -> list[Step]:
    """Raises StopIteration if a row names a scene that there is not."""
    steps, known = [], list(stories().values())
    for minutes, seconds, number, title, keys, _ in ROW.findall(SCRIPT.read_text(encoding="utf-8")):
        story, pressed = known[int(number) - 1], keys.split()
        scene = next(scene for scene in story.scenes if scene.title == title)
        moves = tuple(key for key in pressed if key in MOVES)
        answers = tuple(key for key in pressed if key not in MOVES)
        steps.append(Step(60 * int(minutes) + int(seconds), story, scene, moves, answers))
    return steps


def play(page: Page, url: str) -> Iterator[tuple[Step, float]]:
    """Each step, and the seconds from its last key until the finding has taken the question's place."""
    heading = page.get_by_role("heading", level=1)
    page.goto(f"{url}/?story={next(iter(stories()))}&presenting=true")
    for step in script():
        for key in step.moves:
            before = heading.inner_text()
            page.keyboard.press(KEYS.get(key, key))
            expect(heading).not_to_have_text(before, timeout=WAIT_MS)
            page.wait_for_selector(READY, timeout=WAIT_MS)
        expect(heading).to_have_text(step.question.text, timeout=WAIT_MS)
        page.wait_for_selector(READY, timeout=WAIT_MS)
        *guess, last = step.answers
        page.locator(OFFERED).first.wait_for(timeout=WAIT_MS)
        for key in guess:
            page.keyboard.press(KEYS.get(key, key))
            page.wait_for_selector(GUESSED, timeout=WAIT_MS)
            page.wait_for_selector(READY, timeout=WAIT_MS)
        started = time.perf_counter()
        page.keyboard.press(KEYS.get(last, last))
        expect(heading).not_to_have_text(step.question.text, timeout=WAIT_MS)
        page.wait_for_selector(ANSWERED, timeout=WAIT_MS)
        yield step, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="of a running app, instead of a new one")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        url = arguments.url or stack.enter_context(running_app())
        page = stack.enter_context(chromium()).new_page(viewport={"width": 1366, "height": 768})
        waited = 0.0
        for step, seconds in play(page, url):
            waited += seconds
            at = f"{step.at_s // 60}:{step.at_s % 60:02}"
            print(f"{at:>6}  {step.story.short:24} {step.scene.title:24} {seconds:5.1f} s", flush=True)
        print(f"{'':6}  {'until results are shown':49} {waited:5.1f} s")


if __name__ == "__main__":
    main()
