"""The figure of the partition."""

import numpy as np
import pytest

from app.charts import split
from app.data import pools
from engine.config.presets import load_preset
from engine.config.schema import parse_experiment

PARTITION = {
    "train_sizes": (6, 4),
    "val_sizes": (0, 0),
    "test_sizes": (2, 1),
    "class_counts": ((8, 0, 0), (1, 2, 2)),
    "contexts": None,
    "class_names": ("cat", "dog", "owl"),
    "notes": (),
}


def test_a_row_has_a_clients_sizes_and_classes():
    table = split.data(PARTITION)
    assert table.iloc[1].to_dict() == {
        "client": 1,
        "train": 4,
        "val": 0,
        "test": 1,
        "context": None,
        "class cat": 1,
        "class dog": 2,
        "class owl": 2,
    }


def test_the_caption_has_sizes_and_classes():
    assert split.sentence(split.data(PARTITION)) == "2 clients with 5 to 8 samples and 1 to 3 of 3 classes each."


def test_the_area_of_a_bubble_is_the_number_of_samples():
    bubbles = split.figure(split.data(PARTITION)).data[-1]
    assert bubbles.type == "scatter" and bubbles.marker.sizemode == "area"
    assert list(bubbles.marker.size) == [8, 1, 2, 2]
    assert list(bubbles.x) == [0, 1, 1, 1]


def test_bubbles_of_many_clients_do_not_overlap():
    def width(clients: int) -> float:
        one = {name: own[:1] * clients for name, own in PARTITION.items() if isinstance(own, tuple)}
        marker = split.figure(split.data(PARTITION | one | {"class_names": ("a", "b", "c")})).data[-1].marker
        return float(2 * max(marker.size) / marker.sizeref) ** 0.5

    assert width(10) == pytest.approx(17)
    assert width(40) == pytest.approx(split.NARROW / 40) and width(60) == pytest.approx(split.NARROW / 60)


def test_true_contexts_have_numbers_and_colors():
    table = split.data(PARTITION | {"contexts": (1, 0)})
    assert list(table["context"]) == [1, 0]
    four = split.data(
        {
            name: value * 2 if isinstance(value, tuple) and len(value) == 2 else value
            for name, value in PARTITION.items()
        }
        | {"contexts": (0, 1, 0, 1)}
    )
    figure = split.figure(four)
    bubbles = figure.data[-1]
    assert len(set(bubbles.marker.color)) == 2
    assert {about for _, about in bubbles.customdata} == {" · context 0", " · context 1"}
    assert figure.layout.xaxis2.title.text == "client, colored by true context"
    what, *key = figure.layout.annotations
    assert what.text == "true context" and [note.text for note in key] == ["● 0", "● 1"]
    assert {note.font.color for note in key} == set(bubbles.marker.color)


def test_contexts_of_which_each_client_has_its_own_are_not_named():
    own = split.data(PARTITION | {"contexts": (1, 0)})
    assert {about for _, about in split.figure(own).data[-1].customdata} == {""}
    assert "context" not in split.sentence(own)


def test_contexts_of_a_heat_map_are_not_said_to_be_colored():
    many = 2 * split.BUBBLES
    given = {name: tuple(value or ()) * (many // 2) for name, value in PARTITION.items() if name != "class_names"}
    figure = split.figure(split.data(given | {"contexts": tuple(i % 2 for i in range(many))}))
    assert figure.layout.xaxis2.title.text == "client" and not figure.layout.annotations


def test_many_clients_are_a_heat_map():
    n = split.BUBBLES + 1
    many = {
        "train_sizes": [1] * n,
        "val_sizes": [0] * n,
        "test_sizes": [0] * n,
        "class_counts": np.eye(n, 3, dtype=int),
    }
    assert split.figure(split.data(many)).data[-1].type == "heatmap"


def test_the_first_preset_says_how_many_training_images_a_client_has():
    preset = load_preset("digits-first")
    (run, *_) = [run for config in preset.configs("quick") for run in parse_experiment(config).runs()]
    (size,) = set(pools.split_of(run)["train_sizes"])
    assert f"each of {run.partition.options.num_clients} clients has only {size} training images" in preset.shows
