"""Progress, owner and control requests of analyses."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("analyses") as analyses:  # the defaults are for existing rows
        analyses.add_column(sa.Column("progress", sa.Double(), nullable=False, server_default="0"))
        analyses.add_column(sa.Column("epoch", sa.Integer(), nullable=False, server_default="0"))
        analyses.add_column(sa.Column("control", sa.String(), nullable=False, server_default=""))
        analyses.add_column(sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
        analyses.add_column(sa.Column("started_at", sa.DateTime(), nullable=True))
        analyses.add_column(sa.Column("finished_at", sa.DateTime(), nullable=True))
