"""One Ray cluster of three nodes for all tests, in a network namespace of its own; see .ci/ray."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.support import ray_nodes
from tests.support.machines import Program
from tests.support.ray_nodes import HEAD, RayNodes

SERVE = "import sys; from engine.worker import serve; serve(sys.argv[1])"
CPUS = {HEAD: 1, 2: 1, 3: 1}

Dispatch = Callable[..., Program]


@pytest.fixture(scope="session")
def nodes() -> Iterator[RayNodes]:
    with ray_nodes.running(CPUS) as nodes:
        yield nodes


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.fixture
def dispatch(nodes: RayNodes, store: Store, tmp_path: Path) -> Iterator[Dispatch]:
    """Starts a dispatcher on a node; in another folder, since Ray lets workers import from that of the driver."""
    started: list[Program] = []
    settings = {
        "FEDSCAPE_EXECUTOR": "ray",
        "RAY_ADDRESS": nodes.address,
        "ARTIFACTS_DIR": str(store.artifacts.folder),
        "DATA_DIR": str(tmp_path / "data"),
        "FEDSCAPE_NICE": "0",
    }

    def dispatch(number: int = HEAD) -> Program:
        command, environment = [sys.executable, "-c", SERVE, store.url], nodes.environment | settings
        started.append(nodes.machines[number].start(command, environment, "dispatcher", cwd=tmp_path))
        return started[-1]

    yield dispatch
    for dispatcher in started:
        dispatcher.kill()
