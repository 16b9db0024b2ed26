"""The minimal memory of a round, and runs that are refused for it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.config.schema import Choice, RunConfig, parse_experiment
from engine.core.errors import InvalidConfig
from engine.core.paths import default_data_dir
from engine.core.registry import NoOptions
from engine.federation.clients import build
from engine.models import build_model, num_parameters
from engine.simulation import preflight
from engine.simulation.memory import memory_bytes, needed_bytes
from engine.simulation.preflight import check_runs

MLR = (64 * 10 + 10) * 4  # bytes of mlr on digits in float32
BATCH = 20 * 8 + 16  # bytes of the plan of one batch of 20 samples


def a_run(**changes: Any) -> RunConfig:
    raw = {
        "dataset": "digits",
        "partition": {"name": "iid", "num_clients": 4},
        "model": "mlr",
        "training": {"local_steps": 3, "batch_size": 20},
        "algorithms": ["fedavg"],
    }
    return parse_experiment(raw | changes).runs()[0]


def needed(**changes: Any) -> tuple[int, int]:
    run = a_run(**changes)
    return needed_bytes(run, build(run, default_data_dir(), torch.device("cpu")))


def test_a_round_needs_a_model_and_all_batches_of_each_participant() -> None:
    assert needed() == (4 * MLR, 4 * 3 * BATCH)
    assert needed(training={"local_steps": 3, "participation": 0.5}) == (2 * MLR, 2 * 3 * BATCH)
    assert needed(training={"local_steps": 3, "dtype": "float64"}) == (8 * MLR, 4 * 3 * BATCH)


def test_additional_steps_of_a_method_need_their_batches() -> None:
    assert needed(algorithms=[{"name": "fedavg", "finetune_steps": 7}]) == (4 * MLR, 4 * 7 * BATCH)
    assert needed(algorithms=[{"name": "pfedme", "inner_steps": 7}]) == needed()


def test_models_of_contexts_and_hypernetworks_count() -> None:
    assert needed(algorithms=[{"name": "ifca", "K": 3}])[0] == 7 * MLR
    assert needed(algorithms=[{"name": "pfedhn", "hidden": 5}])[0] == 9 * MLR


def test_options_that_are_not_whole_numbers_do_not_count() -> None:
    class Options(NoOptions):
        K: int | str = "auto"
        hidden: float = 0.5
        finetune_steps: str = "many"

    run = replace(a_run(), algorithm=Choice("mine", Options()))
    assert needed_bytes(run, build(run, default_data_dir(), torch.device("cpu"))) == (4 * MLR, 4 * 3 * BATCH)
    assert preflight.num_model_values(run, 4, 650) == 4 * 650
    three = replace(run, algorithm=Choice("mine", Options(K=7)))
    assert preflight.num_model_values(three, 4, 650) == 7 * 650


def test_parameters_are_counted_without_building_a_model() -> None:
    shape = (64,)
    for model in ("mlr", "dnn"):
        choice = a_run(model=model).model
        assert num_parameters(choice, shape, 10) == build_model(choice, shape, 10).num_parameters


def test_a_round_too_large_for_memory_is_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "memory_bytes", lambda _: 3 * 10**9)
    with pytest.raises(InvalidConfig, match="fedavg: a round needs at least 11 GB of memory, of 3 GB available"):
        check_runs([a_run(training={"local_steps": 1_000_000, "batch_size": 337})])
    check_runs([a_run(training={"local_steps": 1_000_000})])


def test_the_memory_of_this_machine_is_positive() -> None:
    assert memory_bytes(torch.device("cpu")) > 2**27


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_data_too_large_for_memory_are_an_invalid_configuration(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(preflight, "build", fail)
    with pytest.raises(InvalidConfig, match="dataset: out of memory"):
        check_runs([a_run()])
