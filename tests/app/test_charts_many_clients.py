"""Figures of per-client values draw quantiles beyond 2,000 clients."""

import numpy as np
import pandas as pd
import pytest

from app.charts import differences, paired, sharpness, split
from app.data.thinning import MAX_MARKS, NUM_QUANTILES, quantiles
from app.wording import kicker

METHODS = pd.DataFrame({"method": ["a", "b"], "algorithm": ["fedavg", "ditto"]})


def pairs_of(count: int) -> pd.DataFrame:
    """Client i is i / count better with a."""
    clients = pd.DataFrame(
        {
            "method": ["a"] * count + ["b"] * count,
            "split": 0,
            "seed": 0,
            "client": [*range(count)] * 2,
            "accuracy": np.concatenate([0.5 + 0.4 * np.arange(count) / count, np.full(count, 0.5)]),
            "test_size": 1000,
        }
    )
    return differences.data(clients, "a", "b")


def test_up_to_2000_clients_are_all_drawn_and_of_more_201_quantiles_with_both_ends() -> None:
    assert quantiles(MAX_MARKS).tolist() == list(range(MAX_MARKS))
    ranks = quantiles(10_001)
    assert len(ranks) == NUM_QUANTILES and ranks.tolist() == list(range(0, 10_001, 50))


@pytest.mark.parametrize(("count", "drawn"), [(2000, 2000), (5000, NUM_QUANTILES)])
def test_differences_are_drawn_as_quantiles(count: int, drawn: int) -> None:
    pairs = pairs_of(count)
    fig = differences.figure(pairs, "a", "b", METHODS, chosen=[7])
    bars, marks = fig.data
    assert len(bars.x) == drawn and bars.y[0] == pytest.approx(100 * pairs["difference"].max())
    assert list(marks.x) == [count - 7]  # the chosen client, whether or not it is a quantile
    assert any("better with a" in note.text and str(count - 1) in note.text for note in fig.layout.annotations)
    assert ("201 quantiles of 5\u2009000 clients" in fig.layout.xaxis.title.text) == (count == 5000)


@pytest.mark.parametrize(("count", "drawn"), [(2000, 2000), (5000, NUM_QUANTILES + 1)])
def test_pairs_are_drawn_as_quantiles_and_the_chosen_clients(count: int, drawn: int) -> None:
    fig = paired.figure(pairs_of(count), "a", "b", METHODS, chosen=[7])
    assert sum(len(trace.x) for trace in fig.data if trace.mode == "markers") == drawn
    assert ("quantiles" in fig.layout.xaxis.title.text) == (count == 5000)


def test_sharpness_is_drawn_as_quantiles_and_the_chosen_client() -> None:
    values = np.arange(1.0, 4001.0)
    df = sharpness.data(values, values, values, values / 4001)
    fig = sharpness.figure(df, client=7)
    points, ring = fig.data
    assert len(points.x) == NUM_QUANTILES and list(ring.x) == [8]
    assert "201 quantiles of 4\u2009000 clients" in fig.layout.yaxis.title.text


def test_a_split_is_drawn_as_quantiles_by_size() -> None:
    sizes = np.arange(1, 3001)
    zeros = np.zeros(3000, int)
    counts = np.stack([sizes, zeros], axis=1)
    table = split.data({"class_counts": counts, "train_sizes": sizes, "val_sizes": zeros, "test_sizes": zeros})
    bars, cells = split.figure(table).data
    assert bars.marker.line.width == 1  # the fill of test data is faint
    assert len(bars.x) == NUM_QUANTILES and list(bars.y) == sorted(bars.y) and bars.y[-1] == 3000
    assert np.asarray(cells.z).shape == (2, NUM_QUANTILES) and cells.customdata[0][-1] == 2999


def test_pages_say_how_many_clients_are_evaluated() -> None:
    config = {"dataset": "digits", "partition": {"name": "iid", "num_clients": 50}, "evaluation": {"clients": 10}}
    assert "50 CLIENTS · 10 EVALUATED · IID" in kicker(config)
    assert "EVALUATED" not in kicker(config | {"evaluation": {"clients": 50}})
    assert "EVALUATED" not in kicker(config | {"evaluation": {"every": 1}})
