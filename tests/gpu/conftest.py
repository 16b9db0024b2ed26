"""The devices of these tests. `make gpu` reads no other conftest.py, so that they need nothing but the engine."""

import pytest


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """``cpu`` tests the test; ``cuda`` is selected by `make gpu`."""
    return str(request.param)
