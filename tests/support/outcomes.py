"""Outcomes of runs with known numbers."""

import numpy as np

from engine.core.results import RoundResult, RunResult

COSTS = {"bytes_up": 8.0, "bytes_down": 16.0, "gradient_evaluations": 40.0, "seconds": 0.25}


def a_round(number: int, accuracy: list[float], **arrays: list) -> RoundResult:
    values = {"personalized.accuracy": np.float32(accuracy), **{n: np.float64(a) for n, a in arrays.items()}}
    scalars = {
        **COSTS,
        "personalized.mean": float(np.nanmean(accuracy)),
        "diagnostics.K_hat": 2.0,
        "personalized.weighted_mean": float(np.nanmean(accuracy)),
    }
    return RoundResult(number, np.array([0, 2], np.int32), scalars, values, np.array([0, 1, 1], np.int16))


def an_outcome(**changes: object) -> RunResult:
    values = {
        "experiment": "e",
        "algorithm": "ditto",
        "label": "Ditto",
        "hparams": {"lam": 1.0},
        "seed": 3,
        "status": "done",
        "rounds": [a_round(0, [0.25, 0.5, 0.75]), a_round(1, [1.0, 0.5, 0.75]), a_round(2, [0.5, 0.5, 0.5])],
        "provenance": {"code": "1"},
        "partition": {"test_sizes": [4, 4, 4], "val_sizes": [0, 0, 0]},
    }
    return RunResult(**(values | changes))
