"""What a story shows before all its questions are answered: no results of later scenes."""

import base64
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.components import page as app_page
from app.stories import alone, lambda_dial, leak, left_behind, one_model, skews, stories
from app.stories.asked import all_answered, asked, stops_up_to
from app.stories.desk import Desk
from app.stories.story import picture_of
from tests.app.pages import open_page

page = partial(open_page, "learn")
ONE, ALONE, LEAK, BEHIND, SKEWS, DIAL = (
    module.STORY for module in (one_model, alone, leak, left_behind, skews, lambda_dial)
)


def values(figure: dict[str, Any], axis: str) -> list[float]:
    """All values of the results of a figure, without gaps."""
    found: list[float] = []
    for trace in figure["data"]:
        given = trace.get(axis, ()) if trace.get("meta") == "result" else ()
        if isinstance(given, dict):
            given = np.frombuffer(base64.b64decode(given["bdata"]), given["dtype"]).tolist()
        found += [value for value in given if value is not None and value == value]
    return found


def test_a_scene_has_the_places_up_to_its_own_and_the_last_has_all() -> None:
    first, second, last = (scene.place for scene in ONE.scenes)
    assert asked(ONE, first) == [first] and asked(ONE, second) == [first, second]
    assert asked(ONE, last) is None and asked(ONE, {"turn": "18"}) is None
    assert asked(ONE, first, is_open=True) == [] and asked(ONE, last, is_open=True) == [first, second]
    with all_answered(True):
        assert asked(ONE, first) is None


def test_stops_end_at_the_furthest_place() -> None:
    (dial,) = ALONE.dials({})
    assert stops_up_to(dial, [{"samples": "20"}, {"samples": "5"}]) == ("5", "10", "20")
    assert stops_up_to(dial, []) == () and stops_up_to(dial, None) == tuple(dial.stops)


def test_all_questions_are_answered_after_the_last_one() -> None:
    desk = Desk(ONE)
    for scene in ONE.scenes:
        assert not desk.has_answered_all
        desk.reveal(scene.place)
    assert desk.has_answered_all


@pytest.mark.parametrize("slug", stories())
def test_numbers_grow_from_scene_to_scene_and_are_complete_in_the_last(slug: str) -> None:
    story = stories()[slug]
    for before, scene in zip([None, *story.scenes], story.scenes, strict=False):
        now = story.table(asked(story, scene.place))
        still_open = story.table(asked(story, scene.place, is_open=True))
        assert len(still_open) < len(now)
        assert before is None or still_open.equals(story.table(asked(story, before.place)))
    assert now.equals(story.table())


def test_the_curve_on_rotation_ends_where_the_scene_is() -> None:
    assert [max(values(ONE._curve_at(scene.place), "x")) for scene in ONE.scenes] == [0, 90, 360]
    assert max(values(ONE._curve_at({"turn": "18"}), "x")) == 360


def test_the_curve_on_samples_ends_where_the_scene_is() -> None:
    shown = [max(values(picture_of(ALONE, scene.place).figure, "x")) for scene in ALONE.scenes]
    assert shown == [10, 40, 150]


def test_the_curves_on_leaks_have_no_noise_and_no_batch_of_later_scenes() -> None:
    *earlier, last = [leak._shown(asked(LEAK, scene.place)) for scene in LEAK.scenes]
    assert [shown["no noise"][-1] for shown in earlier] == ["1", "4", "16"]
    assert all(set(shown) == {"no noise", leak.REFERENCE} for shown in earlier)
    assert set(last) == {*leak.LINES.values(), leak.REFERENCE}
    for shown in (*earlier, last):
        assert max(values(leak._still_curve(shown), "x")) == int(shown["no noise"][-1])


def test_the_curve_on_the_radius_ends_where_the_scene_is_and_names_the_best_in_the_end() -> None:
    for scene in BEHIND.scenes:
        rho = float(scene.place["rho"])
        drawn = left_behind._radius(rho, None, [], height=300)
        lines = [trace for trace in drawn.figure["data"] if trace.get("mode") == "lines+markers"]
        assert max(values({"data": lines}, "x")) == rho
        is_last = scene is BEHIND.scenes[-1]
        assert ("best" in drawn.alt, "★" in str(drawn.figure)) == (is_last, is_last)


def test_rows_of_later_questions_are_empty() -> None:
    counts = [len(values(skews.STORY.picture(scene.place).figure, "x")) for scene in SKEWS.scenes]
    assert counts[0] == counts[3] == 3 * counts[1] and counts[2] == 2 * counts[1]


def test_the_dial_shows_the_ends_that_were_asked_and_the_whole_curve_later() -> None:
    alone, together, different, between, adaptive = (picture_of(DIAL, scene.place) for scene in DIAL.scenes)
    assert alone is not None and "together" not in alone.alt and 0.3532 not in values(alone.figure, "y")
    assert together is not None and "together 0.35" in together.alt and "best" not in together.alt
    assert different is not None and "best" not in different.alt and len(values(different.figure, "x")) == 2
    assert between is not None and "best 0.67 at lambda 0.07" in between.alt and "adaptive" not in between.alt
    assert adaptive is not None and "adaptive 2.61" in adaptive.alt
    assert len(values(adaptive.figure, "x")) > len(values(between.figure, "x"))


def test_the_table_below_the_figures_has_their_numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: list[pd.DataFrame] = []
    monkeypatch.setattr(app_page, "table_button", lambda table, **_: tables.append(table))
    learn = page(story="one-model", turn="90")
    learn.button(key="reveal").click().run()
    assert not learn.exception
    assert [set(table["stop"]) for table in (tables[0], tables[-1])] == [{"0"}, {"0", "18", "36", "54", "72", "90"}]


def test_a_page_shows_the_whole_curve_once_all_questions_are_answered() -> None:
    learn = page(story="one-model")
    for letter in "abc":
        learn.segmented_control(key="scene").set_value(letter).run()
        learn.button(key="reveal").click().run()
        if letter == "a":
            assert not any("360\\u00b0: mean" in chart.proto.spec for chart in learn.get("plotly_chart"))
    learn.segmented_control(key="scene").set_value("a").run()
    assert not learn.exception
    assert any("360\\u00b0: mean" in chart.proto.spec for chart in learn.get("plotly_chart"))
