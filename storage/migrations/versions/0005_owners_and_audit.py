"""Owners of experiments, what they have used, and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The default is for existing rows: they have no owner.
    op.add_column("experiments", sa.Column("owner", sa.String(), nullable=False, server_default=""))
    op.create_index("ix_experiments_owner", "experiments", ["owner"])
    op.create_table(
        "shares",
        sa.Column("owner", sa.String(), primary_key=True),
        sa.Column("served_at", sa.DateTime(), nullable=False),
    )
    op.create_table(
        "past_compute",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("at", sa.DateTime(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sqlite_autoincrement=True,
    )
