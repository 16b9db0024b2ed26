"""The Landscape and Features tabs draw the findings; their choices are in the address."""

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.analyses.support.loaded_run import Subject
from engine.config.schema import RunConfig
from engine.core.findings import Findings
from engine.core.registry import ANALYSES
from engine.simulation.simulate import Simulation
from storage import Store
from tests.app.pages import open_page, words

DITTO, LOCAL_TRAIN = 5, 3
QUICK: dict[str, dict[str, Any]] = {
    "landscape": {"points": 5, "samples": 50},
    "plane": {"points": 5, "samples": 50},
    "sharpness": {"samples": 50, "vectors": 2, "steps": 2},
    "features": {"samples": 40},
}


def subject_of(file: Path, run_id: int) -> Subject:
    store = Store(f"sqlite:///{file}")
    simulation = Simulation(RunConfig.from_dict(store.queue.get(run_id).config))
    store.close()
    list(simulation.rounds())
    return Subject(simulation.config, simulation.task, simulation.algorithm, simulation.models(), simulation.round)


def put(store: Store, run_id: int, kind: str, params: dict[str, Any], found: Findings) -> None:
    store.analyses.request(run_id, kind, params)
    claimed = store.analyses.claim()
    file = store.artifacts.write_file(run_id, f"analysis-{kind}", 5, found.to_bytes())
    store.analyses.finish(claimed.id, claimed.epoch, "done", result=file)


def compute(subject: Subject, kind: str, params: dict[str, Any]) -> Findings:
    entry = ANALYSES.get(kind)
    return entry.make(entry.options(**QUICK[kind], **params)).compute(subject)


@pytest.fixture(scope="module")
def computed(filled_file: Path) -> list[tuple[int, str, dict[str, Any], Findings]]:
    """The default analyses of the tabs, for a run with a global model and one without."""
    requested = [("landscape", {}), ("sharpness", {}), ("sharpness", {"of": "clients"}), ("features", {})]
    ditto, alone = subject_of(filled_file, DITTO), subject_of(filled_file, LOCAL_TRAIN)
    return [
        *((DITTO, kind, params, compute(ditto, kind, params)) for kind, params in [*requested, ("plane", {})]),
        *((LOCAL_TRAIN, kind, params, compute(alone, kind, params)) for kind, params in requested),
    ]


@pytest.fixture
def analysed(filled_store: Store, computed: list[tuple[int, str, dict[str, Any], Findings]]) -> Store:
    for answer in computed:
        put(filled_store, *answer)
    return filled_store


def opened(run_id: int, tab: str, **address: str) -> AppTest:
    return open_page("run", id=run_id, tab=tab, **address)


def titles(at: AppTest) -> str:
    """The titles in and above the figures."""
    return "\n".join([*(s.value for s in at.subheader), *(chart.proto.spec for chart in at.get("plotly_chart"))])


@pytest.mark.slow
def test_before_it_is_computed_each_analysis_has_a_button_or_a_reason(filled_store: Store) -> None:
    assert words(opened(DITTO, "landscape")).count("models, but") == 1  # not once for each of its four panels
    assert "models, but" in words(opened(DITTO, "features"))
    for kind in ("last", "best"):
        file = filled_store.artifacts.write_file(DITTO, f"model-{kind}", 5, b"models")
        filled_store.artifacts.register(DITTO, None, file)
    at = opened(DITTO, "landscape", client="3", which="best", on="train")
    labels = [button.label for button in at.button]
    expected = ["Compute landscape", "Compute plane", "Measure sharpness", "Measure all clients"]
    assert [label for label in labels if label in expected] == expected
    next(button for button in at.button if button.label == "Compute landscape").click().run()
    (requested,) = filled_store.analyses.list(DITTO)
    assert (requested.kind, requested.params) == ("landscape", {"client": 3, "which": "best", "data": "train"})
    entry = ANALYSES.get("landscape")
    assert entry.options(**requested.params).client == 3


@pytest.mark.slow
def test_the_landscape_and_a_table_of_sharpness_show_both_models_on_the_chosen_data(analysed: Store) -> None:
    at = opened(DITTO, "landscape")
    assert len(at.get("plotly_chart")) == 5  # two surfaces, two planes, clients
    (table,) = [frame.value for frame in at.dataframe]
    assert table["Model"].tolist() == ["global", "global", "client 0's", "client 0's"]
    assert "±" in table["Trace"].iloc[0] and "Rank correlation" in words(at)
    own = titles(at)
    assert "Global model on" in own and "Model of client 0 on" in own and "of all clients" not in own
    home = titles(opened(DITTO, "landscape", loss="home"))
    assert "Global model on 50 samples of all clients" in home and "Model of client 0 on" in home
    assert '"type":"surface"' in titles(opened(DITTO, "landscape", shape="hills"))


def test_without_a_global_model_the_personalized_one_is_shown_on_both_data(analysed: Store) -> None:
    at = opened(LOCAL_TRAIN, "landscape")
    assert "has no global model" in words(at) and "Global model on" not in titles(at)
    assert "of all clients" in titles(at)


@pytest.mark.slow
def test_features_are_shown_with_labels_and_a_description(analysed: Store) -> None:
    at = opened(DITTO, "features", client="3", color="client")
    assert len(at.get("plotly_chart")) == 2
    assert "nearest neighbors" in words(at) and "are of the same class" in words(at) and "has no body" in words(at)
    assert "distances between groups" in words(at)
    pca = words(opened(DITTO, "features", picture="pca"))
    assert "variance" in pca and "distances between groups" not in pca
