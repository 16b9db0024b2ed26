"""Alembic's entry point: runs revisions on the connection and in the transaction given by ``storage/schema.py``."""

from alembic import context

from storage.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite rebuilds a table to change it
    transactional_ddl=True,  # works, since we begin transactions ourselves
)
context.run_migrations()
