"""Dispatchers with workers as separate programs, and a way to wait for them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from storage import Store

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0  # each fork server imports torch, which is slow on busy cores
SERVE = "import sys; from engine.worker import serve; serve(sys.argv[1], slots=int(sys.argv[2]))"

T = TypeVar("T")


def start_engine(store: Store, slots: int = 1) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SERVE, store.url, str(slots)]
    return subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)


def state_of(pid: int) -> str:
    """R, S or D while the process runs, T while it is stopped, Z or nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def eventually(holds: Callable[[], T]) -> T:
    """Waits until ``holds`` returns something true, and returns it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := holds()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return answer
