"""The Clusters and Layers tabs of a run; every choice is in the address."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.inside import cluster_number
from engine.analyses import AnalysisOptions
from engine.analyses.client_map import ClientMap
from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig
from engine.simulation.simulate import Simulation
from storage import Store
from tests.app import databases
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS, store_experiment

opened = partial(open_page, "run")

CONTEXTS: dict[str, Any] = {
    "name": "clusters and layers",
    "dataset": {"name": "contexts", "num_clients": 8, "num_contexts": 2, "samples_per_client": 20, "dim": 4},
    "partition": {"name": "natural"},
    "model": {"name": "dnn", "hidden": 4},
    "training": {"rounds": 6, "local_steps": 3, "batch_size": 5, "lr": 0.1, "participation": 0.5},
    "evaluation": {"every": 2},
    "algorithms": [
        {"name": "cgpfl_heur", "personal_lr": 0.1, "solve_rounds": 3},
        {"name": "plgu_lf", "D": 1},
        {"name": "cfl", "warmup": 5},
    ],
    "seeds": [0],
}
HEUR, LAYERS, ONE_CLUSTER = 1, 2, 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inside") / "fedscape.db"
    store = Store(f"sqlite:///{path}")
    store.ensure_schema()
    store_experiment(store, CONTEXTS)
    store.close()
    return path


@pytest.fixture
def store(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    yield from databases.copied(file, tmp_path / "fedscape.db", monkeypatch)


@pytest.fixture
def read_store(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    yield from databases.read(file, monkeypatch)


def tabs(page: AppTest) -> list[str]:
    return page.segmented_control(key="address_tab").options


@pytest.mark.slow
def test_clusters_are_shown_with_contexts_changes_and_costs(read_store: Store) -> None:
    text = words(opened(id=HEUR, tab="clusters"))
    for part in (
        "Do the clusters settle?",
        "numbers true contexts",
        "Which clients change cluster?",
        "Between rounds 5 and 6",
        "Do they match the true contexts?",
        "How far apart are the models?",
        "k-means takes a median of",
        "Why this many clusters?",
        "Whose models are alike?",
    ):
        assert part in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "step", "solved"),
    [
        ({"round": 0}, "1 and 2", 1),
        ({"round": 2}, "1 and 2", 2),
        ({"round": 4}, "3 and 4", 3),
        ({"round": 4, "since": "evaluated"}, "2 and 4", 3),
        ({"round": 4, "since": "first"}, "1 and 4", 3),
    ],
    ids=str,
)
def test_the_sliders_round_ends_the_shown_step_and_the_number_of_clusters_is_that_of_the_last_estimate(
    address: dict[str, Any], step: str, solved: int, read_store: Store
) -> None:
    at, values = read_store.metrics.scalars([HEUR], ["diagnostics.K_hat"])[HEUR]["diagnostics.K_hat"]
    taken = dict(zip(at.tolist(), values.tolist(), strict=True))[solved]
    text = words(opened(id=HEUR, tab="clusters", **address))
    assert f"Between rounds {step}" in text
    assert f"the heuristic chooses K = {taken:g}." in text and f"chose K = {taken:g} (round {solved})" in text


def test_the_terms_are_those_of_their_round_if_uploads_are_lost(empty_store: Store) -> None:
    store_experiment(empty_store, CONTEXTS | {"algorithms": CONTEXTS["algorithms"][:1], "system": {"drop_out": 0.5}})
    (run,) = empty_store.queue.runs()
    rounds = {r.round: r for r in empty_store.metrics.rounds(run.id) if "diagnostics.capacity" in r.arrays}
    assert len({len(r.arrays["diagnostics.capacity"]) for r in rounds.values()}) > 1
    for at, stored in rounds.items():
        found = cluster_number.of_run(run, at)
        assert found is not None and found.solved == at and found.used == stored.scalars["diagnostics.mu"]
        assert found.capacity.tolist() == stored.arrays["diagnostics.capacity"].tolist()
        assert found.spread.tolist() == stored.arrays["diagnostics.cost"].tolist()
    first, last = cluster_number.of_run(run, 0), cluster_number.of_run(run)
    assert first is not None and first.solved == min(rounds) and last is not None and last.solved == max(rounds)


def test_the_weight_changes_the_number_without_training(read_store: Store) -> None:
    used = read_store.metrics.scalars([HEUR], ["diagnostics.mu"])[HEUR]["diagnostics.mu"][1][-1]
    page = opened(id=HEUR, tab="clusters", mu=f"{used / 100:.4g}")
    assert "the heuristic chooses K = 1." in words(page) and f"The run used μ = {used:.4g}" in words(page)
    assert sum("the run's" in option for option in page.select_slider(key="address_mu").options) == 1


def test_a_run_with_one_cluster_shows_no_changes(read_store: Store) -> None:
    text = words(opened(id=ONE_CLUSTER, tab="clusters"))
    assert "1 cluster of 8 clients" in text and "Which clients change cluster?" not in text
    assert "When does a cluster split?" in text and "so no cluster splits" in text


def test_a_method_without_clusters_has_a_map_if_contexts_are_known(read_store: Store) -> None:
    page = opened(id=LAYERS, tab="clusters")
    assert "PLGU-LF has no clusters" in words(page) and "Whose models are alike?" in words(page)


def test_a_run_without_clusters_and_contexts_has_no_such_tab(empty_store: Store) -> None:
    store_experiment(empty_store, DIGITS | {"partition": {"name": "iid", "num_clients": 4}, "algorithms": ["fedavg"]})
    assert not {"Clusters", "Layers"} & set(tabs(opened(id=1)))


@pytest.mark.slow
def test_a_computed_map_is_drawn_and_confirmed_by_the_replay(store: Store) -> None:
    put_on_a_map(store, HEUR)
    page = opened(id=HEUR, tab="clusters", by="context", trails="on", round=4)
    assert "end exactly at the stored models" in words(page)
    assert "the mean of their true context" in words(page)
    assert page.segmented_control(key="address_by").value == "context"


def test_layers_are_shown_by_client_and_round_and_by_frequency(read_store: Store) -> None:
    page = opened(id=LAYERS, tab="layers")
    text = words(page)
    assert "Clusters" in tabs(page) and "Layers" in tabs(page)
    for part in (
        "Which layers are personal?",
        "Before training in round 6",
        "did not participate",
        "was personal in",
        "has the highest mean score",
        "add up to 1",
    ):
        assert part in text
    assert "1 · body." in text or "2 · head" in text


def test_layers_of_round_zero_are_those_of_the_first(read_store: Store) -> None:
    text = words(opened(id=LAYERS, tab="layers", round=0))
    assert "Over 4 clients" in text and "Before training in round 1." in text


def put_on_a_map(store: Store, run_id: int) -> None:
    """Computes the map like a worker."""
    config = RunConfig.from_dict(store.queue.get(run_id).config)
    simulation = Simulation(config)
    for _ in simulation.rounds():
        pass
    found = ClientMap(AnalysisOptions()).compute(Subject.load(config, simulation.models(), simulation.round))
    store.artifacts.register(run_id, None, store.artifacts.write_file(run_id, "model-last", 6, b"models"))
    requested = store.analyses.request(run_id, "client_map", {})
    claimed = store.analyses.claim()
    assert claimed is not None and claimed.id == requested.id
    file = store.artifacts.write_file(run_id, "analysis-client_map", 6, found.to_bytes())
    store.analyses.finish(claimed.id, claimed.epoch, "done", result=file)
