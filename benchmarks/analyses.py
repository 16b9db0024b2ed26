"""How long the analyses take: a landscape, the same point by point, sharpness, and t-SNE of features.

    .venv/bin/python benchmarks/analyses.py [--models dnn mlr] [--points 41] [--samples 2000] [--threads 2]
        [--repeats 3]

Random 28x28 images. Prints the median wall-clock and processor seconds of the repeats. "point by point" evaluates one
whole network per point, as a generic loop over a grid does.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch.nn import functional as F

from engine.analyses.support.directions import filter_normalized, gaussian
from engine.analyses.support.hessian import Objective, top_eigenvalue, trace
from engine.analyses.support.probes import Samples
from engine.analyses.support.surface import Plane, mean_loss, surface
from engine.config.schema import parse_experiment
from engine.models import Model, build_model


def network(name: str) -> Model:
    raw = {"dataset": "digits", "partition": "iid", "model": name, "algorithms": ["fedavg"]}
    return build_model(parse_experiment(raw).runs()[0].model, (28, 28), 10)


def plane(model: Model, points: int) -> Plane:
    origin = model.initial(0)
    axis = torch.linspace(-1, 1, points)
    return Plane(origin, *(filter_normalized(gaussian(origin, 0, i), origin) for i in (0, 1)), axis, axis)


def point_by_point(model: Model, grid: Plane, samples: Samples) -> None:
    for b in grid.b:
        row = grid.row(b)
        for i in range(len(grid.a)):
            params = grid.along(row, slice(i, i + 1))
            mean_loss(model, {n: p[0] for n, p in params.items()}, samples)


def curvature(model: Model, samples: Samples) -> None:
    """The top eigenvalue and the trace, as in the table of sharpness."""
    loss = lambda params: F.cross_entropy(model.logits(params, samples.x), samples.y)  # noqa: E731
    objective, stream = Objective([loss], model.initial(0)), torch.Generator().manual_seed(0)
    top_eigenvalue(objective, objective.start, stream)
    trace(objective, objective.start, stream)


def embed(rng: np.random.Generator) -> None:
    """t-SNE of 1,000 features in ten groups, on one thread."""
    features = rng.normal(size=(1000, 128)) + 3 * rng.normal(size=(10, 128)).repeat(100, axis=0)
    with threadpool_limits(limits=1):
        TSNE(perplexity=30, init="pca", random_state=0, n_jobs=1).fit_transform(PCA(50).fit_transform(features))


def measured(what: str, work: Callable[[], object], repeats: int) -> None:
    taken = []
    for _ in range(repeats):
        clock, processor = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - clock, time.process_time() - processor))
    clock, processor = (statistics.median(column) for column in zip(*taken, strict=True))
    print(f"{what:40}{clock:10.2f} s{processor:10.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["dnn", "mlr"])
    for name, default in (("points", 41), ("samples", 2000), ("threads", 2), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    samples = Samples(torch.rand(options.samples, 28, 28), torch.randint(0, 10, (options.samples,)))
    print(
        f"{options.points} x {options.points} points, {options.samples} samples, {options.threads} thread(s), "
        f"torch {torch.__version__}\n{'':40}{'clock':>12}{'processor':>12}"
    )
    for name in options.models:
        model = network(name)
        grid = plane(model, options.points)
        measured(f"{name}, landscape", lambda m=model, o=grid: surface(m, o, samples), options.repeats)
        long = lambda m=model, o=grid: surface(m, o, samples, is_shortened=False)  # noqa: E731
        measured(f"{name}, whole networks together", long, 1)
        measured(f"{name}, point by point", lambda m=model, o=grid: point_by_point(m, o, samples), 1)
        measured(f"{name}, top eigenvalue and trace", lambda m=model: curvature(m, samples), options.repeats)
    measured("t-SNE of 1,000 features", lambda: embed(np.random.default_rng(0)), options.repeats)


if __name__ == "__main__":
    main()
