"""Seeds that are trained together on a GPU get what each gets alone on the CPU, in double precision."""

from typing import Any

import pytest

from benchmarks import seeds as benchmark
from engine.core.registry import ALGORITHMS
from tests.support.seeds import alone, assert_same_runs, at_once

pytestmark = pytest.mark.slow

MODEL = {"name": "dnn", "hidden": 4}
CASES = [
    ("cpu", "fedavg", False),
    *(
        pytest.param("cuda", name, cuda_graphs, marks=pytest.mark.gpu)
        for cuda_graphs in (False, True)
        for name in ALGORITHMS.names()
    ),
]


@pytest.mark.parametrize(("device", "name", "cuda_graphs"), CASES)
def test_seeds_that_are_trained_together_equal_each_alone(device: str, name: str, cuda_graphs: bool) -> None:
    changed: dict[str, Any] = {"model": MODEL, "participation": 0.5, "local_epochs": 2}
    found = at_once(name, device=device, cuda_graphs=cuda_graphs, **changed)
    assert_same_runs(alone(name, **changed), found, tolerance=1e-7)


def test_the_benchmark_has_a_row_for_each_model_method_and_cohort(
    device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [
        "--clients",
        "2",
        "--samples",
        "4",
        "--seeds",
        "2",
        "--rounds",
        "1",
        "--repeats",
        "1",
        "--cohorts",
        "1",
        "2",
    ]
    benchmark.main(
        ["--device", device, "--models", "mlr", "--methods", "fedavg", "scaffold", "--cohorts", "1", "2", *sizes]
    )
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| mlr")]
    assert [row[1:3] for row in rows] == [["fedavg", "1"], ["fedavg", "2"], ["scaffold", "1"], ["scaffold", "2"]]
    assert all(float(cell.rstrip(" |")) > 0 for row in rows for cell in row[3:])
