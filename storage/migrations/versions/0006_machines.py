"""Resources of each machine, and why it gets no work."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("cpus", "gpus"):  # the defaults are for existing rows
        op.add_column("engines", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.add_column("engines", sa.Column("problem", sa.String(), nullable=False, server_default=""))
