"""Repeated steps give the numbers of ordinary ones, bit for bit. On a CPU, a tape takes the place of a CUDA graph."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.backends.batched import Batched
from engine.backends.clipped import Clipped
from engine.backends.counted import Counted
from engine.backends.fused import Fused
from engine.backends.loop import Loop
from engine.backends.private import Private
from engine.backends.step_graphs import LEAST_STEPS, StepGraphs
from engine.core.params import broadcast
from engine.core.registry import ALGORITHMS
from engine.privacy.samples import Releases
from engine.simulation.simulate import Simulation
from engine.task import Task
from engine.training.local import for_each_client, local_sgd
from tests.support.builders import FEWER, SIZES, assert_equal, federation, personalized, simulation
from tests.support.on_devices import MODELS
from tests.support.taped import TapeRecorder

CASES = [  # each option with both models
    ("fedavg", "mlr", {"local_steps": 9}),
    ("fedrep", "dnn", {"local_steps": 9}),
    ("pfedme", "mlr", {"local_steps": 9, "momentum": 0.9, "weight_decay": 0.01}),
    ("ditto", "dnn", {"local_steps": 9, "momentum": 0.9, "weight_decay": 0.01}),
    ("ditto", "mlr", {"local_steps": 9, "clip_norm": 0.5}),
    ("fedavg", "dnn", {"local_steps": 9, "clip_norm": 0.5}),
    ("fedavg", "mlr", {"local_epochs": 6}),  # clients with fewer samples end earlier
    ("pfedme", "dnn", {"local_epochs": 6}),
    ("pfedme", "mlr", {"local_steps": 6, "batch_size": "full"}),
    ("fedrep", "dnn", {"local_steps": 6, "batch_size": "full"}),
    ("ditto", "mlr", {"local_steps": 6, "batch_size": 3, "backend": "batched"}),
    ("fedrep", "dnn", {"local_steps": 6, "batch_size": 3, "backend": "batched"}),
]


def repeating(method, recorder, **settings) -> Simulation:
    """A run whose steps are recorded."""
    run = simulation(method, **settings)
    run.task = replace(run.task, graphs=StepGraphs(recorder))
    return run


def losses(run: Simulation) -> list[torch.Tensor]:
    return [torch.from_numpy(result.arrays["train_loss"]) for result in run.rounds() if result.round]


def assert_same_run(found: Simulation, expected: Simulation) -> None:
    for ours, theirs in zip(losses(found), losses(expected), strict=True):
        assert torch.equal(ours.nan_to_num(-1), theirs.nan_to_num(-1))
    assert_equal(personalized(found), personalized(expected))


@pytest.mark.parametrize(("method", "model", "training"), CASES, ids=str)
def test_results_are_the_same_bit_for_bit(method, model, training, monkeypatch):
    settings = {"model": MODELS[model], "backend": "fused", "participation": 0.75} | training
    for backend in (Fused, Batched):
        monkeypatch.setattr(backend, "chunk_size", lambda *_: 2)  # chunks of two clients and of one
    recorder = TapeRecorder()
    assert_same_run(repeating(method, recorder, **settings), simulation(method, **settings))
    assert recorder.replayed > recorder.recorded > 0


@pytest.mark.parametrize("name", ALGORITHMS.names())
@pytest.mark.slow
def test_every_method_has_the_same_results(name):
    method = {"name": name} | FEWER.get(name, {})
    rounds = 2 if name in ("fedpac", "fedphp", "moon") else 1  # whose objectives have a term from round 2 on
    settings = {"model": MODELS["dnn"], "local_steps": 2 * LEAST_STEPS, "rounds": rounds}
    assert_same_run(repeating(method, TapeRecorder(), **settings), simulation(method, **settings))


def train(recorder, sizes=SIZES, backend=None, **settings) -> Task:
    """The task after local training of all clients."""
    run = simulation("fedavg", federation(sizes), **settings)
    task = replace(run.task, graphs=StepGraphs(recorder), backend=backend or run.task.backend)
    cohort = task.cohort(1)
    local_sgd(task, broadcast(task.initial_model(), cohort.size), cohort)
    return task


@pytest.mark.parametrize("batch_size", [4, "full"])
def test_the_first_step_is_ordinary_and_the_second_is_recorded(batch_size):
    recorder = TapeRecorder()
    train(recorder, sizes=(8, 8, 8), local_steps=9, batch_size=batch_size)
    assert recorder.counts == (1, 1, 8)


def test_a_shape_that_comes_often_has_a_recording_of_its_own():
    recorder = TapeRecorder()
    task = train(recorder, local_epochs=4, batch_size=3)
    assert Counter(task.cohort(1).plan.shapes) == {
        (4, 3, True): 5,  # four clients, one of them with fewer samples
        (4, 3, False): 3,
        (2, 3, True): 2,
        (2, 3, False): 2,
    }
    assert recorder.counts == (1, 1, 4)


def test_few_steps_are_not_recorded():
    recorder = TapeRecorder()
    train(recorder, sizes=(8, 8), local_steps=LEAST_STEPS - 1)
    assert recorder.counts == (0, 0, 0)


def test_each_chunk_records_anew(monkeypatch):
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 2)
    recorder = TapeRecorder()
    train(recorder, sizes=(8, 8, 8, 8), local_steps=6)
    assert recorder.counts == (2, 2, 10)


@pytest.mark.parametrize("fails_at", [1, 2])
def test_after_a_failed_recording_all_steps_are_ordinary(fails_at, monkeypatch):
    monkeypatch.setattr(Fused, "chunk_size", lambda *_: 2)
    recorder, settings = TapeRecorder(fails_at), {"local_steps": 6, "rounds": 3, "batch_size": 2}
    run = repeating("fedavg", recorder, **settings)
    assert_same_run(run, simulation("fedavg", **settings))
    assert recorder.counts == (fails_at, fails_at, 4 * (fails_at - 1))
    reason = "operation not permitted when stream is capturing"
    assert run.task.notes == [f"cuda_graphs is off for the rest of the run: a step could not be recorded ({reason})"]


def test_a_chunk_that_does_not_fit_the_memory_is_halved(monkeypatch):
    accumulate = Fused.accumulate

    def limited(self, out, params, batch, *args):
        if batch.size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return accumulate(self, out, params, batch, *args)

    settings, recorder = {"local_steps": 6, "batch_size": "full"}, TapeRecorder()
    monkeypatch.setattr(Fused, "accumulate", limited)
    assert_same_run(repeating("fedavg", recorder, **settings), simulation("fedavg", **settings))
    assert recorder.recorded == 4 and recorder.replayed == 20  # two rounds of two chunks


def test_a_step_may_stop_the_run():
    ticks = []

    def tick():
        ticks.append(1)
        if len(ticks) == 7:
            raise InterruptedError

    task = replace(repeating("fedavg", TapeRecorder(), local_steps=9, batch_size="full").task, tick=tick)
    with pytest.raises(InterruptedError):
        local_sgd(task, broadcast(task.initial_model(), len(SIZES)), task.cohort(1))
    assert len(ticks) == 7


def test_what_depends_on_the_host_is_never_recorded():
    counted = []
    plain = simulation("fedavg").task.backend
    for backend in (
        Counted(plain, counted.append),
        Clipped(Loop(plain.model), 1.0),  # takes the samples without padding, whose number changes
        Private(plain, plain.model, 1.0, Releases(0, 1, np.zeros(len(SIZES)))),
    ):
        assert not backend.is_repeatable
        if not isinstance(backend, Private):
            recorder = TapeRecorder()
            task = train(recorder, backend=backend, local_steps=9, batch_size="full")
            assert recorder.counts == (0, 0, 0)
    assert sum(counted) == task.cohort(1).plan.gradient_evaluations


def test_steps_of_which_nobody_says_that_they_can_be_repeated_are_never_recorded():
    recorder, called = TapeRecorder(), []
    task = repeating("fedavg", recorder, local_steps=9).task
    cohort = task.cohort(1)

    def step(c, batch):
        called.append(batch.counts)
        return batch.x.new_zeros(c.size)

    for_each_client(task, cohort.plan, {"w": broadcast(task.initial_model(), cohort.size)}, step)
    assert recorder.counts == (0, 0, 0) and len(called) == 9


def test_a_run_on_a_cpu_ignores_the_option():
    on, off = (simulation("fedavg", cuda_graphs=given, device="cpu") for given in (True, False))
    assert on.config.machine.cuda_graphs and on.task.graphs is None
    assert_same_run(on, off)
    assert on.task.notes == off.task.notes
