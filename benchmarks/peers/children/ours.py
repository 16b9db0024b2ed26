"""Fedscape's rounds: a cohort and its batches, local training and aggregation. No evaluation, nothing stored."""

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers.turns import Job, Turns, save_arrays
from engine.config.schema import parse_experiment
from engine.core.devices import set_threads
from engine.core.params import SharedParams
from engine.datasets import Pool
from engine.federation.clients import Federation, lay_out
from engine.partitioners import Partition
from engine.simulation.simulate import Simulation


def federation(job: Job, test_samples: int) -> Federation:
    x, y = job.load()
    rows = np.arange(job.clients * job.samples).reshape(job.clients, job.samples)
    pool = Pool(x.reshape(-1, *x.shape[2:]), y.reshape(-1), job.num_classes, scale=1 / 255)
    none, test = tuple(rows[:, :0]), tuple(rows[:, :test_samples])
    return lay_out(pool, Partition(tuple(rows), none, test, None), torch.float32, torch.device(job.device))


def simulation(job: Job, rounds: int = 1_000_000, evaluate_every: int = 1, test_samples: int = 0) -> Simulation:
    training = {
        "rounds": rounds,
        "participation": job.cohort / job.clients,
        "batch_size": job.batch_size,
        "local_steps": job.local_steps,  # in passes over the samples, as the others' epochs
        "lr": job.lr,
    }
    raw = {
        "dataset": "digits",  # replaced by the job's data
        "partition": "iid",
        "model": job.model,
        "algorithms": [{"name": job.method, **job.options}],
        "training": training,
        "evaluation": {"every": evaluate_every},
        "device": job.device,
    }
    return Simulation(parse_experiment(raw).runs()[0], data=federation(job, test_samples))


def main() -> None:
    turns = Turns()
    job = turns.job
    set_threads(1)
    run = simulation(job)
    save_arrays(job.initial, _arrays(run.task.initial_model()))

    def weights() -> list[np.ndarray]:
        shared = run.algorithm.global_model(run.state, run.task)
        return _arrays(shared.params) if shared else []

    while True:
        turns.next(weights)
        cohort = run.task.cohort(turns.round)
        if cohort.size != job.cohort:
            raise SystemExit(f"a cohort of {cohort.size} clients, not {job.cohort}")
        run.state, diagnostics = run.algorithm.round(run.state, cohort, run.task)
        turns.samples = diagnostics.gradient_evaluations


def _arrays(params: SharedParams) -> list[np.ndarray]:
    return [_array(p) for p in params.values()]


def _array(parameter: Tensor) -> np.ndarray:
    array: np.ndarray = parameter.detach().cpu().numpy()
    return array


if __name__ == "__main__":
    main()
