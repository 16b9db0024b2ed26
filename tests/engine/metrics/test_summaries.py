"""Summaries over clients, with known values."""

import numpy as np
import pytest

from engine.core.registry import METRICS
from engine.metrics import summarize_clients


def test_summaries_over_clients_have_known_values():
    values, weights = np.array([0.2, 0.4, np.nan, 0.9]), np.array([1, 1, 0, 2])
    found = summarize_clients(values, weights)
    assert found == pytest.approx(
        {"mean": 0.5, "weighted_mean": 0.6, "lowest5": 0.2, "top5": 0.9, "std": 0.294392, "cv": 0.588784}, rel=1e-5
    )
    assert set(found) == set(METRICS.names())


def test_tails_are_means_of_five_percent_of_the_clients():
    found = summarize_clients(np.arange(40) / 100, np.ones(40))
    assert found["lowest5"] == pytest.approx(0.005) and found["top5"] == pytest.approx(0.385)
