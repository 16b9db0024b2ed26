"""Statements that SQLAlchemy compiles once per process, not once per database."""

from collections.abc import Callable
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.default import DefaultDialect


def compile_once(replace: Callable[[Any, str, Any], None]) -> None:
    """Changes SQLAlchemy by ``replace``, which is ``setattr`` or that of a monkeypatch."""

    def parts(dialect: Any) -> tuple[Any, ...]:
        return type(dialect), dialect.dbapi, getattr(dialect, "_json_serializer", None)

    replace(sa, "create_engine", partial(sa.create_engine, execution_options={"compiled_cache": {}}))
    # A compiled statement is looked up by its dialect, and each engine has a dialect of its own.
    replace(DefaultDialect, "__eq__", lambda one, other: parts(one) == parts(other))
    replace(DefaultDialect, "__hash__", lambda one: hash(parts(one)))
