"""Runs that never end by themselves: however fast a machine is, they last until something has been killed."""

from collections.abc import Collection

from storage import RunRecord, Store
from tests.worker.engines import eventually
from tests.worker.samples import rows

ENDLESS = {"training__rounds": 1_000_000, "training__participation": 1.0, "checkpoint_s": 0.2}


def resumed(store: Store, ids: Collection[int], epoch: int = 2) -> list[RunRecord]:
    """Waits until the runs have stored rounds in a later claim."""
    before = {run_id: store.queue.get(run_id).round for run_id in ids}

    def found() -> list[RunRecord]:
        runs = [store.queue.get(run_id) for run_id in ids]
        return runs if all(run.epoch >= epoch and run.round > before[run.id] for run in runs) else []

    return eventually(found)


def cancel_all(store: Store) -> None:
    store.queue.request([run.id for run in store.queue.runs() if run.is_active], "cancel")
    eventually(lambda: not any(run.is_active for run in store.queue.runs()))
    assert {run.status for run in store.queue.runs()} <= {"cancelled", "done"}


def differences_of_endless(store: Store, runs: Collection[RunRecord]) -> list[str]:
    """Cancels all runs, computes the rounds of these again without a disturbance, and compares all their rows."""
    cancel_all(store)
    rounds = {run.id: run.round for run in runs}
    twins = dict(zip(rounds, [run.id for run in store.queue.rerun(list(rounds))], strict=True))
    eventually(lambda: all(store.queue.get(twins[run_id]).round >= rounds[run_id] for run_id in rounds))
    cancel_all(store)
    problems = []
    for run_id, last in rounds.items():
        expected = [row for row in rows(store, twins[run_id]) if row[0] <= last]
        if store.queue.get(twins[run_id]).epoch != 1 or len(expected) != last + 1:  # round 0 is that before training
            problems.append(f"run {twins[run_id]}, to compare with, was disturbed")
        if [row for row in rows(store, run_id) if row[0] <= last] != expected:
            problems.append(f"run {run_id} differs from an undisturbed one")
    return problems
