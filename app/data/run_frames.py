"""Tables of what runs recorded: a row per run and client, or per run and round."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from storage import RunRecord

_RUN = ["run", "label", "algorithm", "split", "seed"]


def by_client(
    ids: Sequence[int],
    arrays: Mapping[int, np.ndarray],
    clients: Mapping[int, np.ndarray],
    sizes: Mapping[int, Sequence[int] | None],
) -> pd.DataFrame:
    """[run, client, accuracy, test_size], without clients that have no accuracy."""
    parts = []
    for run_id in (i for i in ids if i in arrays):
        accuracy = arrays[run_id]
        own: Sequence[float] = sizes.get(run_id) or [math.nan] * len(accuracy)
        part = pd.DataFrame({"run": run_id, "client": clients[run_id], "accuracy": accuracy, "test_size": own})
        parts.append(part[np.isfinite(accuracy)])
    return joined(parts, ["run", "client", "accuracy", "test_size"])


def labeled(table: pd.DataFrame, of: Sequence[RunRecord], columns: list[str]) -> pd.DataFrame:
    """Adds label, algorithm, split and seed to rows that have a ``run``."""
    if table.empty:
        return pd.DataFrame(columns=[*_RUN, *columns])
    rows = {run.id: (run.label, run.algorithm, run.split, run.seed) for run in of}
    heads = pd.DataFrame.from_dict(rows, orient="index", columns=_RUN[1:])
    return table.join(heads, on="run")[[*_RUN, *columns]]


def joined(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=columns)
