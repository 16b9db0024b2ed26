"""Many clients: state in rows, checkpoints in parts, and an evaluated sample."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine.config.schema import RunConfig, parse_experiment
from engine.core import client_rows
from engine.core.client_rows import ClientRows
from engine.core.errors import CheckpointInvalid
from engine.core.registry import ALGORITHMS
from engine.simulation import checkpoint_codec
from engine.simulation.simulate import Simulation
from tests.support.builders import FEWER, config, federation, simulation, supports

DNN = {"name": "dnn", "hidden": 4}
SIZES = (6, 9, 4, 7, 5, 8)
SETTINGS = {"rounds": 4, "participation": 0.5}


class Disk:
    """Keeps the parts of checkpoints by their SHA-256."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}

    def write(self, part: bytes) -> str:
        name = hashlib.sha256(part).hexdigest()
        self.parts[name] = part
        return name


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """State by client is in rows, of which some are in a file."""
    monkeypatch.setattr(client_rows, "DENSE_BYTES", 0)
    monkeypatch.setattr(client_rows, "BLOCK_BYTES", 512)
    monkeypatch.setenv("FEDSCAPE_STATE_MB", "0.002")


def model_of(name: str) -> Any:
    return "mlr" if supports({"name": name} | FEWER.get(name, {}), "mlr") else DNN


def run_of(name: str, **changed: Any) -> Simulation:
    return simulation(name, federation(SIZES), model=model_of(name), **SETTINGS | changed)


def until(run: Simulation, round: int) -> list:
    results = []
    for result in run.rounds():
        results.append(result)
        if result.round == round:
            break
    return results


def assert_same(found: list, expected: list) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.round == b.round and a.arrays.keys() == b.arrays.keys()
        assert all(values.tobytes() == b.arrays[n].tobytes() for n, values in a.arrays.items())


def with_sample(run: RunConfig, clients: int | None) -> RunConfig:
    return replace(run, evaluation=run.evaluation.model_copy(update={"clients": clients}))


# State in rows


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_state_in_rows_gives_the_same_rounds_and_resumes_to_them(name: str, request: pytest.FixtureRequest) -> None:
    dense = run_of(name)
    expected = list(dense.rounds())
    request.getfixturevalue("tiny")
    disk, first = Disk(), run_of(name)
    found = until(first, 2)
    first.checkpoint(disk.write)
    found += until(first, 3)
    assert_same(found, expected[:4])
    for data, read in ((first.checkpoint(disk.write), disk.parts.__getitem__), (first.checkpoint(), None)):
        again = run_of(name)
        again.restore(data, read)
        assert_same(list(again.rounds()), expected[4:])
        assert repr(again.summary()) == repr(dense.summary())
        for mine, other in zip(again.models("best").personalized, dense.models("best").personalized, strict=True):
            assert all(torch.equal(mine[n], other[n]) for n in other)


def test_a_checkpoint_writes_only_new_rows(tiny: None) -> None:
    disk, run = Disk(), run_of("ditto", rounds=9)
    until(run, 2)
    run.checkpoint(disk.write)
    first = dict(disk.parts)
    run.checkpoint(disk.write)
    assert disk.parts == first
    until(run, 3)
    run.checkpoint(disk.write)
    (new,) = disk.parts.keys() - first.keys()
    assert len(disk.parts[new]) < len(next(iter(first.values()))) and run.parts == (*first, new)


def test_rows_that_nothing_uses_are_dropped_by_writing_all_anew(tiny: None) -> None:
    disk, run = Disk(), run_of("ditto", rounds=30, participation=1.0)
    for round in range(1, 12):
        until(run, round)
        run.checkpoint(disk.write)
    assert len(disk.parts) == 11 and len(run.parts) < 5
    again = run_of("ditto", rounds=30, participation=1.0)
    again.restore(run.checkpoint(disk.write), {n: disk.parts[n] for n in run.parts}.__getitem__)
    assert_same(until(again, 13), until(run, 13))


def test_large_parts_are_divided(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, run = Disk(), run_of("ditto")
    until(run, 3)
    monkeypatch.setattr(checkpoint_codec, "PART_BYTES", 300)
    data = run.checkpoint(disk.write)
    assert len(run.parts) > 2
    again = run_of("ditto")
    again.restore(data, disk.parts.__getitem__)
    assert torch.equal(again.state.personal_params["head.weight"] + 0, run.state.personal_params["head.weight"] + 0)


def test_a_checkpoint_without_its_parts_is_refused(tiny: None) -> None:
    disk, run = Disk(), run_of("ditto")
    until(run, 2)
    data = run.checkpoint(disk.write)
    with pytest.raises(CheckpointInvalid, match="stored apart"):
        run_of("ditto").restore(data)
    with pytest.raises(CheckpointInvalid):
        run_of("ditto").restore(data, {}.__getitem__)


def test_a_large_run_has_rows_of_participants_only() -> None:
    raw = {
        "dataset": "digits",
        "partition": {"name": "resampled", "num_clients": 30_000, "samples_per_client": 4},
        "model": "mlr",
        "training": {"rounds": 3, "participation": 5 / 30_000, "local_steps": 2},
        "algorithms": ["ditto"],
        "evaluation": {"clients": 50},
    }
    run = Simulation(parse_experiment(raw).runs()[0])
    results = list(run.rounds())
    state = run.state.personal_params["head.weight"]
    assert isinstance(state, ClientRows) and 10 <= len(state.touched) <= 15
    measured = np.flatnonzero(~np.isnan(results[-1].arrays["personalized.accuracy"]))
    assert len(measured) == 50 and len(run.models().personalized) == 30_000
    assert run.models().num_bytes > 30_000 * 650 * 4


# The evaluated sample


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_a_sample_has_the_values_that_all_clients_have(name: str) -> None:
    every = until(run_of(name), 1)
    settings = with_sample(config(name, model=model_of(name), **SETTINGS), 3)
    run = Simulation(settings, data=federation(SIZES))
    for found, whole in zip(until(run, 1), every, strict=True):
        known = None
        for n, values in found.arrays.items():
            if not n.startswith(("personalized.", "global.")):
                assert values.tobytes() == whole.arrays[n].tobytes()
                continue
            here = np.flatnonzero(~np.isnan(values))
            known = here if known is None else known
            assert here.tolist() == known.tolist() and len(here) == 3
            np.testing.assert_allclose(values[here], whole.arrays[n][here], rtol=1e-12)
        measured = found.arrays["personalized.accuracy"][known]
        assert found.scalars["personalized.mean"] == pytest.approx(measured.mean())


def test_all_rounds_methods_and_runs_of_a_seed_evaluate_the_same_sample() -> None:
    def sample(name: str, seed: int = 0) -> list[list[int]]:
        settings = with_sample(config(name, seed=seed, **SETTINGS), 3)
        results = Simulation(settings, data=federation(SIZES)).rounds()
        return [np.flatnonzero(~np.isnan(r.arrays["personalized.loss"])).tolist() for r in results]

    (one,) = {tuple(ids) for ids in sample("fedavg") + sample("ditto")}
    assert any(tuple(sample("fedavg", seed)[0]) != one for seed in (1, 2, 3))


def test_the_run_says_how_many_clients_are_evaluated() -> None:
    run = Simulation(with_sample(config("fedavg"), 3), data=federation(SIZES))
    list(run.rounds())
    assert "3 of 6 clients, drawn once at random, are evaluated" in run.provenance.warnings


def test_a_sample_of_all_clients_changes_nothing() -> None:
    settings = config("ditto", **SETTINGS)
    whole, sampled = (Simulation(with_sample(settings, n), data=federation(SIZES)) for n in (None, 6))
    assert_same(list(sampled.rounds()), list(whole.rounds()))
    assert sampled.provenance.warnings == whole.provenance.warnings


def test_a_configuration_without_a_sample_is_stored_as_before() -> None:
    run = config("fedavg")
    assert run.to_dict()["evaluation"] == {"every": 1}
    sampled = with_sample(run, 3)
    assert sampled.to_dict()["evaluation"] == {"every": 1, "clients": 3} and sampled.digest != run.digest
    assert RunConfig.from_dict(sampled.to_dict()) == sampled
