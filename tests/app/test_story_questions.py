"""Questions before a run, and the words that compare two results."""

import re

import numpy as np
import plotly.graph_objects as go
import pytest

from app.components.moving_figure import hidden_results
from app.learn.handout import handout
from app.learn.prediction import moved, scale_html
from app.stories import one_model, stories
from app.stories.compared import meaning, side, side_of_two, word
from app.stories.figures.legend import without_live
from app.stories.questions import Choice, Estimate
from app.stories.story import curve_of, exercises_of, picture_of, source_of

FIVE = np.array([0.42, 0.44, 0.46, 0.43, 0.45])
HOW_MUCH = Estimate("How much?", FIVE, "5 seeds", lambda run: run)
TAUGHT = [slug for slug, story in stories().items() if picture_of(story, story.scenes[0].place)]


def test_a_guess_is_compared_with_this_run_and_with_all_seeds() -> None:
    assert HOW_MUCH.verdict(0.6, 0.45) == "You guessed 60 %. This run: 45 %. 5 seeds: 44 ± 2 %."
    assert HOW_MUCH.verdict(None, None) == "5 seeds: 44 ± 2 %."


def test_a_choice_is_right_or_names_the_answer() -> None:
    which = Choice("Which?", ("Together", "Alone"), "Alone")
    assert which.verdict("Alone", None) == "You chose “Alone”. That is right."
    assert which.verdict("Together", None) == "You chose “Together”. The answer is “Alone”."
    assert which.verdict(None, None) == "The answer is “Alone”."


def test_the_right_answer_must_be_offered() -> None:
    with pytest.raises(ValueError, match="not among the answers"):
        Choice("Which?", ("Together", "Alone"), "Neither")


@pytest.mark.parametrize("slug", stories())
def test_no_text_of_a_story_has_a_placeholder_left(slug: str) -> None:
    story = stories()[slug]
    texts = [str(value) for scene in story.scenes for value in vars(scene).values() if isinstance(value, str)]
    texts += [story.caption, source_of(story), *(f"{one.task} {one.answer}" for one in exercises_of(story))]
    assert not [text for text in texts if re.search(r"\{[A-Za-z_]", text)]


def test_the_keys_move_a_guess_by_one_stop_and_stay_on_the_scale() -> None:
    assert moved(HOW_MUCH, None, -1) == 0.5
    assert moved(HOW_MUCH, 0.5, -1) == 0.45
    assert moved(HOW_MUCH, 1.0, 1) == 1.0


def test_the_scale_has_the_guess_the_run_and_the_mean_at_their_places() -> None:
    drawn = scale_html(HOW_MUCH, 0.6, 0.45)
    assert 'class="diamond" style="left: 60.0%"' in drawn
    assert 'class="dot" style="left: 45.0%' in drawn and 'class="mean" style="left: 44.0%"' in drawn
    unasked = scale_html(HOW_MUCH, None, None)
    assert 'class="diamond"' not in unasked and 'class="dot"' not in unasked


def test_a_difference_within_the_noise_is_none() -> None:
    base = np.array([0.5, 0.6, 0.7, 0.8])
    assert side(base + 0.1, base) == 1 and side(base - 0.1, base) == -1
    assert side(base + np.array([0.1, -0.1, 0.1, -0.09]), base) == 0
    assert side(base + np.array([0.005, 0.005, 0.005, 0.006]), base) == 0
    rule = meaning("4 seeds")
    assert "more than one point on average over 4 seeds" in rule and "(its 95 % interval excludes 0)" in rule
    assert (side_of_two(0.35, 3.7), side_of_two(1.0, 1.02)) == (-1, 0)


def test_the_words_follow_the_difference() -> None:
    assert [word(found) for found in (1, 0, -1)] == ["beats", "is level with", "loses to"]


@pytest.mark.parametrize("slug", TAUGHT)
@pytest.mark.slow
def test_a_handout_asks_first_and_answers_on_another_page(slug: str) -> None:
    story = stories()[slug]
    file = handout(story)
    asked, answered, tasks, solved = file.split('class="new-page"')
    asked = asked.split("<main>")[1]
    for scene in story.scenes:
        assert scene.title in asked and scene.finding not in asked
        assert scene.question is None or scene.question.text.split(".")[0].split("'")[0] in asked
    assert answered.count('class="plot"') == len(story.scenes)
    assert all(one.task.split("'")[0] in tasks for one in story.exercises)
    assert all(one.answer.split("'")[0] in solved for one in story.exercises)
    assert all(one.answer.split("'")[0] not in asked + answered + tasks for one in story.exercises)


def test_a_handout_has_the_whole_curve_that_the_exercises_are_about() -> None:
    _, _, tasks, _ = handout(stories()["one-model"]).split('class="new-page"')
    assert tasks.count('class="plot"') == 1 and "46 ± 1 % at 360°" in tasks
    curve = curve_of(stories()["one-model"])
    assert curve is not None and all(f"{turn}°: mean" in str(curve.figure) for turn in one_model.TURNS)


def test_a_handout_shows_the_data_next_to_the_question() -> None:
    asked, *_ = handout(stories()["skews"]).split('class="new-page"')
    assert "Labels: two digits each" in asked and "Training images of 5 of 10 clients, one client" not in asked


@pytest.mark.parametrize("slug", TAUGHT)
@pytest.mark.slow
def test_a_handout_has_nothing_to_press_and_no_live_runs(slug: str) -> None:
    text = handout(stories()[slug]).split("<main>")[1].split("<script")[0]
    found = [words for words in ("this run", "This run", "trained live", "Press ", "crosses") if words in text]
    assert not found


@pytest.mark.parametrize("slug", ["privacy", "robustness", "deadlines"])
@pytest.mark.slow
def test_questions_with_the_same_empty_figure_print_it_once(slug: str) -> None:
    asked = handout(stories()[slug]).split('class="new-page"')[0]
    assert asked.count('class="plot"') == 1


@pytest.mark.parametrize("slug", TAUGHT)
def test_no_figure_of_a_handout_explains_the_marks_of_live_runs(slug: str) -> None:
    for scene in stories()[slug].scenes:
        picture = picture_of(stories()[slug], scene.place)
        assert picture is not None
        figure = without_live(picture.figure)
        written = [note["text"] for note in figure["layout"].get("annotations", [])]
        written += [str(trace["text"]) for trace in figure["data"] if "text" in trace]
        assert not [text for text in written if "this run" in text or "earlier runs" in text]


@pytest.mark.parametrize("slug", TAUGHT)
def test_results_are_marked_so_that_a_question_can_hide_them(slug: str) -> None:
    story = stories()[slug]
    for scene in story.scenes:
        shown = points(picture_of(story, scene.place).plot())
        with hidden_results(True):
            assert points(picture_of(story, scene.place).plot()) < shown


def points(figure: go.Figure) -> int:
    """How many points of lines and marks are drawn."""
    drawn = [trace for trace in figure.data if trace.type == "scatter" and trace.visible is not False]
    return sum(len(trace.x) for trace in drawn)


@pytest.mark.parametrize("slug", TAUGHT)
def test_a_sentence_fits_two_lines_of_a_slide(slug: str) -> None:
    for scene in stories()[slug].scenes:
        assert len(scene.finding) <= 120
        assert scene.question is None or len(scene.question.text) <= 125
