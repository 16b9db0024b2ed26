"""Small tables with answers that can be worked out in the head."""

import pandas as pd


def clients(test_size: int = 10, **accuracies: list[list[float]]) -> pd.DataFrame:
    """``a=[[seed 0's clients], [seed 1's]]`` -> what the charts take; every client has ``test_size`` test samples."""
    rows = []
    run = 0
    for method, seeds in accuracies.items():
        for seed, values in enumerate(seeds):
            run += 1
            rows += [
                {
                    "run": run,
                    "method": method,
                    "algorithm": method,
                    "seed": seed,
                    "client": i,
                    "accuracy": value,
                    "test_size": test_size,
                }
                for i, value in enumerate(values)
            ]
    return pd.DataFrame(rows)


def series(method: str, seed: int, **values: list[float]) -> pd.DataFrame:
    """``mean=[...]`` over rounds 0, 1, ...; ``mean`` and ``lowest5`` are of the personalized model."""
    rows = [
        {
            "run": seed,
            "method": method,
            "algorithm": method,
            "seed": seed,
            "round": at,
            "value": value,
            "name": f"personalized.{name}" if name in ("mean", "lowest5") else name,
        }
        for name, own in values.items()
        for at, value in enumerate(own)
    ]
    return pd.DataFrame(rows)
