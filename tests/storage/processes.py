"""Scripts in separate processes, with a ``store`` on the test's database."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from storage import Store

ROOT = Path(__file__).parents[2]
BEFORE = """
import os, sys, time
from storage import SchemaOutdated, Store
from tests.storage.samples import *
store = Store(sys.argv[1])
for _ in range(int(sys.argv[2]) - 1):
    if not os.fork():
        break
"""
AFTER = """
store.close()
"""


def start(script: str, store: Store, times: int = 1) -> subprocess.Popen[str]:
    """Runs the script in ``times`` concurrent processes that share their pipes."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", BEFORE + script + AFTER, store.url, str(times)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def started(script: str, store: Store) -> subprocess.Popen[str]:
    """Returns once the process has printed its first line."""
    process = start(script, store)
    assert process.stdout is not None
    assert process.stdout.readline() in ("inside\n", "locked\n")
    return process


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
