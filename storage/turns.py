"""The order in which runs are claimed: owners take turns, and each owner's runs are ordered by priority.

A queued run's turn is the number of running runs of its owner, plus its position among the owner's queued runs. The
lowest turn is claimed first; among equal turns, that of the owner whose last claim is oldest. With one owner this is
the order by priority.
"""

from functools import cache
from typing import Any

import sqlalchemy as sa

from storage.models import Experiment, Run, Share

QUEUED = sa.and_(Run.status == "queued", Run.deleted_at.is_(None))
CLAIM_ORDER = (Run.priority.desc(), Run.rank, Run.id)  # of one owner's runs


@cache
def turns(*, of_ids: bool = False, with_limit: bool = False, with_held: bool = False) -> sa.Subquery:
    """[id, owner, running, turn, served_at] of queued runs; cached, so that SQLAlchemy finds the statement compiled.

    Parameters: ``of_ids`` keeps the runs ``run_ids``. ``with_held`` leaves out those of the owners ``held``, and
    ``with_limit`` those that would exceed ``max_running`` of an owner; runs without an owner have no limit.
    """
    busy = (
        sa.select(Experiment.owner, sa.func.count().label("running"))
        .join(Run)
        .where(Run.status == "running")
        .group_by(Experiment.owner)
        .subquery()
    )
    place = sa.func.row_number().over(partition_by=Experiment.owner, order_by=CLAIM_ORDER)
    running = sa.func.coalesce(busy.c.running, 0)
    query = (
        sa.select(Run.id, Experiment.owner, running.label("running"), (running + place).label("turn"), Share.served_at)
        .select_from(Run)
        .join(Experiment)
        .outerjoin(busy, busy.c.owner == Experiment.owner)
        .outerjoin(Share, Share.owner == Experiment.owner)
        .where(QUEUED)
    )
    if of_ids:
        query = query.where(Run.id.in_(sa.bindparam("run_ids", expanding=True)))
    if with_held:
        query = query.where(Experiment.owner.not_in(sa.bindparam("held", expanding=True)))
    found = query.subquery()
    if not with_limit:
        return found
    in_limit = found.c.turn <= sa.bindparam("max_running", type_=sa.Integer)
    return sa.select(found).where((found.c.owner == "") | in_limit).subquery()


@cache
def next_run(of_ids: bool, with_limit: bool, with_held: bool) -> sa.Select:
    """[id, owner] of the run whose turn it is, locked for the transaction; the parameters are those of ``turns``."""
    found = turns(of_ids=of_ids, with_limit=with_limit, with_held=with_held)
    query = sa.select(Run.id, found.c.owner).join(found, found.c.id == Run.id).where(QUEUED)
    return query.order_by(*in_turn(found)).limit(1).with_for_update(skip_locked=True, of=Run)


def in_turn(found: sa.Subquery) -> tuple[Any, ...]:
    """The order of ``turns``, for a query that joins it with runs.

    Runs are claimed in this order if none ends meanwhile. Among equal turns, the owner with more running runs comes
    first: the others will have had a claim since. Each owner has at most one run per turn.
    """
    never_served_first = found.c.served_at.is_not(None)
    return (found.c.turn, found.c.running.desc(), never_served_first, found.c.served_at, Run.id)
