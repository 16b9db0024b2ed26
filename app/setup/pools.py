"""The data of the preview: pools read once a process, and the split that a run would train on."""

import dataclasses
import json
from typing import Any

import streamlit as st

from app import data_paths
from engine.config import Choice, RunConfig
from engine.datasets import Pool, Progress
from engine.errors import FedscapeError
from engine.federation import load_pool, partition_pool
from engine.partitioners import summarize
from engine.registry import DATASETS
from engine.simulate import default_data_dir


def is_present(dataset: Choice) -> bool:
    """Whether the data can be read now, without a download."""
    if data_paths.problem(dataset.to_dict()):
        return False
    return bool(DATASETS.get(dataset.name).make(dataset.options).present(default_data_dir()))


def num_classes(run: RunConfig | None) -> int | None:
    """Classes of a data set that can be read now."""
    if run is None or not is_present(run.dataset):
        return None
    try:
        return pool_of(run).num_classes
    except FedscapeError:
        return None


def pool_of(run: RunConfig) -> Pool:
    """Raises DataUnavailable. Files of the reader's own are read again after ten minutes."""
    data_paths.check(run.dataset.to_dict())
    is_drawn = "num_clients" in run.dataset.options.model_dump()  # generated sets differ with the seed
    return _pool(run.dataset.name, json.dumps(run.dataset.to_dict()), run.seed if is_drawn else 0, run)


def split_of(run: RunConfig) -> dict[str, Any]:
    """The ``partition`` that this run would be stored with. Raises DataUnavailable or ImpossiblePartition."""
    what = json.dumps([run.dataset.to_dict(), run.partition.to_dict(), run.seed], sort_keys=True)
    return _split(what, run)


def download(run: RunConfig, progress: Progress) -> None:
    """Fetch a data set that is not on this machine. Raises DataUnavailable."""
    load_pool(run, default_data_dir(), progress)


def sample_bytes(run: RunConfig) -> int:
    """Memory of one sample."""
    pool = pool_of(run)
    return pool.x.nbytes // max(len(pool.y), 1)


@st.cache_resource(max_entries=3, ttl=600, show_spinner="Reading the data")
def _pool(name: str, options: str, seed: int, _run: RunConfig) -> Pool:
    return load_pool(_run, default_data_dir())


@st.cache_data(max_entries=200, ttl=600, show_spinner=False)
def _split(what: str, _run: RunConfig) -> dict[str, Any]:
    pool = pool_of(_run)
    return dataclasses.asdict(summarize(pool, partition_pool(_run, pool)))
