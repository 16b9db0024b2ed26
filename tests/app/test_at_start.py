"""Imports of the app: without sign-in, its modules are not loaded."""

import subprocess
import sys

import pytest

ONLY_FOR_SIGN_IN = {"authlib", "joserfc", "cryptography", "httpx", "app.access.cookie", "engine.worker.dispatcher"}
MODULES = ("app.__main__", "app.server.sign_in", "app.server.routes", "app.components.page")


@pytest.mark.slow
def test_sign_in_code_is_not_loaded_without_sign_in() -> None:
    program = f"import sys, {', '.join(MODULES)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not ONLY_FOR_SIGN_IN & set(loaded)
