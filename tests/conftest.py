"""What every test relies on: annotations that are checked, one torch thread, a database of its own."""

import os
from pathlib import Path

import jaxtyping

# Before anything of the engine is imported: from here on shapes and types in its signatures are checked at each call.
jaxtyping.install_import_hook("engine", "beartype.beartype")

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("local", deadline=None, max_examples=25)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """A database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'fedscape.db'}"
