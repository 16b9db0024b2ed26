"""Periodic cleanup by the dispatcher."""

from datetime import timedelta

from engine.worker.limits import enforce_model_limit
from engine.worker.recorder import CHECKPOINT_KINDS
from storage import Store

TRASH_RETENTION = timedelta(days=7)
MACHINE_RETENTION = timedelta(days=1)  # since the last heartbeat


def clean_up(store: Store) -> None:
    """Permanently deletes old trash, checkpoints of finished runs (left by a kill), and models above the disk limit.

    Also deletes machines without a heartbeat for a day from the list of machines.
    """
    if count := store.trash.empty(TRASH_RETENTION):
        runs = "1 run" if count == 1 else f"{count} runs"
        message = f"{runs} deleted more than {TRASH_RETENTION.days} days ago were removed from the trash"
        store.events.add(None, "info", "trash", message)
    for kind in CHECKPOINT_KINDS:
        store.artifacts.drop_of_finished(kind)
    store.engines.forget(MACHINE_RETENTION)
    enforce_model_limit(store)
