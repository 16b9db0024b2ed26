"""The choices of studies, and unique positions of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

FIRST_OF_RERUNS = 1_000_000


def upgrade() -> None:
    _make_positions_unique()
    op.create_index("ix_runs_experiment_id_position", "runs", ["experiment_id", "position"], unique=True)
    op.create_table(
        "choices",
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("entry", sa.String(), nullable=False),
        sa.Column("split", sa.BigInteger(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("error", sa.Double(), nullable=True),
        sa.Column("considered", sa.Integer(), nullable=False),
        sa.Column("tied", sa.Integer(), nullable=False),
        sa.Column("chosen_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_choices_experiment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("experiment_id", "entry", "split", name="pk_choices"),
    )


def _make_positions_unique() -> None:
    """Two requests at once could repeat runs at one position: the later ones get positions of their own."""
    runs = sa.table("runs", sa.column("id"), sa.column("experiment_id"), sa.column("position"))
    place = sa.func.row_number().over(partition_by=(runs.c.experiment_id, runs.c.position), order_by=runs.c.id)
    placed = sa.select(runs.c.id, place.label("place")).subquery()
    later = sa.select(placed.c.id).where(placed.c.place > 1)
    op.execute(sa.update(runs).where(runs.c.id.in_(later)).values(position=FIRST_OF_RERUNS + runs.c.id))
