"""Alembic's entry: runs revisions on the connection, and in the transaction, that ``storage/schema.py`` hands over."""

from alembic import context

from storage.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite changes a table by building it anew
    transactional_ddl=True,  # it can, since we begin transactions ourselves
)
context.run_migrations()
