"""Seconds per round of FedAvg with each setting that acts on uploads, from attacks to privacy.

    .venv/bin/python -m benchmarks.dials [--rounds 10] [--clients 40] [--threads 1] [--repeats 3]

N clients with MNIST-shaped random data of 300 to 1,500 samples, local_steps 10, batch 25, training and aggregation,
without evaluation. Settings take turns; prints medians and their ratio to the run without any.
"""

import argparse
import statistics
from typing import Any

import torch

from benchmarks.backends import federation
from engine.config.schema import parse_experiment
from engine.core.devices import set_threads
from engine.federation.clients import Federation
from engine.simulation.simulate import Simulation

OFF = "off"
SETTINGS: dict[str, dict[str, Any]] = {
    OFF: {},
    "sign_flip": {"attack": {"name": "sign_flip", "scale": 5}},
    "median": {"aggregator": "median"},
    "multi_krum": {"aggregator": "multi_krum"},
    "geometric_median": {"aggregator": "geometric_median"},
    "qsgd, 4 bits": {"compression": {"name": "qsgd", "bits": 4}},
    "top 1 %": {"compression": {"name": "top_k", "share": 0.01}},
    "deadline": {"system": {"compute_s": 0.0136, "deadline_s": 3.4}},
    "private clients": {"privacy": {"unit": "client"}},
    "private samples": {"privacy": {"unit": "sample"}},
}


def seconds(model: str, setting: str, rounds: int, data: Federation) -> float:
    """Median seconds of training and aggregation per round, after one warm-up round."""
    raw = {
        "dataset": "digits",
        "partition": "iid",
        "model": model,
        "device": "cpu",
        "algorithms": ["fedavg"],
        "training": {"rounds": rounds + 1, "local_steps": 10, "batch_size": 25, "lr": 0.005},
        "evaluation": {"every": rounds + 1},
        **SETTINGS[setting],
    }
    run = Simulation(parse_experiment(raw).runs()[0], data=data)
    taken = [result.scalars["seconds"] for result in run.rounds()]
    return statistics.median(taken[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 10), ("clients", 40), ("threads", 1), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    set_threads(options.threads)
    data = federation(options.clients)
    print(f"N={options.clients}, {options.threads} thread(s), torch {torch.__version__}")
    print(f"{'setting':18}" + "".join(f"{model + ' ms':>12}{'x':>6}" for model in ("mlr", "dnn")))
    found: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for model in ("mlr", "dnn"):
        taken: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for _ in range(options.repeats):
            for setting in SETTINGS:
                taken[setting].append(seconds(model, setting, options.rounds, data))
        for setting, values in taken.items():
            found[setting].append(statistics.median(values))
    for setting, medians in found.items():
        cells = (f"{1000 * m:12.1f}{m / off:6.2f}" for m, off in zip(medians, found[OFF], strict=True))
        print(f"{setting:18}" + "".join(cells))


if __name__ == "__main__":
    main()
