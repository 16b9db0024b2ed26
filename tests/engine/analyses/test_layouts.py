"""Computed findings have the layout that pages need, and other findings are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.analyses.support.layouts import check_findings, layout_of
from engine.core.errors import CheckpointInvalid
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from tests.support.tiny_runs import tiny_config, trained

PARTITION = {"test_sizes": [5, 5, 5, 5], "class_counts": [[5, 5, 5]] * 4}
SMALL: dict[str, dict[str, Any]] = {
    "landscape": {"points": 3},
    "plane": {"points": 3},
    "sharpness": {"steps": 1, "vectors": 2},
    "sharpness of clients": {"of": "clients", "steps": 1},
    "features": {"samples": 20, "perplexity": 2},
    "profile": {"rounds": 2},
}


@pytest.fixture(scope="module")
def subject() -> Any:
    return trained(tiny_config(algorithms=["ditto"]))[0]


def test_every_analysis_has_a_layout() -> None:
    assert [name for name in ANALYSES.names() if layout_of(name, {}) is None] == []
    assert layout_of("sharpness", {"of": "clients"}) != layout_of("sharpness", {})
    assert layout_of("astrology", {}) is None


@pytest.mark.parametrize("kind", [*ANALYSES.names(), "sharpness of clients"])
def test_computed_findings_fit_their_layout(subject: Any, kind: str) -> None:
    entry, params = ANALYSES.get(kind.partition(" ")[0]), SMALL.get(kind, {})
    found = entry.make(entry.options(**params)).compute(subject)
    summary = subject.task.data.summary
    partition = {"test_sizes": summary.test_sizes, "class_counts": summary.class_counts}
    check_findings(entry.name, params, Findings.from_bytes(found.to_bytes()), partition)


def good() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {
        "x": np.arange(3.0),
        "y": np.arange(2.0),
        "own": np.ones((2, 3)),
        "everyone": np.ones((2, 3)),
        "places": np.zeros((3, 2)),
    }
    losses = {"global": 1.0, "personalized": 2.0, "alone": None}
    return arrays, {"models": list(losses), "losses": {"own": losses, "everyone": losses}}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("own", np.ones((3, 2)), "own has shape"),
        ("own", np.ones(6), "must be numbers"),
        ("own", None, "own is missing"),
        ("places", np.zeros((4, 2)), "places has shape"),
        ("x", np.zeros(0), "must be numbers"),
        ("models", ["global"], "models"),
        ("models", ["global", "alone", "evil"], "models.2"),
        ("losses", {"own": {}}, "is missing in its values"),
        ("losses", [1], "losses"),
    ],
)
def test_findings_that_a_page_cannot_draw_are_refused(name: str, value: Any, words: str) -> None:
    arrays, values = good()
    check_findings("plane", {}, Findings(arrays, values), PARTITION)
    (arrays if name in arrays else values)[name] = value
    found = Findings({n: a for n, a in arrays.items() if a is not None}, values)
    with pytest.raises(CheckpointInvalid, match=words):
        check_findings("plane", {}, found, PARTITION)


def test_the_numbers_of_clients_and_classes_match_the_run() -> None:
    check_findings("trade_off", {}, Findings({"own": np.ones(4), "others": np.ones(4)}), PARTITION)
    with pytest.raises(CheckpointInvalid, match="own has shape"):
        check_findings("trade_off", {}, Findings({"own": np.ones(5), "others": np.ones(5)}), PARTITION)
    with pytest.raises(CheckpointInvalid, match="personalized has shape"):
        check_findings("confusion", {}, Findings({"personalized": np.ones((4, 2, 2))}), PARTITION)


PLUGIN = """
from dataclasses import dataclass

from engine.analyses import AnalysisOptions
from engine.analyses.support.layouts import Layout, Values
from engine.core.registry import ANALYSES

class Largest(Values):
    largest: int

@ANALYSES.register("mine", title="Mine", paper="Nobody, 2026")
@dataclass
class Mine:
    options: AnalysisOptions
    compute = None

    @staticmethod
    def layout(params):
        return Layout({"distance": f"N {params.get('of', 2)}"}, values=Largest)
"""


def test_a_plugin_analysis_has_its_declared_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = np.ones((4, 2)), np.ones((3, 2))
    check_findings("mine", {}, Findings({"distance": wrong}), PARTITION)  # not registered yet
    (tmp_path / "mine.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    check_findings("mine", {}, Findings({"distance": right}, {"largest": 1}), PARTITION)
    for params, array, value, words in (
        ({}, wrong, 1, "distance has shape"),
        ({"of": 3}, right, 1, "distance has shape"),
        ({}, right, "1", "largest"),
    ):
        with pytest.raises(CheckpointInvalid, match=f"not a result of mine: {words}"):
            check_findings("mine", params, Findings({"distance": array}, {"largest": value}), PARTITION)
