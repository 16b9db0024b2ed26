"""The table of benchmarks/gpu.py, with tiny sizes where there is no GPU."""

import re

import pytest

from benchmarks import gpu

pytestmark = pytest.mark.slow

TINY = ("--clients", "2", "--cohorts", "2", "--samples", "4", "--repeats", "2")
NUMBERS = re.compile(
    r"(\d+\.\d) \| \d+\.\d\d \| (–|\d+\.\d\d GB) \| (\d+\.\d) % \| "
    r"(– \| –|\d+\.\d \| \d+\.\d\dx) \| (\d+\.\d) \| (\d+\.\d)x \|$"
)


def test_the_table_has_a_row_for_each_model_and_method(
    device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gpu.NETWORKS, "dnn", {"name": "dnn", "hidden": 4})
    monkeypatch.setitem(gpu.PEAK_SIZE, "cpu", 64)
    gpu.main(["--device", device, "--models", "mlr", "dnn", "--methods", "fedavg", "fedrep", *TINY])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("| mlr", "| dnn"))]
    assert [line.split(" | ")[:3] for line in rows] == [
        ["| mlr", "fedavg", "2"],
        ["| dnn", "fedavg", "2"],
        ["| mlr", "fedrep", "2"],
        ["| dnn", "fedrep", "2"],
    ]
    assert "fedrep needs a body" in rows[2]
    for line in (rows[0], rows[1], rows[3]):
        found = NUMBERS.search(line)
        assert found, line
        assert (found[2] == "–") == (found[4] == "– | –") == (device == "cpu")


def test_rows_without_time_are_named(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--device", device, "--models", "mlr", "--methods", "fedavg", "--seconds", "0", *TINY])
    assert capsys.readouterr().out.endswith("left out, no time: mlr fedavg 2\n")


def test_the_operations_of_a_round_are_those_of_its_matrix_products(device: str) -> None:
    data = gpu.federation(2, 64, (1, 28, 28), device)
    own = gpu.Rounds("fedavg", "mlr", 2, data, "fused", device)
    a_step = 2 * 2 * gpu.BATCH * 784 * 10  # logits, and the gradient of the weight
    average = 2 * 2 * (784 * 10 + 10)
    assert own.flops() == pytest.approx(2 * gpu.STEPS["mlr"] * a_step, abs=2 * average)


def test_convolutions_of_many_clients_have_the_operations_of_a_loop_over_them(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(gpu.STEPS, "cnn", 2)
    data = gpu.federation(2, 32, (1, 28, 28), device)
    stacked, loop = (gpu.Rounds("fedavg", "cnn", 2, data, backend, device).flops() for backend in ("batched", "loop"))
    assert stacked == loop > 0


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="1"):
        gpu.main([])
    assert capsys.readouterr().err == "benchmarks.gpu: PyTorch finds no GPU here; --device cpu runs without one\n"
