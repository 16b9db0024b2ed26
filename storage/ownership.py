"""The check (fence) that keeps former owners of a run from writing to it."""

from typing import Any

import sqlalchemy as sa

from storage.errors import Fenced
from storage.models import Run
from storage.records import Control


def update_owned(connection: sa.Connection, run_id: int, epoch: int, **values: Any) -> Control:
    """Updates a running run under this claim, else raises Fenced. Returns the pending control request.

    Call it first in a transaction: the row lock then keeps the claim valid until the commit.
    """
    owned = sa.update(Run).where(Run.id == run_id, Run.epoch == epoch, Run.status == "running")
    row = connection.execute(owned.values(**values).returning(Run.control)).one_or_none()
    if row is None:
        raise Fenced(run_id, epoch)
    return row.control
