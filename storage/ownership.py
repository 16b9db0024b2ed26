"""The one check that keeps an old owner of a run from writing into it."""

from typing import Any

import sqlalchemy as sa

from storage.errors import Fenced
from storage.models import Run
from storage.records import Control


def update_owned(connection: sa.Connection, run_id: int, epoch: int, **values: Any) -> Control:
    """Writes to the run if it is still running under this claim, else raises Fenced. Answers what it is asked to do.

    It comes first in a transaction: the rest of the transaction then happens to a run that is ours.
    """
    owned = sa.update(Run).where(Run.id == run_id, Run.epoch == epoch, Run.status == "running")
    row = connection.execute(owned.values(**values).returning(Run.control)).one_or_none()
    if row is None:
        raise Fenced(run_id, epoch)
    return row.control
