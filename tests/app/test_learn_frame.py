"""The frame of every story on the Learn page: index, sliders, buttons, address and navigation."""

import html
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.state import links
from app.stories import stories
from app.stories.questions import Estimate
from app.stories.story import ending_of, exercises_of, place_of, scene_at
from engine.config.presets import load_preset
from engine.config.schema import parse_experiment
from tests.app.pages import ENOUGH_S, VIEWS, open_page, without_marks
from tests.support.stories import run_of

page = partial(open_page, "learn")
SLUGS = list(stories())
MINE = """
from app.stories.one_model import OneModel

class Mine(OneModel):
    order = 3
    slug = "mine"
    short = "Mine?"
    title = "Is this mine?"

STORY = Mine()
"""
FIRST_STEP: dict[str, str] = {  # text of each story's second scene after a round
    "first-round": "This run, round 1: phase 1 of 4, ",
    "leak": "This run, round 1: correlation ",
    "skews": "This run, round 1: labels, together ",
    "one-model": "This run, round 1: mean ",
    "alone": "This run, round 1: alone ",
    "drift": "This run, round 1: FedAvg ",
    "dial": "This run, round 1: one model for all",
    "contexts": "This run, round 1: K = 2",
    "left-behind": "This run, round 1: ρ = 0.1",
    "privacy": "This run, round 1: FedAvg ",
    "robustness": "This run, round 1: Ditto, median ",
    "deadlines": "This run, round 1: FedAvg ",
}


def bodies(learn: AppTest) -> list[str]:
    return [h.proto.body for h in learn.get("html")]


def texts(learn: AppTest) -> str:
    return html.unescape(without_marks(" ".join(bodies(learn)))).replace("\u00a0", " ")


def results(learn: AppTest) -> set[str]:
    """The figures as they are drawn."""
    return {chart.proto.spec for chart in learn.get("plotly_chart")}


def opened_config(learn: AppTest) -> dict[str, object]:
    link = re.search(r'href="([^"]*setup[^"]*)"', texts(learn))
    assert link
    return links.unpack_config(parse_qs(urlsplit(link[1]).query)["config"][0])


def test_stories_have_an_order_and_an_added_file_joins_it(add_file: Callable[[str, str, str], None]) -> None:
    shipped = [slug for slug in stories() if slug in FIRST_STEP]
    assert shipped == list(FIRST_STEP)
    add_file("app.stories", "mine", MINE)
    assert list(stories())[:3] == [shipped[0], "mine", shipped[1]]
    learn = page(story="mine")
    assert learn.title[0].value == "Is this mine?"
    assert learn.segmented_control(key="story").options[:2] == ["1 · Federated learning?", "2 · Mine?"]


def test_stories_use_different_parameters_in_the_address() -> None:
    names = [dial.name for story in stories().values() for dial in story.dials({})]
    assert len(set(names)) == len(names) and not {"story", "presenting"} & set(names)


def test_every_scene_has_values_on_the_sliders() -> None:
    for slug, story in stories().items():
        for scene in story.scenes:
            assert place_of(story, scene.place) == scene.place, slug
            assert scene_at(story, scene.place) == scene, slug


@pytest.mark.parametrize("slug", SLUGS)
def test_a_story_opens_complete_at_its_first_scene_and_hides_results_until_they_are_shown(slug: str) -> None:
    story = stories()[slug]
    scene = story.scenes[0]
    learn = page(story=slug)
    assert learn.title[0].value == story.title
    assert len(learn.get("plotly_chart")) >= 2 and all(figure.proto.alt for figure in learn.get("plotly_chart"))
    assert learn.session_state.learn.desk.place == scene.place and set(learn.query_params) <= {"story"}
    assert not any(one.task in texts(learn) for one in exercises_of(story))
    assert not any(scene.notes and scene.notes in texts(learn) for scene in story.scenes)
    if not scene.question:
        return
    assert scene.question.text in texts(learn)
    assert scene.finding not in texts(learn) and scene.text not in texts(learn)
    hidden = results(learn)
    learn.button(key="reveal").click().run()
    assert scene.finding in texts(learn) and scene.text in texts(learn)
    assert results(learn) != hidden


def test_a_story_with_exercises_has_three_and_notes_for_each_scene() -> None:
    for slug, story in stories().items():
        if exercises_of(story):
            assert len(exercises_of(story)) == 3, slug
            assert all(scene.notes for scene in story.scenes), slug


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.slow
def test_a_scene_waits_for_play_a_step_trains_one_round_and_a_dial_trains_at_once(slug: str) -> None:
    story = stories()[slug]
    scene = story.scenes[1]
    learn = page(story=slug)
    learn.segmented_control(key="scene").set_value("b").run()
    desk = learn.session_state.learn.desk
    assert desk.place == scene.place and learn.segmented_control(key="scene").value == "b"
    assert scene.question and not desk.is_playing and desk.run is None
    assert scene.question.text in texts(learn) and scene.finding not in texts(learn)
    assert len(learn.get("plotly_chart")) >= 2
    learn.button(key="step").click().run()
    assert not learn.exception
    assert FIRST_STEP.get(slug, "round 1") in texts(learn)

    dial, before, first = story.dials(scene.place)[-1], story.config(scene.place), place_of(story, {})
    others = [stop for stop in dial.stops if stop != first[dial.name]]
    there = next(stop for stop in others if story.config({**scene.place, dial.name: stop}) != before)
    learn.select_slider(key=dial.name).set_value(there).run()
    assert not learn.exception
    assert learn.session_state.learn.desk.run.round > 0
    place = place_of(story, {**scene.place, dial.name: there})
    assert learn.session_state.learn.desk.place == place
    assert learn.query_params[dial.name] == there
    config = opened_config(learn)
    assert config == dict(story.config(place)) != dict(before)
    assert parse_experiment(config).runs()


@pytest.mark.slow
def test_a_run_has_a_number_for_every_estimate() -> None:
    for slug, story in stories().items():
        for scene in story.scenes:
            if isinstance(scene.question, Estimate):
                run = run_of(story.steps(place_of(story, scene.place)))
                run.advance(1)
                assert np.isfinite(scene.question.of_run(run)), (slug, scene.title)


@pytest.mark.slow
def test_a_run_that_ends_shows_the_finding_beside_the_guess() -> None:
    scene = stories()["one-model"].scenes[2]
    learn = page(story="one-model", **scene.place)
    slider = next(slider for slider in learn.select_slider if slider.key.startswith("guess"))
    slider.set_value("0.6").run()
    desk = learn.session_state.learn.desk
    assert desk.guess_at(scene.place) == 0.6 and not desk.is_playing
    desk.play()
    desk.train(scene.place).advance(10_000)
    learn.run()
    shown_text = texts(learn)
    assert re.search(r"You guessed 60 %\. This run: 4\d %\. 5 seeds: 46 ± 1 %\.", shown_text)
    assert scene.finding in shown_text


def test_play_ends_guessing_and_turns_into_pause_and_reset_discards_the_run() -> None:
    learn = page()
    assert not learn.pills[0].disabled
    learn.button(key="play").click().run()
    assert learn.session_state.learn.desk.run.round > 0 and "This run, round " in texts(learn)
    assert learn.pills[0].disabled and learn.button(key="play").label == "Pause"
    learn.button(key="play").click().run()
    assert not learn.session_state.learn.desk.is_playing
    learn.button(key="reset").click().run()
    assert not learn.exception
    assert "This run: press Play" in texts(learn)


@pytest.mark.parametrize("slug", ["nonsense", ""])
def test_an_unknown_story_opens_the_first(slug: str) -> None:
    learn = page(story=slug)
    assert learn.title[0].value == stories()[SLUGS[0]].title


@pytest.mark.slow
def test_next_goes_through_the_scenes_and_then_to_the_next_story() -> None:
    first, second = (stories()[slug] for slug in SLUGS[:2])
    learn = page()
    assert learn.title[0].value == first.title and not learn.query_params
    assert learn.button(key="previous").disabled
    for scene in first.scenes[1:]:
        learn.button(key="next").click().run()
        assert learn.session_state.learn.desk.place == scene.place
    learn.button(key="next").click().run()
    assert learn.title[0].value == second.title
    assert learn.query_params["story"] == SLUGS[1]
    learn.button(key="previous").click().run()
    assert learn.title[0].value == first.title
    assert learn.session_state.learn.desk.place == first.scenes[-1].place


def test_the_last_scene_of_the_last_story_has_no_next() -> None:
    slug = SLUGS[-1]
    assert page(story=slug, **stories()[slug].scenes[-1].place).button(key="next").disabled


def test_next_between_two_scenes_goes_on_from_the_latest() -> None:
    story = stories()["one-model"]
    learn = page(story="one-model", turn="54")
    assert learn.segmented_control(key="scene").value is None
    learn.button(key="next").click().run()
    assert learn.session_state.learn.desk.place == story.scenes[1].place


@pytest.mark.slow
def test_a_story_pauses_and_keeps_its_state_while_another_is_open() -> None:
    learn = page(story="alone", samples="60")
    learn.button(key="play").click().run()
    learn.segmented_control(key="story").set_value("one-model").run()
    assert "samples" not in learn.query_params
    learn.segmented_control(key="story").set_value("alone").run()
    desk = learn.session_state.learn.desk
    assert desk.place == {"samples": "60"} and desk.run.round > 0 and not desk.is_playing


def test_presenting_is_one_sentence_one_figure_and_the_controls() -> None:
    learn = AppTest.from_file(str(VIEWS / "learn.py"), default_timeout=ENOUGH_S)
    learn.session_state["presenting"] = True
    learn.run()
    assert not learn.exception
    assert [title.value for title in learn.title] == [stories()[SLUGS[0]].scenes[0].question.text]
    assert len(learn.get("plotly_chart")) == 1
    assert learn.select_slider and learn.button(key="play") and learn.button(key="exit")
    assert not learn.caption and not learn.header and "Open in Set up" not in texts(learn)


def test_a_slide_shows_the_data_of_a_story_beside_its_figure() -> None:
    learn = AppTest.from_file(str(VIEWS / "learn.py"), default_timeout=ENOUGH_S)
    learn.session_state["presenting"] = True
    learn.query_params["story"] = "skews"
    learn.run()
    assert not learn.exception
    images, _ = learn.get("plotly_chart")
    assert images.proto.alt.startswith("Training images of 5 of 10 clients")
    assert "Labels: all ten digits each" in texts(learn) and "Mean accuracy of the clients" in texts(learn)


@pytest.mark.parametrize("slug", SLUGS)
def test_a_story_ends_with_what_was_seen_and_what_is_next(slug: str) -> None:
    story, is_last = stories()[slug], slug == SLUGS[-1]
    words = ending_of(story)
    learn = page(story=slug, **story.scenes[-1].place)
    assert words and words not in texts(learn)
    learn.button(key="reveal").click().run()
    assert words in texts(learn)
    assert all(one.task in texts(learn) and one.answer in texts(learn) for one in exercises_of(story))
    if is_last:
        link = re.search(r'href="([^"]*)">A first look: alone, together and three methods in between<', texts(learn))
        assert link
        (config,) = load_preset("digits-first").configs("quick")
        assert links.unpack_config(parse_qs(urlsplit(link[1]).query)["config"][0]) == config
        return
    number, following = SLUGS.index(slug) + 2, SLUGS[SLUGS.index(slug) + 1]
    assert learn.button(key="next_story").label == f"Next story: {number} · {stories()[following].title}"
    learn.button(key="next_story").click().run()
    assert learn.title[0].value == stories()[following].title
    assert words not in texts(learn)


def test_exit_ends_the_presentation_and_keeps_the_rest_of_the_address() -> None:
    learn = page(presenting="true", story="alone", samples="60")
    assert learn.query_params["presenting"] == "true"
    learn.session_state["presenting"] = True
    learn.run()
    learn.button(key="exit").click().run()
    assert not learn.exception
    assert "presenting" not in learn.query_params and learn.query_params["samples"] == "60"
    assert learn.title[0].value == stories()["alone"].title


def test_a_slide_can_skip_to_the_next_story_until_the_last() -> None:
    learn = page(presenting="true", story=SLUGS[-2])
    learn.session_state["presenting"] = True
    learn.run()
    learn.button(key="skip").click().run()
    assert learn.query_params["story"] == SLUGS[-1]
    assert learn.button(key="skip").disabled
