"""Rooms, their readers and the readers' answers."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rooms",
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("lecturer_at", sa.DateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.JSON(), nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("shows_answers", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("code", name="pk_rooms"),
    )
    op.create_table(
        "room_readers",
        sa.Column("room", sa.String(), nullable=False),
        sa.Column("reader", sa.String(), nullable=False),
        sa.Column("seen_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(["room"], ["rooms.code"], name="fk_room_readers_room", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("room", "reader", name="pk_room_readers"),
    )
    op.create_table(
        "room_answers",
        sa.Column("room", sa.String(), nullable=False),
        sa.Column("question", sa.String(), nullable=False),
        sa.Column("reader", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["room", "reader"],
            ["room_readers.room", "room_readers.reader"],
            name="fk_room_answers_room_reader",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("room", "question", "reader", name="pk_room_answers"),
    )
