from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Tables without rows."""
    found = Store(f"sqlite:///{tmp_path}/a.db")
    found.ensure_schema()
    yield found
    found.close()
