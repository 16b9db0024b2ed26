"""Times rounds on a GPU beside the same with CUDA graphs, a loop over clients, and a large matrix product.

    python -m benchmarks.gpu [--models mlr dnn cnn resnet18] [--methods fedavg pfedme fedrep plgu_grep pfedhn]
        [--clients 100] [--cohorts 10 100] [--samples 100] [--repeats 5] [--seconds 520] [--dtype tf32]
        [--device cuda]

Clients with random images (28x28; 3x32x32 for resnet18), batch 32, float32, training and aggregation without
evaluation. ``--dtype`` is ``training.dtype``, also of the loop. A round of the method, one with ``cuda_graphs: true``,
one with ``backend: loop`` and a matrix product take turns. With ``--device cpu`` it runs anywhere, for tests. Rows for
which there is no time are named at the end. A line of a Markdown table for each model, method and cohort:

- ms: median of a round
- spread: the slowest of the repeats over the fastest
- memory: largest memory allocated by PyTorch during the rounds, data included
- peak: floating-point operations a second in matrix products and convolutions, counted by torch, as a share of those
  of the matrix product; with bfloat16, the operations of the loop
- graphs ms, gain: median of a round with ``cuda_graphs: true``, and of the method's time divided by its; "failed" where
  a step could not be recorded
- loop ms, ratio: median of a round with ``backend: loop``, and of its time divided by the method's
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.roofline import BATCH, MODELS, Flops
from engine.config.schema import parse_experiment
from engine.core.errors import Unsupported
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation

NETWORKS: dict[str, dict[str, Any]] = {**MODELS, "resnet18": {"name": "resnet18"}}
SHAPES = {"resnet18": (3, 32, 32)}
STEPS = {"mlr": 10, "dnn": 10, "cnn": 5, "resnet18": 1}  # local steps of a round, fewer for slower models
METHODS = ("fedavg", "pfedme", "fedrep", "plgu_grep", "pfedhn")
WITH_HEAD_STEPS = ("fedrep", "plgu_grep")
PEAK_SIZE = {"cuda": 8192, "cpu": 512}
LEAST_REPEATS = 2
ROW_SECONDS = 15.0  # of repeats; the first rounds come before


class Rounds:
    """A run of one method whose rounds are computed one by one."""

    def __init__(
        self,
        method: str,
        model: str,
        cohort: int,
        data: Federation,
        backend: str,
        device: str,
        cuda_graphs: bool = False,
        dtype: str = "float32",
    ) -> None:
        own = {"head_steps": STEPS[model]} if method in WITH_HEAD_STEPS else {}
        raw = {
            "dataset": "digits",
            "partition": "iid",
            "model": NETWORKS[model],
            "algorithms": [{"name": method} | own],
            "backend": backend,
            "device": device,
            "cuda_graphs": cuda_graphs,
            "training": {
                "rounds": 10_000,
                "local_steps": STEPS[model],
                "batch_size": BATCH,
                "lr": 0.01,
                "dtype": dtype,
                "participation": cohort / data.num_clients,
            },
        }
        self.run = Simulation(parse_experiment(raw).runs()[0], data=data)
        self.number = 0

    def step(self) -> None:
        self.number += 1
        task = self.run.task
        self.run.state, _ = self.run.algorithm.round(self.run.state, task.cohort(self.number), task)

    @property
    def uses_graphs(self) -> bool:
        """Whether CUDA graphs are on and no recording has failed."""
        return self.run.task.graphs is not None and not self.run.task.graphs.failure

    def flops(self) -> int:
        """The operations of the next round."""
        with Flops() as counter:
            self.step()
        return counter.total


def main(arguments: Sequence[str] | None = None) -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--cohorts", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    for name, default in (("clients", 100), ("samples", 100), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=520.0)
    parser.add_argument("--dtype", choices=("float32", "tf32", "bfloat16"), default="float32", help="training.dtype")
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "benchmarks.gpu: PyTorch finds no GPU here; --device cpu runs without one\n")
    deadline, left_out, data = started + given.seconds, [], dict[tuple[int, ...], Federation]()
    print(f"{device_name(given.device)}, {given.clients} clients, batch {BATCH}, torch {torch.__version__}\n")
    print("| model | method | cohort | ms | spread | memory | peak | graphs ms | gain | loop ms | ratio |")
    print("|---|---|" + "--:|" * 9)
    for method in given.methods:  # the first rows are the most wanted if the time does not suffice
        for model in given.models:
            for cohort in given.cohorts:
                if time.perf_counter() > deadline:
                    left_out.append(f"{model} {method} {cohort}")
                    continue
                shape = SHAPES.get(model, (1, 28, 28))
                if shape not in data:
                    data[shape] = federation(given.clients, given.samples, shape, given.device)
                cells = row(method, model, cohort, data[shape], given.device, given.dtype, given.repeats, deadline)
                print(f"| {model} | {method} | {cohort} | " + " | ".join(cells) + " |", flush=True)
    if left_out:
        print(f"\nleft out, no time: {', '.join(left_out)}")


def row(
    method: str, model: str, cohort: int, data: Federation, device: str, dtype: str, repeats: int, deadline: float
) -> Sequence[str]:
    """The cells of a row; the reason where there is no number."""
    try:
        return measured(method, model, cohort, data, device, dtype, repeats, deadline)
    except Unsupported as reason:
        return [str(reason).partition(";")[0], *[""] * 7]
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return ["out of memory", *[""] * 7]


def measured(
    method: str, model: str, cohort: int, data: Federation, device: str, dtype: str, repeats: int, deadline: float
) -> Sequence[str]:
    backend = "auto" if device == "cuda" else "batched"
    own = Rounds(method, model, cohort, data, backend, device, dtype=dtype)
    flops = own.flops()  # the first round allocates memory, and chooses or compiles kernels
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = [timed(own.step, device)]
    memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else float("nan")
    loop = Rounds(method, model, cohort, data, "loop", device, dtype=dtype)
    of_loop = loop.flops()
    if dtype == "bfloat16":  # torch does not count those of our kernels
        flops = of_loop
    graphs = Rounds(method, model, cohort, data, backend, device, cuda_graphs=True, dtype=dtype)
    graphs.step()
    loop_seconds, graphs_seconds, shares = list[float](), list[float](), list[float]()
    until = min(time.perf_counter() + ROW_SECONDS, deadline)
    seconds.clear()
    while len(seconds) < repeats and (len(seconds) < LEAST_REPEATS or time.perf_counter() < until):
        peak = peak_flops(device, dtype)
        seconds.append(timed(own.step, device))
        graphs_seconds.append(timed(graphs.step, device))
        loop_seconds.append(timed(loop.step, device))
        shares.append(flops / seconds[-1] / peak)
    ratio = statistics.median(b / a for a, b in zip(seconds, loop_seconds, strict=True))
    gain = statistics.median(a / b for a, b in zip(seconds, graphs_seconds, strict=True))
    with_graphs = (f"{1000 * statistics.median(graphs_seconds):.1f}", f"{gain:.2f}x")
    if not graphs.uses_graphs:
        with_graphs = ("failed" if device == "cuda" else "–", "–")
    return (
        f"{1000 * statistics.median(seconds):.1f}",
        f"{max(seconds) / min(seconds):.2f}",
        "–" if memory != memory else f"{memory:.2f} GB",
        f"{100 * statistics.median(shares):.1f} %",
        *with_graphs,
        f"{1000 * statistics.median(loop_seconds):.1f}",
        f"{ratio:.1f}x",
    )


def peak_flops(device: str, dtype: str) -> float:
    """The floating-point operations a second of a large matrix product: the fastest of three."""
    size, kind = PEAK_SIZE[device], torch.bfloat16 if dtype == "bfloat16" else torch.float32
    a, b = (torch.rand(size, size, device=device, dtype=kind) for _ in range(2))
    return float(2 * size**3 / min(timed(lambda: a @ b, device) for _ in range(3)))


def timed(compute: Callable[[], object], device: str) -> float:
    """Seconds until the device has finished."""
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    compute()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def federation(clients: int, samples: int, shape: tuple[int, ...], device: str) -> Federation:
    """Clients with random images and labels, and one test sample each."""
    rng = np.random.default_rng(0)
    own = samples + 1
    total = clients * own
    pool = Pool(rng.integers(0, 256, (total, *shape), np.uint8), rng.integers(0, 10, total), 10, scale=1 / 255)
    parts = np.split(np.arange(total), clients)
    train, test = tuple(part[:samples] for part in parts), tuple(part[samples:] for part in parts)
    none = tuple(np.zeros(0, np.int64) for _ in parts)
    return lay_out(pool, Partition(train, none, test, None), torch.float32, torch.device(device))


def device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device == "cuda" else platform.processor() or "cpu"


if __name__ == "__main__":
    main()
