"""The figures of the Learn page."""

import numpy as np
import pytest

from app.stories.figures import client_plane, lambda_dial
from app.stories.lambda_curves import Curve, Example

SMALL = Example(
    command="python -m benchmarks.lambda_dial",
    curves=(
        Curve(0.0, (0.1, 1.0), (2.0, 1.0), alone=4.0, together=0.5, adaptive_lam=1.0, adaptive=1.0),
        Curve(2.0, (0.1, 1.0), (2.0, 3.0), alone=4.0, together=5.0, adaptive_lam=0.2, adaptive=2.1),
    ),
    center=np.array([1.0, 0.0, 0.0]),
    directions=np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, -0.5]]),
)


def test_a_curve_has_both_ends_the_best_and_the_adaptive_lambda() -> None:
    df = lambda_dial.data(SMALL)
    two = df[df["R"] == 2.0].set_index("mark")["error"]
    assert two.drop("").to_dict() == {"alone": 4.0, "best": 2.0, "together": 5.0, "adaptive": 2.1}
    assert df[(df["R"] == 0.0) & (df["mark"] == "best")]["lam"].item() == 1.0


def test_zero_and_infinity_lie_outside_the_curve() -> None:
    df = lambda_dial.data(SMALL)
    inner = df[df["lam"].between(0.01, 10)]["x"]
    assert lambda_dial.place(0.0) < inner.min() < inner.max() < lambda_dial.place(None)


def test_the_run_is_a_dot_with_a_line_from_its_start() -> None:
    moves = lambda_dial.moving(0.1, [9.0, 3.0, 4.0], [(None, 5.0)])
    assert moves["your run"] == {"x": [0.1], "y": [4.0]}
    assert moves["way"]["y"] == [9.0, 4.0]
    assert moves["earlier runs"] == {"x": [lambda_dial.TOGETHER_X], "y": [5.0]}


def test_everything_animated_has_a_trace() -> None:
    dial = lambda_dial.figure(lambda_dial.data(SMALL), 2.0)
    df = client_plane.data(SMALL, 2.0, np.zeros((4, 3)))
    plane = client_plane.figure(df)
    assert set(lambda_dial.moving(0.1, [1.0], [])) <= {trace.name for trace in dial.data}
    assert set(client_plane.moving(df, None)) <= {trace.name for trace in plane.data}


def test_the_axis_of_the_dial_names_the_squared_distance_in_words_that_fit_a_slide() -> None:
    dial = lambda_dial.figure(lambda_dial.data(SMALL), 2.0)
    assert dial.layout.yaxis.title.text == "squared distance"


def test_true_models_have_no_error_and_no_distance() -> None:
    df = client_plane.data(SMALL, 2.0, SMALL.truth(2.0))
    assert df["error"].tolist() == [0.0] * 4
    assert df["model_x"].tolist() == pytest.approx(df["truth_x"].tolist())


def test_the_plane_preserves_distances_of_true_models_in_it() -> None:
    df = client_plane.data(SMALL, 2.0, SMALL.truth(2.0))
    assert np.hypot(df["truth_x"], df["truth_y"]).tolist() == pytest.approx([2.0, 2.0, 1.0, 1.0])


def test_a_line_connects_each_model_with_its_true_model() -> None:
    df = client_plane.data(SMALL, 0.0, np.zeros((4, 3)))
    pairs = client_plane.moving(df, np.zeros(2))["pairs"]
    assert len(pairs["x"]) == 12 and pairs["x"][2::3] == [None] * 4
