"""Every method, compared with FedAvg and with the fastest matrix product of the machine.

    OMP_NUM_THREADS=1 python -m benchmarks.roofline [--models mlr dnn cnn] [--methods ditto pfedme] [--repeats 5]
        [--clients 20] [--samples 640]

20 clients with 640 samples each unless given, of MNIST's shape (random pixels), batch 32, one epoch, one thread; each
method with its defaults. Training and aggregation only, without evaluation, in seconds of the processor. Repeats of a
method, of FedAvg and of a matrix product of 1024 x 1024 floats take turns, so that a slower minute slows all three.
For each method, a line of a Markdown table:

- ms: median of a round
- MFLOP: floating-point operations of matrix products, convolutions and solved systems in a round. One in double
  precision counts as two, since the processor's vectors hold half as many
- peak: these operations a second, as a share of those of the matrix product
- per gradient, per FLOP: seconds per gradient evaluation, and per counted operation, divided by FedAvg's
- products, gathers, rest: shares of the round's time, by torch's profiler, in matrix products and convolutions, in
  gathering batches, and in everything else, Python included
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.linalg.lapack import dposv
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import conv_flop_count, flop_registry

from engine.algorithms import pfedfda
from engine.config.schema import parse_experiment
from engine.core.devices import set_threads
from engine.core.errors import Unsupported
from engine.core.registry import ALGORITHMS
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

MODELS = {
    "mlr": {"name": "mlr"},
    "dnn": {"name": "dnn", "hidden": 128},
    "cnn": {"name": "cnn"},
}
CLIENTS, SAMPLES, TEST_SAMPLES, PUBLIC_SAMPLES, BATCH = 20, 640, 32, 1000, 32
REFERENCE = "fedavg"
PEAK_SIZE = 1024
PRODUCTS = {
    *("mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_"),
    *("convolution", "conv2d", "mkldnn_convolution", "_slow_conv2d_forward", "convolution_backward"),
}
GATHERS = ("index", "index_select", "gather", "take", "embedding", "copy_", "_to_copy")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--methods", nargs="+", choices=ALGORITHMS.names(), default=list(ALGORITHMS.names()))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="training samples of each client")
    given = parser.parse_args(arguments)
    set_threads(1)
    data = federation(given.clients, given.samples)
    print(f"{given.clients} clients, {given.samples} samples each, batch {BATCH}, 1 thread, torch {torch.__version__}")
    for model in given.models:
        print(f"\n{model}\n\n| method | ms | MFLOP | peak | per gradient | per FLOP | products | gathers | rest |")
        print("|---|" + "--:|" * 8)
        for method in given.methods:
            try:
                print(row(method, model, data, given.repeats), flush=True)
            except Unsupported as reason:
                print(f"| {method} | {str(reason).partition(';')[0]} |" + " |" * 7, flush=True)


def row(method: str, model: str, data: Federation, repeats: int) -> str:
    own, reference = Round(method, model, data), Round(REFERENCE, model, data)
    seconds: list[float] = []
    ratios: list[float] = []
    shares: list[float] = []
    for _ in range(repeats):
        peak = peak_flops()
        own_s, own_gradients = own.timed()
        reference_s, reference_gradients = reference.timed()
        seconds.append(own_s)
        shares.append(own.flops / own_s / peak)
        if own_gradients:  # a round of L2GD may have none
            ratios.append(own_s / own_gradients * reference_gradients / reference_s)
    per_gradient = statistics.median(ratios) if ratios else float("nan")
    per_flop = per_gradient * (own.gradients / own.flops) * (reference.flops / reference.gradients)
    products, gathers, rest = own.parts()
    cells = (
        f"{1000 * statistics.median(seconds):.1f}",
        f"{own.flops / 1e6:,.0f}",
        f"{100 * statistics.median(shares):.0f} %",
        f"{per_gradient:.2f}",
        f"{per_flop:.2f}",
        f"{100 * products:.0f} %",
        f"{100 * gathers:.0f} %",
        f"{100 * rest:.0f} %",
    )
    return f"| {method} | " + " | ".join(cells) + " |"


class Round:
    """A run of one method whose rounds are computed one by one. ``flops`` and ``gradients`` are those of a round."""

    def __init__(self, method: str, model: str, data: Federation) -> None:
        raw = {
            "dataset": "digits",
            "partition": "iid",
            "model": MODELS[model],
            "device": "cpu",
            "algorithms": [{"name": method}],
            "training": {"rounds": 10_000, "local_epochs": 1, "batch_size": BATCH, "lr": 0.01},
        }
        self.run = Simulation(parse_experiment(raw).runs()[0], data=data)
        self.number = 0
        self.step()  # the first round allocates memory and compiles kernels
        with Flops() as counter:
            self.gradients = self.step()
        self.flops = counter.total

    def step(self) -> int:
        """Compute the next round; return its gradient evaluations."""
        self.number += 1
        task = self.run.task
        self.run.state, diagnostics = self.run.algorithm.round(self.run.state, task.cohort(self.number), task)
        return diagnostics.gradient_evaluations

    def timed(self) -> tuple[float, int]:
        """The processor time of a round in seconds, and its gradient evaluations.

        The round before it is not timed: it fetches into the cache what the other run has displaced.
        """
        self.step()
        started = time.process_time()
        gradients = self.step()
        return time.process_time() - started, gradients

    def parts(self) -> tuple[float, float, float]:
        """Return the shares of a round's time in products, in gathers, and in the rest."""
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            started = time.perf_counter()  # the profiler's clock
            self.step()
            whole = time.perf_counter() - started
        taken = {e.key.removeprefix("aten::"): e.self_cpu_time_total / 1e6 for e in profiler.key_averages()}
        products = sum(seconds for operator, seconds in taken.items() if operator in PRODUCTS) / whole
        gathers = sum(seconds for operator, seconds in taken.items() if operator in GATHERS) / whole
        return products, gathers, 1 - products - gathers


class Flops(TorchDispatchMode):
    """Counts the floating-point operations of products, convolutions and systems solved by ``dposv`` while active.

    One in double precision counts as two.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __enter__(self) -> "Flops":
        self._patch = patch.object(pfedfda, "dposv", self._counted)  # SciPy's calls do not pass torch
        self._patch.start()
        return super().__enter__()

    def __exit__(self, *of_error: Any) -> None:
        self._patch.stop()
        super().__exit__(*of_error)

    def _counted(self, matrix: np.ndarray, right: np.ndarray, **settings: Any) -> Any:
        """``dposv``: a Cholesky factor, and two triangular systems for each right-hand side."""
        size, count = right.shape
        self.total += 2 * (size**3 // 3 + 2 * size**2 * count)
        return dposv(matrix, right, **settings)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = 0
        if func in (torch.ops.aten.baddbmm_.default, torch.ops.aten.addmm_.default):
            count = 2 * args[1].numel() * args[2].shape[-1]
        elif func is torch.ops.aten.convolution_backward.default:
            count = _of_convolution_backward(*args)
        elif of := flop_registry.get(func.overloadpacket):
            count = of(*args, **(kwargs or {}), out_val=result)
        if count:
            self.total += 2 * count if args[0].dtype == torch.float64 else count
        return result


def _of_convolution_backward(error: Tensor, x: Tensor, weight: Tensor, *settings: Any) -> int:
    """Each gradient takes as many operations as the convolution. PyTorch counts too many where there are groups."""
    *_, transposed, _, _, (of_input, of_weight, _) = settings
    return (of_input + of_weight) * conv_flop_count(list(x.shape), list(weight.shape), list(error.shape), transposed)


def peak_flops() -> float:
    """Return the floating-point operations a second of a large matrix product."""
    a, b = torch.rand(PEAK_SIZE, PEAK_SIZE), torch.rand(PEAK_SIZE, PEAK_SIZE)
    return float(2 * PEAK_SIZE**3 / min(timed(lambda: a @ b) for _ in range(3)))


def timed(compute: Callable[[], object]) -> float:
    """The processor time of ``compute``, in seconds."""
    started = time.process_time()
    compute()
    return time.process_time() - started


def federation(clients: int = CLIENTS, samples: int = SAMPLES) -> Federation:
    """Return clients with random images and labels, and public images."""
    rng = np.random.default_rng(0)
    own = samples + TEST_SAMPLES
    total = clients * own + PUBLIC_SAMPLES
    pool = Pool(rng.integers(0, 256, (total, 1, 28, 28), np.uint8), rng.integers(0, 10, total), 10, scale=1 / 255)
    parts = tuple(_ranges(clients, own))
    train, test = tuple(part[:samples] for part in parts), tuple(part[samples:] for part in parts)
    none = tuple(np.zeros(0, np.int64) for _ in parts)
    public = np.arange(clients * own, total)
    return lay_out(pool, Partition(train, none, test, None, public=public), torch.float32, torch.device("cpu"))


def _ranges(clients: int, own: int) -> Iterator[np.ndarray]:
    for client in range(clients):
        yield np.arange(client * own, (client + 1) * own)


if __name__ == "__main__":
    main()
