"""The frame of every story on the Learn page: index, sliders, buttons, address and navigation."""

import html
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from app.state import links
from app.stories import stories
from app.stories.story import place_of, scene_at
from engine.config.schema import parse_experiment
from tests.app.pages import ENOUGH_S, VIEWS, open_page

page = partial(open_page, "learn")
SLUGS = list(stories())
MINE = """
from app.stories.one_model import OneModel

class Mine(OneModel):
    order = 15
    slug = "mine"
    short = "Mine?"
    title = "Is this mine?"

STORY = Mine()
"""
BEGUN: dict[str, tuple[str, int | None]] = {  # text of each story's second scene after a round, and its figures
    "one-model": ("Round 1 of this run · mean ", 2),
    "alone": ("Round 1 of this run · alone ", 2),
    "dial": ("Round 1 · one model for all", 2),
    "contexts": ("Round 1 · K = 2", 2),
    "left-behind": ("Round 1 · ρ = 0.1", 3),
}


def bodies(learn: AppTest) -> list[str]:
    return [h.proto.body for h in learn.get("html")]


def texts(learn: AppTest) -> str:
    return html.unescape(" ".join(bodies(learn)))


def opened_config(learn: AppTest) -> dict[str, object]:
    link = re.search(r'href="([^"]*setup[^"]*)"', texts(learn))
    assert link
    return links.unpack_config(parse_qs(urlsplit(link[1]).query)["config"][0])


def test_stories_have_an_order_and_an_added_file_joins_it(add_file: Callable[[str, str, str], None]) -> None:
    shipped = [slug for slug in stories() if slug in BEGUN]
    assert shipped == list(BEGUN)
    add_file("app.stories", "mine", MINE)
    assert list(stories())[:3] == [shipped[0], "mine", shipped[1]]
    learn = page(story="mine")
    assert learn.title[0].value == "Is this mine?"
    assert learn.segmented_control(key="story").options[:2] == ["1 · One model for all?", "2 · Mine?"]


def test_stories_use_different_parameters_in_the_address() -> None:
    names = [dial.name for story in stories().values() for dial in story.dials({})]
    assert len(set(names)) == len(names) and not {"story", "presenting"} & set(names)


@pytest.mark.parametrize("slug", SLUGS)
def test_every_scene_has_values_on_the_sliders(slug: str) -> None:
    story = stories()[slug]
    for scene in story.scenes:
        assert place_of(story, scene.place) == scene.place
        assert scene_at(story, scene.place) == scene


@pytest.mark.parametrize("slug", SLUGS)
def test_a_story_is_complete_before_training(slug: str) -> None:
    learn = page(story=slug)
    assert learn.title[0].value == stories()[slug].title
    assert len(learn.get("plotly_chart")) >= 2
    assert all(figure.proto.alt for figure in learn.get("plotly_chart"))


@pytest.mark.parametrize("slug", SLUGS)
def test_moving_a_slider_trains_and_updates_link_and_address(slug: str) -> None:
    learn, story = page(story=slug), stories()[slug]
    dial = story.dials(place_of(story, {}))[-1]
    before = story.config(place_of(story, {}))
    there = next(stop for stop in dial.stops if story.config(place_of(story, {dial.name: stop})) != before)
    slider = next(slider for slider in learn.select_slider if slider.key == dial.name)
    slider.set_value(there).run()
    assert not learn.exception
    assert learn.session_state.learn.desk.run.round > 0
    assert learn.query_params[dial.name] == there
    place = place_of(story, {dial.name: there})
    config = opened_config(learn)
    assert config == dict(story.config(place)) != dict(before)
    assert parse_experiment(config).runs()


@pytest.mark.parametrize("slug", SLUGS)
def test_every_scene_is_a_button_that_plays(slug: str) -> None:
    scenes = stories()[slug].scenes
    learn = page(story=slug)
    learn.button(key="scene_b").click().run()
    assert not learn.exception
    desk = learn.session_state.learn.desk
    assert desk.place == scenes[1].place and desk.run.round > 0
    assert scenes[1].text in texts(learn)


@pytest.mark.parametrize("slug", SLUGS)
def test_step_trains_a_round_and_updates_the_text(slug: str) -> None:
    (begun, figures), scene = BEGUN.get(slug, ("Round 1", None)), stories()[slug].scenes[1]
    learn = page(story=slug, **scene.place)
    assert figures in (len(learn.get("plotly_chart")), None)
    learn.button(key="step").click().run()
    assert not learn.exception
    assert any(begun in text and scene.text in text for text in map(html.unescape, bodies(learn)))


def test_play_turns_into_pause() -> None:
    learn = page()
    learn.button(key="play").click().run()
    assert learn.button(key="play").label == "Pause"
    learn.button(key="play").click().run()
    assert not learn.exception
    assert not learn.session_state.learn.desk.is_playing


def test_reset_discards_a_trained_round() -> None:
    learn = page()
    learn.button(key="step").click().run()
    assert "Round 1 " in texts(learn)
    learn.button(key="reset").click().run()
    assert "Untrained" in texts(learn)


def test_the_first_story_needs_no_parameter_in_the_address() -> None:
    learn = page()
    assert learn.title[0].value == stories()[SLUGS[0]].title
    assert not learn.query_params


@pytest.mark.parametrize("slug", ["nonsense", ""])
def test_an_unknown_story_opens_the_first(slug: str) -> None:
    learn = page(story=slug)
    assert learn.title[0].value == stories()[SLUGS[0]].title


def test_next_and_previous_follow_the_order() -> None:
    learn = page()
    assert "previous" not in {button.key for button in learn.button}
    learn.button(key="next").click().run()
    assert learn.title[0].value == stories()[SLUGS[1]].title
    assert learn.query_params["story"] == SLUGS[1]
    learn.button(key="previous").click().run()
    assert learn.title[0].value == stories()[SLUGS[0]].title


def test_a_story_pauses_and_keeps_its_state_while_another_is_open() -> None:
    learn = page(story="alone", samples="60")
    learn.button(key="play").click().run()
    learn.button(key="previous").click().run()
    assert "samples" not in learn.query_params
    learn.button(key="next").click().run()
    desk = learn.session_state.learn.desk
    assert desk.place == {"samples": "60"} and desk.run.round > 0 and not desk.is_playing


def test_presenting_shows_question_slider_and_figures() -> None:
    learn = AppTest.from_file(str(VIEWS / "learn.py"), default_timeout=ENOUGH_S)
    learn.session_state["presenting"] = True
    learn.run()
    assert not learn.exception
    assert learn.title and learn.select_slider and learn.button(key="play")
    assert not learn.caption and 'class="kicker"' not in texts(learn) and "Open in Set up" not in texts(learn)


def test_the_rest_of_the_address_stays() -> None:
    learn = page(presenting="true", story="alone", samples="60")
    assert learn.query_params["presenting"] == "true"
