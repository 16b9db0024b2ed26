"""What the dispatcher clears away now and then."""

import logging
from datetime import timedelta

from engine.worker.limits import keep_within
from engine.worker.recorder import CHECKPOINT
from storage import Store

KEPT_IN_TRASH = timedelta(days=7)

log = logging.getLogger(__name__)


def tidy(store: Store) -> None:
    """Deletes for good what was deleted a week ago, the checkpoints that a kill has left of finished runs, and models
    that take more of the disk than they may.
    """
    try:
        if count := store.trash.empty(KEPT_IN_TRASH):
            runs = "1 run" if count == 1 else f"{count} runs"
            message = f"{runs} deleted more than {KEPT_IN_TRASH.days} days ago can no longer be brought back"
            store.events.add(None, "info", "trash", message)
        store.artifacts.drop_of_finished(CHECKPOINT)
        keep_within(store)
    except OSError as error:  # the rows are gone; the next start sweeps up their files
        log.warning("files of deleted runs could not be removed (%s); check the folder's owner", error)
