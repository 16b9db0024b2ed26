"""Figures for papers: exact sizes, embedded fonts, and the same marks as on the screen."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from app.charts import cost, curves_over_seeds, dumbbell, ecdf, split
from app.charts.plot import palette
from app.charts.plot.line_labels import End, label_ends
from app.charts.printed import fonts, looks
from app.charts.printed.settings import FONTS, Settings
from app.charts.printed.sheet import Unprintable, draw, problem, render, save
from app.charts.printed.text import words
from tests.app.frames import clients
from tests.app.hostile import HOST, NAME

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
THREE = clients(1000, a=[[0.5, 0.9, 0.7]], b=[[0.6, 0.7, 0.7]], c=[[0.8, 0.9, 0.4]])


@pytest.fixture(autouse=True)
def _on_paper():
    with palette.on_paper():
        yield


def lines(**methods: list[float]) -> go.Figure:
    """A named line for each method; the first three are solid."""
    fig, ends = go.Figure(), []
    for i, (name, values) in enumerate(methods.items()):
        color = palette.HUES["blue"][0] if i == 0 else list(palette.HUES.values())[i][0]
        fig.add_scatter(x=np.arange(len(values)), y=values, mode="lines", line={"color": color, "width": 2.2})
        ends.append(End(name, len(values) - 1, values[-1], color))
    fig.add_scatter(
        x=[end.x for end in ends],
        y=[end.y for end in ends],
        mode="markers",
        marker={"symbol": "circle", "color": [end.color for end in ends]},
    )
    palette.base_layout(fig, height=370)
    label_ends(fig, ends, 0, 1)
    return fig.update_layout(showlegend=False)


def one(figure: go.Figure, **settings: object) -> Axes:
    """The axes of the only panel."""
    return draw([figure], Settings(**settings)).axes[0]  # type: ignore[arg-type]


def words_on(sheet: Figure) -> list[str]:
    """Every text on it."""
    return [text.get_text() for text in sheet.findobj(Text) if text.get_text()]


@pytest.mark.slow
def test_the_same_choices_give_the_same_file_of_exactly_the_chosen_size() -> None:
    figure = dumbbell.figure(dumbbell.data(THREE, 0.05))
    narrow, wide = Settings(3.25, 2.5), Settings(6.75, 2.5)
    svg, pdf = render([figure], narrow, "svg"), render([figure], wide, "pdf")
    root = ElementTree.fromstring(svg)
    assert (root.get("width"), root.get("height")) == (f"{3.25 * 72:g}pt", f"{2.5 * 72:g}pt")
    assert b"/MediaBox [ 0 0 486 180 ]" in pdf
    assert svg == render([figure], narrow, "svg") and pdf == render([figure], wide, "pdf")


@pytest.mark.parametrize("font", list(FONTS))
def test_a_pdf_embeds_its_fonts_as_truetype(font: str) -> None:
    pdf = render([lines(a=[0.1, 0.9])], Settings(font=font), "pdf")  # type: ignore[arg-type]
    assert b"/Type3" not in pdf and b"/FontFile2" in pdf
    assert len(re.findall(rb"/FontDescriptor \d+ 0 R", pdf)) >= 1


@pytest.mark.slow
def test_names_are_text_and_never_markup() -> None:
    formula = r"$\frac{$ & ]]> -->"
    figure = dumbbell.figure(dumbbell.data(clients(1000, **{NAME: [[0.5, 0.9]], formula: [[0.4, 0.6]]}), 0.05))
    root = ElementTree.fromstring(render([figure], Settings(), "svg"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert not tags & {"script", "image", "a", "foreignObject", "text"}
    links = [value for element in root.iter() for name, value in element.attrib.items() if name.endswith("href")]
    assert links and all(value.startswith("#") for value in links)
    assert HOST not in " ".join(value for element in root.iter() for value in element.attrib.values())
    shown = words_on(draw([figure], Settings()))
    assert formula in shown and any(text.startswith("![p](http://") and text.endswith(" …") for text in shown)


def test_dollars_are_printed_as_dollars() -> None:
    """A formula would have one glyph."""
    for text, glyphs in (("$x$", 3), ("xyz", 3)):
        figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": "#000000"}))
        figure.update_layout(
            xaxis={"tickvals": [0], "ticktext": [text], "showgrid": False},
            yaxis={"visible": False},
            annotations=[],
        )
        root = ElementTree.fromstring(render([figure], Settings(), "svg"))
        label = next(element for element in root.iter(f"{SVG}g") if element.get("id", "").startswith("text_"))
        assert len(list(label.iter(f"{SVG}use"))) == glyphs


def test_characters_without_a_glyph_become_boxes() -> None:
    assert fonts.printable("λ ± 漢", "times") == "λ ± □"
    assert fonts.printable("λ < _ ± é", "cm") == "λ < _ ± é"


def test_computer_modern_has_only_the_characters_at_their_unicode_positions() -> None:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    known = FT2Font(font_manager.findfont(fonts.families("cm")[0])).get_charmap()
    assert ord("a") in known and ord("%") in known
    assert not {ord(letter) for letter in '<>|_{}"±'} & set(known)


def test_tags_of_charts_are_read_and_others_are_text() -> None:
    assert words("<b>55.0</b>") == ("55.0", True)
    assert words("a<br>b<sub>2</sub>") == ("a\nb2", False)
    assert words("&lt;img&gt; <a>\x00\ud800") == ("<img> <a>", False)


def test_lines_keep_their_steps_dashes_and_colors() -> None:
    figure = ecdf.figure(ecdf.data(THREE))
    axes = one(figure, legend="off")
    for trace, line in zip(figure.data, axes.lines, strict=False):
        assert line.get_drawstyle() == "steps-post"
        assert line.get_xdata().tolist() == pytest.approx(trace.x.tolist())
        assert to_hex(line.get_color()).upper() == trace.line.color
        assert line.is_dashed() == (trace.line.dash != "solid")


def test_lines_of_the_same_dash_and_symbol_differ_without_color() -> None:
    values = np.linspace(0, 1, 40).tolist()
    drawn = [line for line in one(lines(a=values, b=values)).lines if len(line.get_xdata()) == 40]
    assert {(line.get_linestyle(), line.get_marker()) for line in drawn} == {("-", "o")}
    assert sum(line.get_markerfacecolor() == "white" for line in drawn) == 1


def test_a_legend_has_the_labels_that_the_screen_shows_next_to_marks() -> None:
    figure = lines(Ditto=[0.1, 0.9], FedAvg=[0.1, 0.5])
    below, beside, off = (draw([figure], Settings(legend=where)) for where in ("below", "beside", "off"))
    (legend,) = below.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Ditto", "FedAvg"]
    first = next(iter(legend.legend_handles))
    assert to_hex(first.get_color()).upper() == palette.HUES["blue"][0] and first.get_marker() == "o"
    assert words_on(below).count("Ditto") == words_on(beside).count("Ditto") == 1 and not beside.legends
    assert "Ditto" not in words_on(off)


@pytest.mark.slow
def test_panels_share_one_legend_and_have_letters() -> None:
    both = [lines(a=[0.1, 0.9], b=[0.1, 0.5]), lines(b=[0.1, 0.9], c=[0.1, 0.5])]
    sheet = draw(both, Settings(6.75, titles=("First", "$econd")))
    (legend,) = sheet.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c"]
    assert [axes.get_title(loc="left") for axes in sheet.axes] == ["(a) First", "(b) $econd"]
    left, right = (axes.get_position() for axes in sheet.axes)
    assert left.x1 < right.x0 and left.y1 == pytest.approx(right.y1)
    upper, lower = (axes.get_position() for axes in draw(both, Settings(3.25)).axes)
    assert upper.y0 > lower.y1


@pytest.mark.slow
def test_everything_is_within_the_sheet() -> None:
    rows = dumbbell.data(clients(1000, **{f"a method with a long name {i}": [[0.1 * i, 0.9]] for i in range(8)}), 0.05)
    for figure in (dumbbell.figure(rows), lines(**{f"method {i}": [0.0, 0.5] for i in range(8)})):
        sheet = draw([figure], Settings())
        box = sheet.get_tightbbox()
        assert box.x0 > -0.02 and box.x1 < 3.25 + 0.02 and box.y0 > -0.02 and box.y1 < sheet.get_figheight() + 0.02


@pytest.mark.slow
def test_a_dark_page_prints_the_same_figure_as_a_light_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures() -> list[go.Figure]:
        return [ecdf.figure(ecdf.data(THREE), 0.05, None, "a", "b"), dumbbell.figure(dumbbell.data(THREE, 0.05))]

    light = render(figures(), Settings(), "svg")
    monkeypatch.setattr(palette, "is_dark", lambda: True)
    for module in ("app.charts.plot.method_styles", "app.charts.plot.figure_cache"):
        monkeypatch.setattr(f"{module}.is_dark", lambda: True)
    dark = figures()
    assert dark[0].layout.font.color == palette.DARK.ink
    assert render(dark, Settings(), "svg") == light


def test_every_dark_color_has_one_light_color() -> None:
    dark = [color for light, color in palette.pairs().items()]
    assert len(set(dark)) == len(dark)
    assert looks.in_light("rgba(16,23,26,0.5)", {palette.DARK.paper: palette.LIGHT.paper}) == "rgba(251,250,247,0.5)"


def test_error_bars_and_bars_are_where_the_screen_has_them() -> None:
    figure = go.Figure(
        [
            go.Bar(x=[0, 1], y=[3, 4], name="lower", marker={"color": "#112233"}),
            go.Bar(x=[0, 1], y=[1, 2], name="upper", marker={"color": "#445566", "pattern": {"shape": "/"}}),
            go.Scatter(x=[0, 1], y=[4, 6], mode="markers", error_y={"array": [0.5, 0.25]}),
        ]
    ).update_layout(barmode="stack")
    axes = one(figure)
    boxes = [(bar.get_y(), bar.get_height()) for bar in axes.patches]
    assert boxes == [(0, 3), (0, 4), (3, 1), (4, 2)]
    whiskers = [
        segment[:, 1].tolist() for c in axes.collections if hasattr(c, "get_segments") for segment in c.get_segments()
    ]
    assert [3.5, 4.5] in whiskers and [5.75, 6.25] in whiskers


def test_bars_of_two_traces_are_side_by_side_where_they_are_not_stacked() -> None:
    figure = go.Figure([go.Bar(x=["a", "b"], y=[3, 4]), go.Bar(x=["a", "b"], y=[1, 2])])
    axes = one(figure)
    left, right = axes.patches[0], axes.patches[2]
    assert left.get_x() + left.get_width() == pytest.approx(right.get_x())
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_heat_map_keeps_its_range_its_empty_cells_and_its_scale() -> None:
    figure = go.Figure(
        go.Heatmap(
            z=[[1, np.nan], [3, 4]], x=[0, 2], zmin=0, zmax=5, colorbar={"tickvals": [0, 5], "title": {"text": "%"}}
        )
    )
    sheet = draw([figure], Settings())
    mesh = sheet.axes[0].collections[0]
    assert mesh.get_clim() == (0, 5) and mesh.get_array().mask.tolist() == [[False, True], [False, False]]
    assert sheet.axes[0].get_xlim() == (-1, 3) and sheet.axes[1].get_yticks().tolist() == [0, 5]


@pytest.mark.slow
def test_arrays_that_plotly_has_encoded_are_read() -> None:
    both = [lines(a=[0.1, 0.9]), go.Figure(go.Heatmap(z=np.arange(6.0).reshape(2, 3)))]
    encoded = [go.Figure(figure.to_dict()) for figure in both]
    assert all("bdata" in figure.to_json() for figure in encoded)
    assert render(encoded, Settings(), "svg") == render(both, Settings(), "svg")


@pytest.mark.slow
def test_a_large_heat_map_is_a_picture_so_that_the_file_is_small() -> None:
    figure = go.Figure(go.Heatmap(z=np.random.default_rng(0).random((200, 300))))
    assert len(render([figure], Settings(), "pdf")) < 1_500_000


def test_logarithmic_axes_have_the_ticks_of_the_screen() -> None:
    figure = go.Figure(go.Scatter(x=[1, 1000], y=[1, 2], mode="markers"))
    figure.update_xaxes(type="log", range=[0, 3], tickvals=[1, 10, 1000], ticktext=["1", "10", "1,000"])
    figure.add_annotation(x=1, y=1.5, text="ten", showarrow=False)
    axes = one(figure)
    assert axes.get_xscale() == "log" and axes.get_xlim() == pytest.approx((1, 1000))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "1,000"]
    assert next(text for text in axes.texts if text.get_text() == "ten").xy[0] == pytest.approx(10)


def test_charts_with_several_plots_keep_their_rows() -> None:
    rows = split.data(
        {"class_counts": [[3, 2], [4, 2]], "train_sizes": [3, 4], "val_sizes": [0, 0], "test_sizes": [2, 2]}
    )
    sizes, counts = draw([split.figure(rows)], Settings()).axes[:2]
    assert sizes.get_position().y0 > counts.get_position().y1 - 1e-6


def test_a_sheet_without_room_for_marks_is_refused_with_advice() -> None:
    with pytest.raises(Unprintable, match="choose a larger figure or a smaller font"):
        render([lines(a=[0.1, 0.9])], Settings(1.0, 0.5, size=24), "pdf")


def test_unsupported_charts_are_refused_with_a_message() -> None:
    flow = go.Figure(go.Sankey(node={"label": ["a", "b"]}, link={"source": [0], "target": [1], "value": [1]}))
    assert problem(flow) == "A flow diagram has no printed form yet." and problem(lines(a=[0, 1])) is None
    assert problem(go.Figure(go.Pie(values=[1]))) == "A trace of type “pie” has no printed form yet."
    assert problem(go.Figure()) == "This chart is empty."
    with pytest.raises(Unprintable, match="three dimensions"):
        render([go.Figure(go.Surface(z=[[1, 2], [3, 4]]))], Settings(), "svg")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 0.5}, "width = 0.5 must be between 1 and 20"),
        ({"size": 40}, "size = 40 must be between 4 and 24"),
        ({"height": 100}, "height = 100 must be"),
        ({"font": "comic"}, "no font 'comic'; known: times, cm, sans"),
        ({"legend": "left"}, "no legend 'left'; known: below, beside, off"),
        ({"columns": 9}, "columns = 9 must be"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_file_extension_determines_the_format(tmp_path: Path) -> None:
    figure = lines(a=[0.1, 0.9])
    save([figure], tmp_path / "figure.pdf")
    save([figure], tmp_path / "figure.SVG")
    assert (tmp_path / "figure.pdf").read_bytes()[:5] == b"%PDF-"
    assert b"<svg" in (tmp_path / "figure.SVG").read_bytes()
    with pytest.raises(ValueError, match=r"figure.png must end in .pdf or .svg"):
        save([figure], tmp_path / "figure.png")


def test_every_method_symbol_has_a_marker() -> None:
    used = {*palette._SYMBOLS, *palette._GROUP_SYMBOLS}
    assert used - {"triangle-left", "triangle-right"} <= set(looks.SYMBOLS)


def test_a_page_that_prints_nothing_does_not_load_matplotlib() -> None:
    """Modules import what loads it within functions; ``settings`` loads nothing."""
    folder = ROOT / "app" / "charts" / "printed"
    others = [file for file in (ROOT / "app").rglob("*.py") if folder not in file.parents]
    heavy = r"matplotlib|fontTools|app\.charts\.printed(?!\.settings\b)"
    imported = re.compile(rf"^(?:from|import) (?:{heavy})\b.*", re.MULTILINE)
    for file in [*others, folder / "settings.py", folder / "__init__.py"]:
        found = imported.search(file.read_text(encoding="utf-8"))
        assert found is None, f"{file}: {found[0]}"


@pytest.mark.slow
def test_the_charts_of_compare_print() -> None:
    rows = pd.DataFrame({"method": ["a", "a"], "algorithm": "a", "round": [0, 1], "x": [0.0, 1.0], "mean": [0.1, 0.9]})
    rows = rows.assign(mean_pm=0.01, lowest=0.1, seeds=3)
    points = pd.DataFrame(
        {
            "method": ["a", "b"],
            "algorithm": ["a", "b"],
            "cost": [0.0, 2.0],
            "mean": [0.5, 0.6],
            "mean_pm": [0.01, 0.02],
            "lowest": [0.1, 0.2],
            "seeds": 3,
            "front": [True, True],
            "samples": 100,
        }
    )
    both = [curves_over_seeds.figure(rows), cost.figure(points, "megabytes")]
    assert problem(both[0]) is None and problem(both[1]) is None
    assert len(render(both, Settings(6.75), "pdf")) > 1000
