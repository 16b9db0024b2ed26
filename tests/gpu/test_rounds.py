"""A round on a GPU equals the same round of a loop over clients on the CPU, in double precision."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from engine.core.devices import allow_tf32
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from tests.support.builders import FEWER, assert_close, federation, shared_model
from tests.support.builders import simulation as on_any_data
from tests.support.on_devices import IMAGE, MODELS, all_on, assert_same_models, assert_same_round, reference, simulation

pytestmark = pytest.mark.slow

ON_CPU = [  # enough to test the tests
    ("fedavg", "mlr"),
    ("fedrep", "mlr"),  # is refused
    ("pfedme", "dnn"),
    ("pfedhn", "cnn"),
    ("plgu_grep", "resnet"),
]
CASES = [
    *(pytest.param("cpu", name, model) for name, model in ON_CPU),
    *(pytest.param("cuda", name, model, marks=pytest.mark.gpu) for name in ALGORITHMS.names() for model in MODELS),
]


@pytest.mark.parametrize(("device", "name", "model"), CASES)
def test_a_round_equals_that_of_the_loop_on_the_cpu(device: str, name: str, model: str) -> None:
    method = {"name": name} | FEWER.get(name, {})
    if name == "fl_hc":
        method["at_round"] = 1
    try:
        expected = reference(method, model)
    except Unsupported:
        with pytest.raises(Unsupported):
            simulation(method, model, device)
        return
    found = simulation(method, model, device)
    for ours, theirs in zip(found.rounds(), expected.rounds(), strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)
    assert all_on(device, found.task.initial_model())


@pytest.mark.parametrize(
    ("device", "name", "backend"),
    [
        ("cpu", "ditto", "fused"),
        *(
            pytest.param("cuda", name, backend, marks=pytest.mark.gpu)
            for name in ("fedavg", "per_fedavg", "ditto")
            for backend in ("loop", "batched", "fused")
        ),
    ],
)
def test_the_backends_agree(device: str, name: str, backend: str) -> None:
    found, expected = simulation(name, "dnn", device, backend=backend), reference(name, "dnn")
    for ours, theirs in zip(found.rounds(), expected.rounds(), strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)


@pytest.mark.parametrize("training", [{"momentum": 0.9}, {"clip_norm": 0.1}, {"batch_size": "full"}], ids=str)
def test_training_options_mean_the_same(device: str, training: dict) -> None:
    found, expected = simulation("fedavg", "dnn", device, **training), reference("fedavg", "dnn", **training)
    for ours, theirs in zip(found.rounds(), expected.rounds(), strict=True):
        assert_same_round(ours, theirs)
    assert_same_models(found, expected)


@pytest.fixture
def products() -> Iterator[tuple[Any, Any]]:
    """How PyTorch computes convolutions and products on a GPU; as before after the test."""
    kinds = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = [kind.fp32_precision for kind in kinds]
    yield kinds
    for kind, precision in zip(kinds, before, strict=True):
        kind.fp32_precision = precision


def test_products_on_a_gpu_are_rounded_to_tf32_only_on_request(products: tuple[Any, Any]) -> None:
    for is_allowed in (True, False):
        allow_tf32(is_allowed)
        assert {kind.fp32_precision for kind in products} == {"tf32" if is_allowed else "ieee"}


@pytest.mark.gpu
def test_a_run_in_tf32_is_less_exact_and_the_next_run_is_not(products: tuple[Any, Any]) -> None:
    data = federation(dtype=torch.float32, features=256, shape=IMAGE, device="cuda")
    models = []
    for dtype in ("float32", "tf32", "float32"):
        run = on_any_data(
            "fedavg", data, model={"name": "resnet18", "width": 16}, dtype=dtype, device="cuda", backend="batched"
        )
        *_, _last = run.rounds()
        models.append(shared_model(run))
    first, rounded, again = models
    assert_close(first, again, 1e-6)
    assert_close(first, rounded, 1e-1)
    assert any(not torch.allclose(first[n], rounded[n], rtol=0, atol=1e-6) for n in first)


@pytest.mark.gpu
def test_single_precision_is_as_precise_as_on_the_cpu() -> None:
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    data = {d: federation(dtype=torch.float32, features=256, shape=IMAGE, device=d) for d in ("cuda", "cpu")}
    models = []
    for device, own in data.items():
        run = on_any_data("fedavg", own, model=MODELS["cnn"], dtype="float32", device=device, backend="batched")
        *_, _last = run.rounds()
        models.append({n: p.cpu() for n, p in shared_model(run).items()})
    assert_close(*models, 1e-5)
