"""Newcomers in an export, and exports with invalid newcomers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import run as run_experiment
from engine.core.errors import InvalidConfig
from engine.export.reading import read_export
from tests.support.settings import HOLDOUT


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(run_experiment(HOLDOUT).to_json())


def test_the_original_client_ids_are_in_the_partition(document: dict[str, Any]):
    unseen = document["runs"][0]["partition"]["unseen"]
    assert len(unseen["clients"]) == len(unseen["test_sizes"]) == 3
    assert unseen["contexts"] == unseen["clients"]  # ten clients, cyclic: one context per client
    assert len(document["runs"][0]["partition"]["test_sizes"]) == 7


def test_an_export_has_newcomers_in_the_last_round_and_the_summary(document: dict[str, Any]):
    for run in document["runs"]:
        first, *_, last = run["rounds"]
        assert "unseen" not in first
        assert len(last["unseen"]["accuracy"]) == len(last["unseen"]["loss"]) == 3
        assert run["summary"]["unseen"]["mean"] == pytest.approx(np.mean(last["unseen"]["accuracy"]))


def test_an_export_is_imported_with_its_newcomers(document: dict[str, Any], tmp_path: Path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document))
    for (_, result), run in zip(read_export(path)[0].runs, document["runs"], strict=True):
        assert result.rounds[-1].arrays["unseen.accuracy"].tolist() == run["rounds"][-1]["unseen"]["accuracy"]
        assert result.summary["unseen"] == run["summary"]["unseen"]
        assert result.partition["unseen"] == run["partition"]["unseen"]


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda run: run["partition"].pop("unseen"), "round 2: has unseen clients, but the partition has none"),
        (lambda run: run["rounds"][-1]["unseen"]["accuracy"].pop(), "unseen.accuracy has 2 values for 3 clients"),
        (lambda run: run["partition"]["unseen"]["test_sizes"].pop(), "every list must have one entry per client"),
        (lambda run: run["partition"]["unseen"].pop("clients"), "partition.unseen.clients: Field required"),
        (lambda run: run["partition"]["unseen"]["clients"].pop(), "clients: 2 indices for 3 clients"),
    ],
)
def test_an_export_with_inconsistent_newcomers_is_refused(document, tmp_path: Path, break_it, words: str):
    broken = json.loads(json.dumps(document))
    break_it(broken["runs"][0])
    path = tmp_path / "out.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(InvalidConfig, match=words):
        read_export(path)
