"""Line styles of several runs, and the space for their names."""

import plotly.graph_objects as go

from app.charts import latest_clients, training_curve
from app.charts.plot.line_labels import End, label_ends
from tests.app.frames import run_record


def test_seeds_of_a_method_share_a_style_and_its_settings_do_not() -> None:
    runs = [run_record(1, "cgpfl K=4"), run_record(2, "cgpfl K=4", seed=1), run_record(3, "cgpfl K=10")]
    curves = training_curve.figure(training_curve.data(runs, {}), runs, "spread").data
    steps = latest_clients.figure(latest_clients.data(runs, {}), runs).data
    for first, again, other in (curves, steps):
        assert first.line.color == again.line.color != other.line.color
    assert steps[0].line.dash == steps[1].line.dash != steps[2].line.dash


def test_equal_methods_of_several_experiments_do_not_share_a_color() -> None:
    runs = [run_record(i, "fedavg", experiment_id=i, experiment_name=f"experiment {i}") for i in (1, 2)]
    for fig in (
        training_curve.figure(training_curve.data(runs, {}), runs, "spread"),
        latest_clients.figure(latest_clients.data(runs, {}), runs),
    ):
        first, other = fig.data
        assert first.line.color != other.line.color
        assert first.name.startswith("FedAvg · experiment 1, seed 0")


def test_larger_letters_get_more_space_at_the_right() -> None:
    small, large = go.Figure(layout_font_size=13), go.Figure(layout_font_size=26)
    for fig in (small, large):
        label_ends(fig, [End("ten letters", 1.0, 0.5, "black")], 0.0, 1.0)
    assert (small.layout.margin.r, large.layout.margin.r) == (16 + 77, 16 + 154)


def test_a_line_leads_from_the_end_of_a_curve_to_a_name_that_was_moved() -> None:
    near = [End("a", 40.0, 94.0, "red"), End("b", 40.0, 93.0, "blue"), End("c", 40.0, 50.0, "green")]
    label_ends(fig := go.Figure(), near, 0.0, 100.0)
    names = {note.text: note for note in fig.layout.annotations if note.text}
    lines = {note.arrowcolor: note for note in fig.layout.annotations if note.showarrow}
    assert set(names) == {"a", "b", "c"} and set(lines) == {"red", "blue"}
    for one, end in (("a", near[0]), ("b", near[1])):
        leads = lines[end.color]
        assert (leads.x, leads.y) == (40.0, end.y)
        assert leads.ay == names[one].y != end.y and leads.ax == names[one].xshift
    assert names["c"].y == 50.0 and names["c"].xshift == names["a"].xshift
    label_ends(apart := go.Figure(), near[1:], 0.0, 100.0)
    assert not any(note.showarrow for note in apart.layout.annotations)
