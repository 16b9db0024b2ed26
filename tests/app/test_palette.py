"""Every method has a distinct and readable style, including unknown ones."""

from itertools import combinations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.charts.plot import palette
from app.charts.plot.method_styles import APART, Look, looks
from engine.core.registry import ALGORITHMS

NAMES = [*ALGORITHMS.names(), "a_method_of_mine", "another"]


def test_every_method_is_readable_in_light_and_dark() -> None:
    for name in NAMES:
        style = palette.style_of(name)
        assert palette.contrast(style.light, palette.LIGHT.paper) >= 4.5, name
        assert palette.contrast(style.dark, palette.DARK.paper) >= 4.5, name


def test_known_methods_have_distinct_styles() -> None:
    styles = [palette.style_of(name) for name in ALGORITHMS.names()]
    assert len(set(styles)) == len(styles)


def test_an_unknown_method_keeps_its_style() -> None:
    assert palette.style_of("a_method_of_mine") == palette.style_of("a_method_of_mine")


def test_every_possible_colour_is_readable() -> None:
    for tone in palette.all_tones():
        assert palette.contrast(tone.light, palette.LIGHT.paper) >= 4.5, tone
        assert palette.contrast(tone.dark, palette.DARK.paper) >= 4.5, tone


def _compared(**settings: int) -> dict[str, Look]:
    """The styles of several settings of each algorithm."""
    rows = [(f"{name} {i}", name) for name, count in settings.items() for i in range(count)]
    return looks(pd.DataFrame(rows, columns=["method", "algorithm"]))


def _nearest(found: dict[str, Look]) -> float:
    tone_of = {tone.light: tone for tone in palette.all_tones()}
    return min(palette.apart(tone_of[a.color], tone_of[b.color]) for a, b in combinations(found.values(), 2))


def test_colour_distance_is_small_for_colours_that_deuteranopes_confuse() -> None:
    black, white = palette.Tone("#000000", "#000000"), palette.Tone("#FFFFFF", "#FFFFFF")
    assert palette.apart(black, white) == pytest.approx(100, abs=0.01)
    purple, grey = palette.Tone("#A8487F", "#A8487F"), palette.Tone("#6C7376", "#6C7376")
    in_rgb = np.linalg.norm(np.subtract(palette.rgb(purple.light), palette.rgb(grey.light)))
    assert palette.apart(purple, grey) < 10 < in_rgb


def test_fedavg_and_local_train_are_always_easy_to_distinguish() -> None:
    first, second = (palette.style_of(name) for name in ("fedavg", "local_train"))
    assert palette.apart(palette.tones(first)[0], palette.tones(second)[0]) > 20
    assert first.dash != second.dash and first.symbol != second.symbol


@pytest.mark.parametrize(
    "settings",
    [
        {"plgu_lf": 1, "ditto": 5},
        {"fedavg": 1, "local_train": 1, "fedrep": 1, "fedper": 1, "fedbabu": 1},
        {"cgpfl": 6, "fedavg": 1, "local_train": 1},
        {"ditto": 12},
        dict.fromkeys(ALGORITHMS.names()[:12], 1),
        dict.fromkeys(ALGORITHMS.names()[-12:], 1),
    ],
)
def test_twelve_methods_or_settings_are_distinct_also_for_deuteranopes(settings: dict[str, int]) -> None:
    found = _compared(**settings)
    assert _nearest(found) >= APART


def test_methods_with_similar_colours_differ_in_dash_or_symbol() -> None:
    found = _compared(**dict.fromkeys(ALGORITHMS.names(), 1))
    assert len(set(found.values())) == len(found)


def test_a_style_does_not_depend_on_the_order_of_rows() -> None:
    rows = pd.DataFrame({"method": ["a", "b", "c"], "algorithm": ["plgu_lf", "ditto", "fedavg"]})
    assert looks(rows) == looks(rows.iloc[::-1])


def test_black_on_white_has_the_highest_contrast() -> None:
    assert round(palette.contrast("#000000", "#FFFFFF"), 6) == 21
    assert palette.contrast("#123456", "#123456") == 1


def test_a_figure_only_has_horizontal_grid_lines() -> None:
    fig = palette.base_layout(go.Figure(go.Scatter(x=[1, 2], y=[1, 2])), height=300)
    assert fig.layout.xaxis.showgrid is False
    assert fig.layout.yaxis.showgrid is True
    assert fig.layout.height == 300
