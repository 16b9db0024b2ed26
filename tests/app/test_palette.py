"""Every method has a distinct and readable style, including unknown ones."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.charts.plot import palette
from app.charts.plot.method_styles import APART, Look, looks
from app.charts.plot.palette import MethodStyle
from app.components import page
from engine.core.errors import PluginBroken
from engine.core.registry import ALGORITHMS
from engine.core.style import Dash, Hue, Symbol

NAMES = [*ALGORITHMS.names(), "a_method_of_mine", "another"]
STYLES = {  # readers know the methods by them, and figures already printed have them
    "afl": MethodStyle("#6C7376", "#79858A", "dash", "triangle-down"),
    "apfl": MethodStyle("#0B7A84", "#4FC7D1", "solid", "triangle-right"),
    "cfl": MethodStyle("#8C3B2E", "#D97F6F", "dot", "star-triangle-up"),
    "cgpfl": MethodStyle("#00805D", "#2DBE93", "solid", "circle"),
    "cgpfl_heur": MethodStyle("#00805D", "#2DBE93", "dash", "star"),
    "ditto": MethodStyle("#2276AE", "#7CC8F2", "solid", "square"),
    "fedala": MethodStyle("#2276AE", "#7CC8F2", "dashdot", "circle"),
    "fedamp": MethodStyle("#2276AE", "#7CC8F2", "dot", "diamond"),
    "fedas": MethodStyle("#6A51A3", "#A998E0", "dot", "triangle-up"),
    "fedavg": MethodStyle("#2C3337", "#DCE3E6", "dot", "circle"),
    "fedbabu": MethodStyle("#9432BE", "#C25EEA", "dot", "pentagon"),
    "fedbn": MethodStyle("#9432BE", "#C25EEA", "dashdot", "square"),
    "fedcp": MethodStyle("#C24C06", "#F0803C", "dot", "pentagon"),
    "feddbe": MethodStyle("#00805D", "#2DBE93", "dot", "cross"),
    "feddyn": MethodStyle("#505659", "#A3ADB1", "dot", "hexagon"),
    "fedem": MethodStyle("#66711B", "#B5C255", "dot", "hexagram"),
    "fedfomo": MethodStyle("#0B7A84", "#4FC7D1", "dot", "star"),
    "fedmd": MethodStyle("#C24C06", "#F0803C", "dashdot", "hexagon"),
    "fednova": MethodStyle("#2C3337", "#DCE3E6", "longdash", "hourglass"),
    "fedopt": MethodStyle("#2C3337", "#DCE3E6", "dash", "star"),
    "fedpac": MethodStyle("#9432BE", "#C25EEA", "longdash", "diamond"),
    "fedper": MethodStyle("#9432BE", "#C25EEA", "dash", "triangle-down"),
    "fedphp": MethodStyle("#C24C06", "#F0803C", "dash", "cross"),
    "fedproto": MethodStyle("#6A51A3", "#A998E0", "dash", "bowtie"),
    "fedprox": MethodStyle("#505659", "#A3ADB1", "dash", "diamond"),
    "fedprox_onestage": MethodStyle("#6A51A3", "#A998E0", "solid", "circle"),
    "fedrep": MethodStyle("#9432BE", "#C25EEA", "solid", "triangle-up"),
    "fedrod": MethodStyle("#8C3B2E", "#D97F6F", "solid", "cross"),
    "fedsam": MethodStyle("#2276AE", "#7CC8F2", "dash", "triangle-down"),
    "fl_hc": MethodStyle("#66711B", "#B5C255", "dash", "hourglass"),
    "gpfl": MethodStyle("#C24C06", "#F0803C", "solid", "diamond"),
    "ifca": MethodStyle("#8C3B2E", "#D97F6F", "dash", "hexagon"),
    "knn_per": MethodStyle("#9A6700", "#E8B23A", "dashdot", "star"),
    "kt_pfl": MethodStyle("#66711B", "#B5C255", "dashdot", "triangle-left"),
    "l2gd": MethodStyle("#0B7A84", "#4FC7D1", "dash", "triangle-left"),
    "lg_fedavg": MethodStyle("#00805D", "#2DBE93", "dashdot", "square"),
    "local_train": MethodStyle("#6C7376", "#79858A", "dashdot", "square"),
    "lp_ft": MethodStyle("#9A6700", "#E8B23A", "dot", "square"),
    "mocha": MethodStyle("#0B7A84", "#4FC7D1", "dashdot", "hexagram"),
    "moon": MethodStyle("#505659", "#A3ADB1", "dashdot", "star"),
    "per_fedavg": MethodStyle("#66711B", "#B5C255", "solid", "x"),
    "pfedfda": MethodStyle("#8C3B2E", "#D97F6F", "dashdot", "circle"),
    "pfedhn": MethodStyle("#9A6700", "#E8B23A", "solid", "hexagram"),
    "pfedme": MethodStyle("#9A6700", "#E8B23A", "dash", "diamond"),
    "plgu_ghn": MethodStyle("#0072B2", "#4BA3DC", "dashdot", "diamond"),
    "plgu_grep": MethodStyle("#0072B2", "#4BA3DC", "solid", "circle"),
    "plgu_lf": MethodStyle("#0072B2", "#4BA3DC", "dash", "square"),
    "qffl": MethodStyle("#2C3337", "#DCE3E6", "dashdot", "cross"),
    "scaffold": MethodStyle("#505659", "#A3ADB1", "longdash", "triangle-up"),
    "term": MethodStyle("#6C7376", "#79858A", "longdash", "bowtie"),
    "a_method_of_mine": MethodStyle("#9A6700", "#E8B23A", "longdash", "square"),
    "another": MethodStyle("#0072B2", "#4BA3DC", "dash", "hexagon"),
}


def test_methods_keep_their_styles() -> None:
    assert set(ALGORITHMS.names()) <= STYLES.keys(), "a new method keeps its style from its first release on"
    assert {name: palette.style_of(name) for name in STYLES} == STYLES


def test_the_words_of_a_style_have_a_color_a_dash_and_a_symbol() -> None:
    assert set(get_args(Hue)) == set(palette.HUES | palette.GREYS)
    for dash in get_args(Dash):
        assert go.Scatter(line={"dash": dash}).line.dash == dash
    for symbol in get_args(Symbol):
        assert go.Scatter(marker={"symbol": symbol}).marker.symbol == symbol


PLUGIN = """
from engine.core.registry import ALGORITHMS
from engine.core.style import Style

@ALGORITHMS.register("mine", title="Mine", paper="Nobody, 2026"{style})
class Mine:
    init = round = personalized = global_model = shared = None
"""


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Registers a plugin method with this style."""

    def register(style: str) -> None:
        (tmp_path / "mine.py").write_text(PLUGIN.format(style=style), encoding="utf-8")
        monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))

    return register


def test_a_plugin_method_is_drawn_in_its_declared_style(registered: Callable[[str], None]) -> None:
    registered(', style=Style(hue="pale grey", dash="dot", symbol="star")')
    assert palette.style_of("mine") == MethodStyle(*palette.GREYS["pale grey"], "dot", "star")


def test_a_plugin_method_without_a_style_gets_one_from_its_name(registered: Callable[[str], None]) -> None:
    derived = palette.style_of("mine")
    registered("")
    assert "mine" in ALGORITHMS and palette.style_of("mine") == derived


def test_an_unknown_style_is_refused(registered: Callable[[str], None]) -> None:
    registered(', style=Style(hue="pink", dash="dot", symbol="star")')
    with pytest.raises(PluginBroken, match=r"(?s)mine\.py.*hue.*'blue', 'vermilion'.*'pink'"):
        palette.style_of("mine")


@pytest.mark.parametrize("is_dark", [True, False])
def test_only_dark_pages_are_inverted_on_paper(monkeypatch: pytest.MonkeyPatch, is_dark: bool) -> None:
    monkeypatch.setattr(palette, "is_dark", lambda: is_dark)
    drawn: list[object] = []
    monkeypatch.setattr(page.st, "html", drawn.append)
    page.look()
    assert (page.DARK_PRINT_CSS in drawn) == is_dark


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


def test_every_possible_color_is_readable() -> None:
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


def test_color_distance_is_small_for_colors_that_deuteranopes_confuse() -> None:
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


def test_methods_with_similar_colors_differ_in_dash_or_symbol() -> None:
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
