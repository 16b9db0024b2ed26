"""Other libraries beside ours: the protocol with a library of a few lines, and the table."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.peers.__main__ import main
from benchmarks.peers.beside import ChildFailed, Program, Ratio, Row, compare, difference, heading
from benchmarks.peers.children.networks import network
from benchmarks.peers.known import OF_SPLIT_MODELS, PEERS, Peer
from benchmarks.peers.settings import SETTINGS, Setting, options
from benchmarks.peers.turns import Job, Turn, load_arrays, save_arrays
from engine.config.schema import parse_experiment
from engine.core.registry import ALGORITHMS
from engine.models import build_model

OURS = Program.of("ours", sys.executable)
TINY = Setting("Tiny", ("mlr",), clients=2, samples=4, cohort=2, batch_size=4, lr=0.5, shape=(1, 2, 2), num_classes=2)

# FedAvg with softmax regression, its gradient by hand. It prints, as libraries do.
LIBRARY = """
import numpy as np
from benchmarks.peers.turns import Turns

turns = Turns()
job = turns.job
x, y = job.load()
x = x.reshape(job.clients, job.samples, -1) / 255
weight, bias = job.load_initial()
while True:
    turns.next(lambda: [weight, bias])
    print("round", turns.round)
    turns.samples = 0 if turns.is_counted else None
    ends = []
    for features, labels in zip(x, y):
        w, b = weight, bias
        for step in range(STEPS):
            scores = np.exp(features @ w.T + b)
            error = scores / scores.sum(1, keepdims=True) - np.eye(job.num_classes)[labels]
            w, b = w - job.lr * error.T @ features / job.samples, b - job.lr * error.mean(0)
            if turns.is_counted:
                turns.samples += job.samples
        ends.append((w, b))
    weight, bias = (np.mean(parts, 0) for parts in zip(*ends))
"""


def library(steps: str) -> Program:
    return Program("library", (sys.executable, "-c", LIBRARY.replace("STEPS", steps)))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    TINY.write(tmp_path)
    job = replace(TINY.job("fedavg", "mlr", tmp_path), local_epochs=2)
    save_arrays(Path(job.initial), [np.eye(2, 4) / 8, np.zeros(2)])  # which our side replaces by its own
    return job


@pytest.mark.slow
def test_ours_and_fedavg_by_hand_reach_the_same_weights(job: Job) -> None:
    apart, moved = difference(OURS, library("job.local_steps"), job)
    assert moved > 0.01
    assert apart < 1e-6


@pytest.mark.slow
def test_a_library_that_trains_less_reaches_other_weights(job: Job) -> None:
    apart, moved = difference(library("job.local_steps"), library("1"), job)
    assert apart > 0.1 * moved


@pytest.mark.slow
def test_a_comparison_has_a_ratio_for_each_variant_and_counts_the_sample_gradients(job: Job) -> None:
    theirs = [library("job.local_steps"), library("1")]
    row = compare(library("1"), theirs, job, repeats=2, clock="processor_seconds")
    assert (row.method, row.model, len(row.ratios), row.work) == ("fedavg", "mlr", 2, 2)
    assert all(0 < ratio.low <= ratio.median <= ratio.high for ratio in row.ratios)


def test_the_error_of_a_library_is_shown(job: Job) -> None:
    broken = Program("broken", (sys.executable, "-c", "raise SystemExit('no such dataset')"))
    with pytest.raises(ChildFailed, match="broken ended with 1:\nno such dataset"):
        compare(broken, [], job, repeats=1, clock="seconds")


def test_a_library_measured_on_a_cpu_only_is_refused_on_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["flower", "--python", sys.executable, "--device", "cuda"]
    monkeypatch.setattr(sys, "argv", ["benchmarks.peers", *command])
    with pytest.raises(SystemExit):
        main()
    assert "the rounds of Flower are measured on a CPU only" in capsys.readouterr().err


def test_a_child_sees_a_gpu_only_if_its_job_is_for_one(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    show = Program("show", (sys.executable, "-c", "import os; raise SystemExit(os.environ['CUDA_VISIBLE_DEVICES'])"))
    with pytest.raises(ChildFailed, match=r"show ended with 1:\n$"):
        compare(show, [], job, repeats=1, clock="seconds")
    with pytest.raises(ChildFailed, match=r"show ended with 1:\n3"):
        compare(show, [], replace(job, device="cuda"), repeats=1, clock="seconds")


def test_the_ratio_is_the_median_over_turns_without_the_counted_one() -> None:
    theirs = [Turn(9, 9, 100), Turn(6, 1, None), Turn(20, 1, None), Turn(100, 1, None)]
    ours = [Turn(1, 1, 100), Turn(2, 1, None), Turn(2, 1, None), Turn(2, 1, None)]
    assert Ratio.of(theirs, ours, "seconds") == Ratio(median=10, low=3, high=50)
    assert Ratio.of(theirs, ours, "processor_seconds") == Ratio(1, 1, 1)


def test_the_table_is_markdown() -> None:
    first = Row("fedavg", "mlr", (Ratio(14.71, 9.94, 123.4), Ratio(6.7, 0.512, 7.25)), 1.0)
    second = Row("ditto", "dnn", (Ratio(2, 2, 2), Ratio(1, 1, 1)), None)
    assert f"{heading(['PFLlib', 'in memory'])}\n{first}\n{second}".splitlines() == [
        "| method | model | PFLlib / Fedscape | in memory / Fedscape | sample gradients |",
        "| --- | --- | --- | --- | --- |",
        "| fedavg | mlr | 15x (9.9 to 123) | 6.7x (0.51 to 7.2) | 1.00 |",
        "| ditto | dnn | 2.0x (2.0 to 2.0) | 1.00x (1.00 to 1.00) | - |",
    ]


@pytest.mark.parametrize(("model", "shape"), [("mlr", (1, 28, 28)), ("dnn", (1, 28, 28)), ("cnn", (3, 32, 32))])
def test_the_libraries_get_our_networks(model: str, shape: tuple[int, int, int], job: Job) -> None:
    raw = {"dataset": "digits", "partition": "iid", "model": model, "algorithms": ["fedavg"]}
    ours = build_model(parse_experiment(raw).runs()[0].model, shape, 10)
    params = ours.initial(0, 0)
    save_arrays(Path(job.initial), [p.numpy() for p in params.values()])
    theirs = network(replace(job, model=model, num_classes=10), shape)
    x = torch.rand(3, *shape)
    assert torch.allclose(theirs(x), ours.logits(params, x), atol=1e-6)
    assert [p.shape for p in theirs.parameters()] == [p.shape for p in load_arrays(Path(job.initial))]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_all_batches_of_a_setting_are_full(setting: Setting) -> None:
    assert setting.samples % setting.batch_size == 0
    assert setting.cohort <= setting.clients


def test_random_images_have_as_many_empty_pixels_as_mnist(tmp_path: Path) -> None:
    with np.load(replace(TINY, samples=1000).write(tmp_path)) as data:
        assert data["x"].shape == (2, 1000, 1, 2, 2)
        assert (data["x"] == 0).mean() == pytest.approx(0.81, abs=0.02)
        assert np.bincount(data["y"].reshape(-1)).tolist() == [1000, 1000]


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
def test_every_method_of_a_library_is_one_of_ours_with_these_options(peer: Peer) -> None:
    for method in peer.methods:
        assert ALGORITHMS.get(method).name == method
        ALGORITHMS.get(method).options.model_validate(dict(options(method, 20, 0.005)))
    assert set(peer.same_weights) <= set(peer.methods)


def test_methods_of_split_models_are_left_out_on_mlr() -> None:
    assert not set(OF_SPLIT_MODELS) & set(PEERS["pfllib"].methods_on("mlr"))
    assert set(PEERS["pfllib"].methods_on("dnn")) == set(PEERS["pfllib"].methods)
