"""Every method can be told apart and read, also one that nobody has seen before."""

import plotly.graph_objects as go

from app import palette
from engine.registry import ALGORITHMS

NAMES = [*ALGORITHMS.names(), "a_method_of_mine", "another"]


def test_every_method_is_readable_in_light_and_dark() -> None:
    for name in NAMES:
        style = palette.style_of(name)
        assert palette.contrast(style.light, palette.LIGHT.paper) >= 4.5, name
        assert palette.contrast(style.dark, palette.DARK.paper) >= 4.5, name


def test_no_two_known_methods_look_alike() -> None:
    styles = [palette.style_of(name) for name in ALGORITHMS.names()]
    assert len(set(styles)) == len(styles)


def test_an_unknown_method_keeps_its_style() -> None:
    assert palette.style_of("a_method_of_mine") == palette.style_of("a_method_of_mine")


def test_shades_of_one_method_differ_and_stay_readable() -> None:
    for name in NAMES:
        shades = palette.shades(name, 5)
        assert len(set(shades)) == 5
        assert min(palette.contrast(shade, palette.LIGHT.paper) for shade in shades) >= 4.5


def test_black_on_white_has_the_largest_contrast() -> None:
    assert round(palette.contrast("#000000", "#FFFFFF"), 6) == 21
    assert palette.contrast("#123456", "#123456") == 1


def test_a_figure_has_hairlines_across_only() -> None:
    fig = palette.base_layout(go.Figure(go.Scatter(x=[1, 2], y=[1, 2])), height=300)
    assert fig.layout.xaxis.showgrid is False
    assert fig.layout.yaxis.showgrid is True
    assert fig.layout.height == 300
