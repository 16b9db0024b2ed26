"""Notes and tags of experiments and runs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("experiments", "runs"):  # the defaults are for existing rows
        op.add_column(table, sa.Column("note", sa.String(), nullable=False, server_default=""))
        op.add_column(table, sa.Column("tags", sa.String(), nullable=False, server_default=""))
