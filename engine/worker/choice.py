"""Chooses the executor: FEDSCAPE_EXECUTOR, by default ``local``."""

import os
from collections.abc import Collection
from functools import partial

from engine.core.environment import whole_number
from engine.core.errors import InvalidConfig
from engine.core.paths import default_data_dir
from engine.worker.executor import Executor
from engine.worker.local_executor import LocalExecutor
from engine.worker.slots import plan_slots
from storage import Store

LOCAL, RAY = KINDS = ("local", "ray")


def executor_kind(store: Store) -> str:
    """FEDSCAPE_EXECUTOR. Raises InvalidConfig if there is no such executor, or if it cannot use the database."""
    kind = os.environ.get("FEDSCAPE_EXECUTOR", "").strip() or LOCAL
    if kind not in KINDS:
        raise InvalidConfig([f"FEDSCAPE_EXECUTOR: {kind!r}, must be {' or '.join(KINDS)}"])
    if kind == RAY and not store.url.startswith("postgresql"):
        why = "workers on other machines write to the database themselves, which an SQLite file does not allow"
        raise InvalidConfig([f"FEDSCAPE_EXECUTOR=ray needs DATABASE_URL=postgresql://...: {why}"])
    return kind


def make_executor(
    store: Store, slots: int | None = None, run_ids: Collection[int] | None = None, problem: str = ""
) -> Executor:
    """The executor, with at most ``slots``, or one for each of ``run_ids``. Raises InvalidConfig.

    ``problem`` is the problem of an earlier executor, shown until the new one has connected.
    """
    if executor_kind(store) == RAY:
        slots = slots or whole_number("FEDSCAPE_SLOTS")
        return _ray_executor(store, slots if run_ids is None else min(slots or len(run_ids), len(run_ids)), problem)
    if run_ids is None:
        return LocalExecutor(slots)
    plan = plan_slots(slots)
    return LocalExecutor(min(len(plan), len(run_ids)), plan[0].threads)  # each with the threads of a full set


def _ray_executor(store: Store, max_slots: int | None, problem: str) -> Executor:
    from engine.worker.cluster_process import ClusterProcess
    from engine.worker.ray_cluster import RayCluster, ray_address
    from engine.worker.ray_executor import RayExecutor

    folders = {"ARTIFACTS_DIR": store.artifacts.folder, "DATA_DIR": default_data_dir().absolute()}
    address = ray_address()
    return RayExecutor(ClusterProcess(partial(RayCluster, address), address), folders, max_slots, problem=problem)
