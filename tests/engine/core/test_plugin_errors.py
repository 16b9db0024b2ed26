"""Errors in plugins name the plugin; a metric of a plugin changes no other summary."""

import os
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import InvalidConfig, PluginBroken, plugin_line, unexpected
from engine.metrics import summarize_clients
from engine.simulation.preflight import check_runs
from engine.simulation.provenance import provenance_of
from engine.version import CODE_VERSION
from tests.support.builders import simulation
from tests.support.tiny_runs import tiny_config

METHOD = """
from engine.algorithms.fedavg import FedAvg, Hparams
from engine.core.registry import ALGORITHMS

@ALGORITHMS.register("mine", title="Mine", paper="Nobody, 2026")
class Mine(FedAvg):
    hparams: Hparams

    def {changed}
"""
METRIC = """
from engine.core.registry import METRICS

@METRICS.register("mine", title="Mine", paper="Nobody, 2026")
class Mine:
    def __call__(self, values, weights):
        {body}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))
    return tmp_path


def test_an_error_in_the_set_up_of_a_method_is_a_mistake_of_its_entry_with_file_and_line(folder: Path) -> None:
    (folder / "mine.py").write_text(METHOD.format(changed="init(self, task):\n        raise RuntimeError('boom')"))
    expected = rf"mine: unexpected error: RuntimeError: boom \(in {folder}/mine\.py, line 10\)"
    with pytest.raises(InvalidConfig, match=expected):
        check_runs([tiny_config(algorithms=["mine"])])


def test_an_error_outside_of_plugins_has_no_line(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    assert plugin_line(raised.value) == "" and unexpected(raised.value) == "ZeroDivisionError: division by zero"


def test_a_round_must_return_the_state_and_diagnostics(folder: Path) -> None:
    (folder / "mine.py").write_text(METHOD.format(changed="round(self, state, cohort, task):\n        return state"))
    with pytest.raises(PluginBroken, match="mine: round must return the state and Diagnostics, not State"):
        list(simulation("mine").rounds())


def test_a_metric_that_returns_no_number_is_named(folder: Path) -> None:
    (folder / "mine.py").write_text(METRIC.format(body="return None"))
    with pytest.raises(PluginBroken, match="metric mine must return a number, not None"):
        summarize_clients(np.array([0.5]), np.array([1.0]))


def test_a_metric_that_sorts_in_place_changes_no_other(folder: Path) -> None:
    values, weights = np.array([0.9, 0.1, 0.5]), np.array([1.0, 2.0, 30.0])
    before = summarize_clients(values, weights)
    (folder / "mine.py").write_text(METRIC.format(body="values.sort(); return values[0]"))
    after = summarize_clients(values, weights)
    assert after.pop("mine") == pytest.approx(0.1) and after == before


def test_the_recorded_code_changes_with_a_plugin(folder: Path) -> None:
    task = simulation("fedavg").task
    code = [provenance_of(task).code]
    for change in ("pass", "return (1)", "return (2)"):
        (folder / "mine.py").write_text(METHOD.format(changed=f"other(self):\n        {change}"))
        os.utime(folder / "mine.py", (1e9 + len(code), 1e9 + len(code)))
        code.append(provenance_of(task).code)
    assert len(set(code)) == 4 and all(one.startswith(f"{CODE_VERSION}+") for one in code)
