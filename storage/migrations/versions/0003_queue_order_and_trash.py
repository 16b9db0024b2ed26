"""The order of the queue, the trash for deleted runs, and saved views."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:  # the defaults are for existing rows
        runs.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("rank", sa.Integer(), nullable=False, server_default="0"))
        runs.add_column(sa.Column("deleted_at", sa.DateTime(), nullable=True))
        runs.create_index("ix_runs_deleted_at", ["deleted_at"])
    op.create_table(
        "saved_views",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("page", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("query", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.UniqueConstraint("page", "name"),
        sqlite_autoincrement=True,
    )
