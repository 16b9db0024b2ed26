"""The Learn page, run as a script."""

import html
import re
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from app.learn.classroom import Classroom
from app.state import links
from app.stories import stories
from app.stories.lambda_dial import STORY
from engine.config.schema import parse_experiment
from tests.app.pages import ENOUGH_S, VIEWS, open_page, without_marks

opened = partial(open_page, "learn", story=STORY.slug)


def reading(page: AppTest) -> str:
    found = next(h.proto.body for h in page.get("html") if 'class="reading"' in h.proto.body)
    return without_marks(found).replace("\u00a0", " ")


def link(page: AppTest) -> str:
    found = (re.search(r'href="([^"]*setup[^"]*)"', h.proto.body) for h in page.get("html"))
    return html.unescape(next(match[1] for match in found if match))


def test_the_page_shows_its_question_without_a_run() -> None:
    learn = opened()
    assert learn.title[0].value == "How much should clients share?"
    assert len(learn.get("plotly_chart")) == 2
    assert "round 0" in reading(learn)


def test_step_trains_one_round() -> None:
    learn = opened()
    learn.button(key="step").click().run()
    assert not learn.exception
    assert "This run, round 1:" in reading(learn)
    learn.button(key="reset").click().run()
    assert "This run, round 0:" in reading(learn)


@pytest.mark.slow
def test_a_scene_sets_the_sliders_and_play_trains() -> None:
    learn = opened()
    learn.segmented_control(key="scene").set_value("c").run()
    assert not learn.exception
    assert [learn.select_slider(key=name).value for name in ("spread", "share")] == ["3", "together"]
    learn.button(key="play").click().run()
    assert learn.button(key="play").label == "Pause"
    learn.button(key="reveal").click().run()
    assert STORY.scenes[2].text in html.unescape(reading(learn))


def test_sliders_are_in_the_address() -> None:
    learn = opened(spread="0.5", share="0.02")
    assert "λ = 0.02" in reading(learn) and "At R = 0.5" in reading(learn)


def test_a_link_is_followed_although_a_press_stops_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise StopException

    learn = AppTest.from_file(VIEWS / "learn.py", default_timeout=ENOUGH_S)
    learn.query_params["story"] = "skews"
    with monkeypatch.context() as patch:
        patch.setattr(Classroom, "arrive", stop)
        learn.run()
    learn.run()
    assert learn.query_params["story"] == "skews"
    assert learn.title[0].value == stories()["skews"].title


def test_an_invalid_address_opens_the_first_scene() -> None:
    learn = opened(spread="17", share="much")
    assert [learn.select_slider(key=name).value for name in ("spread", "share")] == ["0", "alone"]


@pytest.mark.parametrize("dial", ["alone", "0.02", "adaptive"])
def test_the_link_opens_set_up_with_all_shown_methods(dial: str) -> None:
    learn = opened(spread="1", share=dial)
    packed = parse_qs(urlsplit(link(learn)).query)["config"][0]
    experiment = parse_experiment(links.unpack_config(packed))
    labels = {entry.label for entry in experiment.algorithms}
    assert {"Alone", "Adaptive λ", "Together"} <= labels
    assert len(labels) == (4 if dial == "0.02" else 3)
    assert experiment.dataset.options.R == 1.0
