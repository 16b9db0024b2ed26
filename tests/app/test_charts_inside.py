"""The charts of one run, on numbers that can be checked by hand, each drawn once."""

import numpy as np
import pandas as pd
import pytest

from app.charts import client_curve, client_data, client_heat_map, confusion, profile, round_parts, split
from app.data.thinning import evenly

ROUNDS = np.array([0, 10, 20])
ACCURACY = np.array([[0.1, 0.2, np.nan], [0.5, 0.4, np.nan], [0.7, 0.9, np.nan]], dtype=np.float32)
PARTITION = {
    "train_sizes": [6, 3],
    "val_sizes": [0, 0],
    "test_sizes": [2, 1],
    "class_counts": [[4, 4, 0], [0, 1, 3]],
    "class_names": ["cat", "dog", "eel"],
}
MATRIX = np.array([[5, 1, 0, 0], [2, 6, 0, 0], [0, 0, 0, 0], [0, 3, 0, 0]], dtype=np.int32)


def test_map_rows_are_sorted_by_final_accuracy_without_untested_clients() -> None:
    cells = client_heat_map.data(ROUNDS, ACCURACY)
    assert cells.drop_duplicates("row")["client"].tolist() == [0, 1]
    own = cells[cells["client"] == 1]
    assert own["row"].unique().tolist() == [1]
    assert own["round"].tolist() == [0, 10, 20]
    assert own["accuracy"].tolist() == pytest.approx([0.2, 0.4, 0.9])


def test_a_client_whose_last_accuracy_is_not_finite_is_in_the_lowest_row() -> None:
    accuracy = np.array([[0.9, 0.1], [np.nan, 0.2]])
    assert client_heat_map.data(np.array([0, 1]), accuracy).drop_duplicates("row")["client"].tolist() == [0, 1]


def test_the_map_has_at_most_200_clients_and_300_rounds() -> None:
    final = np.arange(500) / 500
    accuracy = np.linspace(0, 1, 700)[:, None] * final[None, :]
    cells = client_heat_map.data(np.arange(700), accuracy)
    assert cells["client"].nunique() == 200 and cells["round"].nunique() == 300
    assert {0, 499} <= set(cells["client"]) and {0, 699} <= set(cells["round"])
    dropped = next(i for i in range(500) if i not in set(cells["client"]))
    shown = client_heat_map.data(np.arange(700), accuracy, keep=dropped)
    assert shown["client"].nunique() == 201 and dropped in set(shown["client"])
    assert shown.drop_duplicates("row")["client"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        ([0.9, 0.9, 0.9, 0.5], "Client 3 falls behind: 50.00 % against a mean of 80.00 % over 4 clients."),
        (
            [0.5, 0.9, 0.9, 0.4, np.nan],
            "2 of 4 clients fall behind, more than 5 points below the mean; lowest is client 3: 40.00 % against a mean "
            "of 67.50 %.",
        ),
        (
            [0.90, 0.92],
            "No client falls far behind; the lowest is client 0: 90.00 % against a mean of 91.00 % over 2 clients.",
        ),
        ([np.nan], "No client has a finite accuracy in this round."),
    ],
)
def test_the_finding_names_clients_that_fall_behind(accuracy: list[float], expected: str) -> None:
    assert client_heat_map.finding(np.array(accuracy)) == expected


def test_the_map_marks_the_round_and_frames_the_client() -> None:
    fig = client_heat_map.figure(client_heat_map.data(ROUNDS, ACCURACY), at=10, client=1)
    assert fig.data[0].zmin == 10 and fig.data[0].zmax == 90
    assert np.asarray(fig.data[0].z)[1].tolist() == pytest.approx([20, 40, 90])
    at, name = (a.text for a in fig.layout.annotations)
    assert at == "round 10" and name.startswith("<b>1: 90")
    assert 1 not in fig.layout.yaxis.tickvals
    frame = fig.layout.shapes[-1]
    assert (frame.y0, frame.y1) == (0.5, 1.5)


def test_colors_range_over_the_values_and_say_where_they_end() -> None:
    accuracy = np.full((50, 2), 0.93)
    accuracy[0] = 0.1  # before training
    accuracy[1:, 1] = 0.71
    scale = client_heat_map.figure(client_heat_map.data(np.arange(50), accuracy), at=10).data[0]
    assert (scale.zmin, scale.zmax) == (70, 95)
    assert list(scale.colorbar.ticktext) == ["≤ 70", "82.5", "95"]


def test_the_lowest_rows_are_named_with_their_accuracy() -> None:
    names = client_heat_map.row_names(np.array([7, 4, 1, 0, 2]), np.array([0.5, 0.6, 0.7, 0.8, 0.9]), np.full(5, 10))
    assert names == {0: "7: 50 %", 1: "4: 60 %", 2: "1: 70 %", 3: "0", 4: "2"}
    many = client_heat_map.row_names(np.arange(100), np.linspace(0, 1, 100), np.full(100, 10))
    assert list(many)[:5] == [0, 1, 2, 5, 8] and len(many) < 40


def test_cells_of_a_small_map_are_clickable_and_name_the_client() -> None:
    marks = client_heat_map.figure(client_heat_map.data(ROUNDS, ACCURACY), at=10).data[1]
    assert list(marks.x) == [0, 10, 20, 0, 10, 20] and list(marks.y) == [0, 0, 0, 1, 1, 1]
    assert list(marks.customdata) == [0, 0, 0, 1, 1, 1]
    few = client_heat_map.figure(client_heat_map.data(ROUNDS, ACCURACY, samples=[22, 22]), at=10).data[1]
    assert all("." not in text for text in few.text) and all(text.endswith(".00 %") for text in marks.text)


def test_decimals_of_the_lowest_client_depend_on_its_samples() -> None:
    expected = client_heat_map.finding(np.array([20 / 22, 21 / 22, 1.0]), [22, 22, 400])
    assert expected.startswith("No client falls far behind; the lowest is client 0: 91 % against a mean of 95.5 %")


def test_every_row_of_a_large_map_has_a_bounded_number_of_marks() -> None:
    accuracy = np.tile(np.linspace(0, 1, 300)[:, None], (1, 200))
    marks = client_heat_map.figure(client_heat_map.data(np.arange(300), accuracy), at=5).data[1]
    assert len(marks.x) <= client_heat_map.MAX_MARKS and set(marks.y) == set(range(200))


def line(name: str, *, is_own: bool = True, is_global: bool = False) -> client_curve.Line:
    return client_curve.Line(name, "ditto", is_own, is_global, ROUNDS, ACCURACY)


def test_a_clients_curve_has_its_accuracies() -> None:
    table = client_curve.data([line("Ditto, personalized"), line("Ditto, global", is_global=True)], client=1)
    own = table[table["line"] == "Ditto, global"]
    assert own["accuracy"].tolist() == pytest.approx([0.2, 0.4, 0.9]) and own["is_global"].all()
    assert table["line"].unique().tolist() == ["Ditto, personalized", "Ditto, global"]


def test_the_global_line_is_dashed_and_other_methods_are_thin() -> None:
    lines = [line("own"), line("all", is_global=True), line("other", is_own=False)]
    fig = client_curve.figure(client_curve.data(lines, client=0), at=10)
    assert [trace.line.dash for trace in fig.data][:2] == ["solid", "dash"]
    assert fig.data[2].line.width < fig.data[0].line.width
    assert [a.text for a in fig.layout.annotations if a.text] == ["own", "all", "other"]


def test_the_axis_may_cut_off_the_untrained_round() -> None:
    fig = client_curve.figure(client_curve.data([line("own")], client=1), at=20)
    low, high = fig.layout.yaxis.range
    assert 20 < low < 40 and 90 < high <= 102


def test_a_clients_classes_are_shown_as_shares_next_to_all_clients() -> None:
    table = client_data.data(PARTITION, 0)
    assert table["class"].tolist() == ["cat", "dog", "eel"]
    assert table["share"].tolist() == [0.5, 0.5, 0] and table["samples"].tolist() == [4, 4, 0]
    assert table["everybody"].tolist() == pytest.approx([4 / 12, 5 / 12, 3 / 12])
    assert client_data.finding(PARTITION, 0) == (
        "6 training and 2 test samples of 2 of 3 classes; mostly cat and dog (50 % each)."
    )
    assert client_data.finding(PARTITION, 1).endswith("mostly eel (75 %, 25 % among all clients).")
    validated = PARTITION | {"train_sizes": [5, 3], "val_sizes": [1, 0]}
    assert client_data.finding(validated, 0).startswith("5 training, 1 validation and 2 test samples of 2 of 3 classes")


def test_with_many_classes_the_clients_largest_are_shown() -> None:
    counts = np.ones((2, 100), dtype=int)
    counts[0, 99] = 50
    table = client_data.data({"class_counts": counts.tolist()}, 0)
    assert len(table) == client_data.MAX_CLASSES and table["class"].iloc[-1] == "99"
    assert len(client_data.figure(table).data) == 2


def test_confusion_has_row_shares_of_occurring_classes() -> None:
    table = confusion.data(MATRIX, ["cat", "dog", "eel", "fox"])
    assert table["true"].drop_duplicates().tolist() == ["cat", "dog", "fox"]
    shares = table.pivot(index="true", columns="predicted", values="share")
    assert shares.loc["dog", "cat"] == pytest.approx(0.25) and shares.loc["fox", "dog"] == 1
    assert table["samples"].sum() == MATRIX.sum()


def test_confusion_names_the_most_frequent_mistake() -> None:
    assert confusion.finding(MATRIX, ["cat", "dog", "eel", "fox"]) == (
        "11 of 17 correct; most often fox is predicted as dog: 3 of 3."
    )
    assert confusion.finding(np.diag([3, 4])) == "7 of 7 correct."
    assert confusion.finding(np.zeros((2, 2), int)) == "No test samples."


def test_confusion_has_true_classes_in_rows_and_a_framed_diagonal() -> None:
    fig = confusion.figure(confusion.data(MATRIX, ["cat", "dog", "eel", "fox"]))
    assert list(fig.data[0].y) == ["cat", "dog", "fox"] and fig.layout.yaxis.autorange == "reversed"
    assert np.asarray(fig.data[0].customdata).tolist() == [
        ["5 samples", "1 sample", "0 samples"],
        ["2 samples", "6 samples", "0 samples"],
        ["0 samples", "3 samples", "0 samples"],
    ]
    assert len(fig.layout.shapes) == 3
    assert sorted(a.text for a in fig.layout.annotations) == ["1", "2", "3", "5", "6"]


def costs(num_rounds: int) -> pd.DataFrame:
    values = {"seconds": 0.5, "bytes_up": 1e6, "bytes_down": 2e6, "gradient_evaluations": 100.0}
    return pd.DataFrame(
        [
            {"round": at, "name": name, "value": value if at else 0.0}
            for at in range(num_rounds + 1)
            for name, value in values.items()
        ]
    )


def test_costs_are_per_round_without_the_untrained_one() -> None:
    table = profile.data(costs(3))
    assert table["round"].tolist() == [1, 2, 3]
    assert table["megabytes"].tolist() == [3, 3, 3] and table["seconds"].tolist() == [0.5, 0.5, 0.5]
    assert profile.finding(costs(3)) == "3 rounds: 1.5 s of training, 0.5 s each; 9 MB sent; 300 gradient evaluations."
    assert profile.finding(costs(0)) == "No round has been trained yet."


def test_many_rounds_are_aggregated_without_loss() -> None:
    table = profile.data(costs(900))
    assert len(table) == profile.MAX_POINTS and table["round"].iloc[-1] == 900
    assert table["seconds"].mean() == pytest.approx(0.5)
    assert len(profile.figure(table, "seconds").data[0].y) == profile.MAX_POINTS


def test_the_parts_of_a_round_are_stacked_and_the_largest_is_named() -> None:
    parts = round_parts.data([1, 2], {"batches": np.array([0.1, 0.1]), "local training": np.array([0.7, 0.9])})
    assert parts[parts["part"] == "local training"]["seconds"].tolist() == [0.7, 0.9]
    assert round_parts.finding(parts) == "Local training takes 89 % of a round of 0.9 s, batches 11 %."
    fig = round_parts.figure(parts)
    assert fig.layout.barmode == "stack" and len({trace.marker.pattern.shape for trace in fig.data}) == 2


def test_evenly_spaced_samples_include_both_ends() -> None:
    assert evenly(5, 3).tolist() == [0, 2, 4]
    assert evenly(3, 9).tolist() == [0, 1, 2]
    assert evenly(0, 9).tolist() == []


def test_a_count_of_one_uses_the_singular() -> None:
    one = split.data(
        {
            "train_sizes": [3, 3, 3],
            "val_sizes": [0] * 3,
            "test_sizes": [1] * 3,
            "contexts": [0, 0, 0],
            "class_counts": [[4]] * 3,
            "class_names": ["a"],
        }
    )
    assert split.sentence(one) == "3 clients with 4 samples and 1 of 1 class each, in 1 true context."
