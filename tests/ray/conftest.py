"""One Ray cluster of three nodes for all tests, in a network namespace of its own; see .ci/ray."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.support import ray_nodes
from tests.support.ray_nodes import HEAD, RayNodes

SERVE = "import sys; from engine.worker import serve; serve(sys.argv[1])"
CPUS = {HEAD: 1, 2: 1, 3: 1}

Dispatch = Callable[[], subprocess.Popen]


@pytest.fixture(scope="session")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes.running(CPUS) as nodes:
        yield nodes


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.fixture
def dispatch(nodes: RayNodes, store: Store, tmp_path: Path) -> Iterator[Dispatch]:
    """Starts a dispatcher on the head; in another folder, since Ray lets workers import from that of the driver."""
    started: list[subprocess.Popen] = []
    settings = {
        "FEDSCAPE_EXECUTOR": "ray",
        "RAY_ADDRESS": nodes.address,
        "ARTIFACTS_DIR": str(store.artifacts.folder),
        "DATA_DIR": str(tmp_path / "data"),
        "FEDSCAPE_NICE": "0",
    }

    def dispatch() -> subprocess.Popen:
        environment = nodes.environment | settings
        started.append(subprocess.Popen([sys.executable, "-c", SERVE, store.url], env=environment, cwd=tmp_path))
        return started[-1]

    yield dispatch
    for process in started:
        process.kill()
        process.wait()
    time.sleep(0.5)  # until Ray has killed the workers, which hold CPUs of the next test
