"""The sections of Compare: only the open one is drawn, and chosen clients are highlighted in all of them."""

from dataclasses import replace
from functools import partial

import numpy as np
import plotly.graph_objects as go
import pytest

from app.charts import cluster_raster, cost, differences, dumbbell, ecdf, histogram, paired
from app.charts.plot.curve_labels import Curve, name_curves
from app.charts.plot.palette import theme
from app.compare import chosen_clients
from app.compare.view import View
from app.data import queries
from app.data.comparison import methods_of
from storage import Store
from tests.app.frames import clients
from tests.app.pages import open_page, words

opened = partial(open_page, "compare", experiment="1")
TEN = clients(1000, a=[[i / 10 for i in range(10)]], b=[[i / 20 for i in range(10)]])


@pytest.mark.slow
def test_only_the_open_section_is_drawn_and_in_the_address_unless_it_is_the_first(read_store: Store) -> None:
    page = opened()
    bar = next(one for one in page.segmented_control if one.label == "Section")
    assert bar.value == "accuracy" and "section" not in page.query_params
    drawn = {
        "accuracy": ["dumbbell", "ecdf"],
        "clients": ["paired", "differences", "raster"],
        "cost": ["curves", "cost", "effort"],
        "settings": [],
    }
    for section, charts in drawn.items():
        bar.set_value(section).run()
        assert [chart.proto.id.rpartition("-")[2] for chart in page.get("plotly_chart")] == charts
        bar = next(one for one in page.segmented_control if one.label == "Section")
        if section == "cost":
            assert page.query_params["section"] in ("cost", ["cost"])
            assert "the cheapest" in page.header[0].value or "the lowest cost" in page.header[0].value


def test_a_method_that_broke_off_is_not_the_cheapest(read_store: Store) -> None:
    runs = queries.runs(with_partition=True)
    broken = [replace(run, status="diverged" if run.algorithm == "ditto" else run.status) for run in runs]
    costs = View(tuple(methods_of(broken))).with_costs()
    assert set(costs[costs["megabytes"].isna()]["method"]) == {"Ditto"}
    assert "Cost unknown, as runs diverged or did not record it: Ditto." in cost.finding(
        cost.data(costs, "megabytes"), "megabytes"
    )


@pytest.mark.slow
def test_clients_and_the_highlighted_method_stay_chosen_in_other_sections(read_store: Store) -> None:
    page = opened(client="3,99,x")
    assert "1 client chosen: 3" in words(page), "clients that the comparison lacks are ignored"
    page.multiselect(key="chosen_clients").set_value([7, 3]).run()
    assert page.query_params["client"] in ("3,7", ["3,7"])
    assert "2 clients chosen: 3 and 7" in words(page) and "dots: the chosen clients" in words(page)
    next(one for one in page.selectbox if one.label == "Highlight").set_value("Ditto").run()
    next(one for one in page.segmented_control if one.label == "Section").set_value("clients").run()
    assert "2 clients chosen: 3 and 7" in words(page) and "[Client 7 in " in words(page)
    assert next(one for one in page.selectbox if one.label == "Method A").value == "Ditto"
    page.button(key="clear_clients").click().run()
    assert "client" not in page.query_params and "chosen" not in words(page)


@pytest.mark.slow
def test_the_lowest_tenth_of_a_method_is_chosen_by_one_click(read_store: Store) -> None:
    page = opened(a="Ditto")
    view = View(tuple(methods_of(queries.runs(with_partition=True))))
    (lowest,) = chosen_clients.lowest(view, "Ditto")
    means = view.clients().query("method == 'Ditto'").groupby("client")["accuracy"].mean()
    assert means[lowest] == means.min()
    next(one for one in page.button if one.label == "Lowest 10 % under Ditto").click().run()
    assert page.query_params["client"] in (str(lowest), [str(lowest)])


def test_a_dumbbell_marks_chosen_clients_below_their_rows() -> None:
    chosen = TEN[TEN["client"].isin([0, 9])].assign(samples=1000)
    dots = dumbbell.figure(dumbbell.data(TEN, 0.05), clients=chosen).data[-1]
    assert sorted(zip(dots.y, dots.x, dots.text, strict=True)) == [
        (pytest.approx(0 + dumbbell.BELOW), 0, "0"),
        (pytest.approx(0 + dumbbell.BELOW), 90, "9"),
        (pytest.approx(1 + dumbbell.BELOW), 0, "0"),
        (pytest.approx(1 + dumbbell.BELOW), 45, "9"),
    ]


def test_in_the_ecdf_two_methods_are_highlighted_and_all_curves_are_labeled() -> None:
    three = clients(1000, a=[[0.7, 0.8, 0.9]], b=[[0.2, 0.3, 0.4]], c=[[0.45, 0.5, 0.6]])
    fig = ecdf.figure(ecdf.data(three), method="a", baseline="b", chosen=(0,))
    color = {trace.name: trace.line.color for trace in fig.data if trace.name}
    assert color["b"] == theme().ink and color["c"] == theme().muted and color["a"] not in color["b"] + color["c"]
    assert {"<b>a</b>", "<b>b</b>", "c"} <= {note.text for note in fig.layout.annotations}
    assert not fig.layout.showlegend
    marks = [trace for trace in fig.data if not trace.name]
    assert sorted(float(trace.x[0]) for trace in marks) == pytest.approx([20, 70])
    assert fig.layout.dragmode == "select"


def test_the_ecdf_says_which_curves_have_no_label() -> None:
    near = {f"m{i}": [[0.5 + i / 1000, 0.55 + i / 1000, 0.6 + i / 1000]] for i in range(8)}
    fig = ecdf.figure(ecdf.data(clients(1000, a=[[0.7, 0.8, 0.9]], **near)), method="a")
    notes = [str(note.text) for note in fig.layout.annotations]
    (above,) = [text for text in notes if text.startswith("without a label: ")]
    assert any(f"m{i}" in above for i in range(8))
    assert all(f"m{i}" in notes or f"m{i}" in above for i in range(4)) or "more" in above


def test_the_ecdf_ends_where_its_curves_do() -> None:
    two = ecdf.data(clients(1000, a=[[0.7, 0.8, 0.9]], b=[[0.0, 0.3, 0.4]]))
    low, high = ecdf.figure(two, drawn=["a"]).layout.xaxis.range
    assert 65 < low < 70 and 90 < high < 95


def test_names_of_curves_do_not_cover_one_another() -> None:
    fig, steps = go.Figure(), np.linspace(0, 100, 11)
    curves = [Curve(f"method {i}", steps * 0.1 + 40 + i, steps, "#000000") for i in range(4)]
    name_curves(fig, curves, (0.0, 100.0), (0.0, 100.0))
    heights = sorted(note.y for note in fig.layout.annotations if note.xanchor == "left")
    assert len(fig.layout.annotations) == 4 and all(np.diff(heights) > 4)


def test_names_of_curves_do_not_cover_a_text_at_the_right_edge() -> None:
    steps, curve = np.linspace(0, 100, 11), np.array([90.0] * 11)
    name_curves(fig := go.Figure(), [Curve("a", curve, steps, "#000000")], (0.0, 100.0), (0.0, 100.0))
    name_curves(
        beside := go.Figure(), [Curve("a", curve, steps, "#000000")], (0.0, 100.0), (0.0, 100.0), [("x" * 9, 47.4)]
    )
    (free,), (moved,) = fig.layout.annotations, beside.layout.annotations
    assert free.y == pytest.approx(50, abs=2) and abs(moved.y - 50) > 5


def test_a_gray_curve_between_others_is_not_named() -> None:
    steps = np.linspace(0, 100, 11)
    near = [Curve(f"method {i}", steps * 0.05 + 40 + i, steps, "#808080") for i in range(30)]
    apart = Curve("apart", steps * 0.05 + 5, steps, "#808080")
    bold = Curve("bold", steps * 0.05 + 55, steps, "#000000", is_bold=True)
    left_out = name_curves(fig := go.Figure(), [bold, apart, *near[10:20]], (0.0, 100.0), (0.0, 100.0))
    named = [note.text for note in fig.layout.annotations]
    assert {"bold", "apart", *(curve.name for curve in near[10:20])} == {*left_out, "bold", *named[1:]}
    assert named[:2] == ["<b>bold</b>", "apart"] and not {f"method {i}" for i in range(12, 18)} & set(named)


def test_in_scatter_and_bars_clients_that_are_not_chosen_fade() -> None:
    pairs = differences.data(TEN, "a", "b")
    better = paired.figure(pairs, "a", "b", TEN, (3, 7)).data[1]
    faded = {int(row[1]): opacity for row, opacity in zip(better.customdata, better.marker.opacity, strict=True)}
    assert faded == {client: 1 if client in (3, 7) else paired.FADED for client in range(1, 10)}
    bars = differences.figure(pairs, "a", "b", TEN, (3, 7)).data[0]
    lit = {int(row[0]) for row, opacity in zip(bars.customdata, bars.marker.opacity, strict=True) if opacity == 1}
    assert lit == {3, 7}
    assert set(paired.figure(pairs, "a", "b", TEN).data[1].marker.opacity) == {1}


def test_a_stacked_marker_names_all_of_its_clients() -> None:
    pairs = differences.data(clients(1000, a=[[0.9, 0.9, 0.5]], b=[[0.8, 0.8, 0.5]]), "a", "b")
    better = paired.figure(pairs, "a", "b", TEN, (1,)).data[1]
    assert [row[2] for row in better.customdata] == ["0,1"] and better.marker.opacity == (1,)


def test_in_the_cluster_raster_rows_that_are_not_chosen_are_faded() -> None:
    cells = cluster_raster.data(np.array([0, 1]), np.array([[0, 0, 1, 1]] * 2))
    plain, chosen = cluster_raster.figure(cells), cluster_raster.figure(cells, chosen=(1,))
    veils = [(shape.y0, shape.y1) for shape in chosen.layout.shapes[len(plain.layout.shapes) :]]
    row = int(cells.loc[cells["client"] == 1, "row"].iloc[0])
    assert sum(end - begin for begin, end in veils) == 3
    assert not any(begin < row < end for begin, end in veils)


def test_a_histogram_marks_chosen_clients_on_the_baselines() -> None:
    chosen = TEN[TEN["client"] == 9].assign(samples=1000)
    marks = histogram.figure(histogram.data(TEN), clients=chosen).data[-1]
    assert list(marks.x) == [90, 45] and list(marks.y) == [0, -1]
