"""Landscapes of a preset's runs: own ones, shipped ones, their card, and the claim about them, with known bowls."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.actions import exchange
from app.charts import surface
from app.data import preset_catalog, queries, shipped
from app.data.preset_catalog import PresetRun, known, preset_runs
from app.data.shipped import Shipped
from app.papers import landscapes
from app.papers.card import Card, card_of, drawn
from app.papers.claim import Verdict, verdicts
from app.papers.preset_progress import Standing, standing
from app.papers.results import Results, results_of
from benchmarks import paper_results
from benchmarks.paper_cards import shipped_results
from engine.config import presets
from engine.core.findings import Findings
from storage import RunRecord, Store
from tests.app.frames import run_record
from tests.app.pages import words
from tests.app.samples import store_experiment
from tests.app.test_inside_landscape import put
from tests.app.test_papers_page import TINY, opened

PRESET: dict[str, Any] = {
    "name": "flat",
    "title": "How flat?",
    "document": "PLGU",
    "item": "Figure 7",
    "source": "test",
    "view": {"page": "run", "tab": "landscape", "panels": ["landscape"], "note": "No numbers are printed."},
    "scales": {"quick": [{**TINY, "seeds": [0]}]},
}
AXIS = np.linspace(-1, 1, 5)


def bowl(center: float, rise: float) -> np.ndarray:
    """[5, 5]: the loss is ``center`` in the middle, and ``rise`` above it in the mean of the eight points around."""
    return center + rise * (AXIS**2 + AXIS[:, None] ** 2) / 0.375


def found(shared: float, own: float) -> Findings:
    """The loss rises by so much around the global model and the client's."""
    arrays = {"axis": AXIS}
    for ground in ("own", "everyone"):
        arrays |= {
            f"global_{ground}": bowl(1, shared),
            f"personalized_{ground}": bowl(1 if own == shared else 0.5, own),
        }
    values = {"round": 2, "client": 0, "data": "test", "samples": {"own": 10, "everyone": 40}, "centres": {}}
    return Findings(arrays, values)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Store) -> list[RunRecord]:
    """A run of FedAvg and one of Ditto, of the only preset, without landscapes."""
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "flat.yaml").write_text(yaml.safe_dump(PRESET, sort_keys=False))
    for module in (preset_catalog, presets):
        monkeypatch.setattr(module, "FOLDER", folder)
    for module in (shipped, paper_results):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "shipped")
    monkeypatch.setattr(paper_results, "presets", lambda: presets.presets(folder))
    store_experiment(empty_store, PRESET["scales"]["quick"][0])
    return sorted(queries.runs(with_partition=True), key=lambda run: run.id)


def analyse(store: Store, runs: list[RunRecord], params: dict[str, Any]) -> None:
    for run, (shared, own) in zip(runs, [(0.25, 0.25), (0.25, 0.5)], strict=True):
        put(store, run.id, "landscape", params, found(shared, own))


def test_without_landscapes_the_page_says_where_to_compute_them(runs: list[RunRecord]) -> None:
    assert "Not computed yet: open a run below" in words(opened(preset="flat"))


@pytest.mark.slow
def test_each_model_is_drawn_once_on_one_scale(runs: list[RunRecord], empty_store: Store) -> None:
    analyse(empty_store, runs, {})
    page = opened(preset="flat")
    titles = [title.value for title in page.subheader]
    assert titles == [
        "FedAvg, global model on 10 samples of client 0",
        "Ditto, global model on 10 samples of client 0",
        "Ditto, model of client 0 on 10 samples of client 0",
    ]
    text = words(page)
    assert "by 0.25 (Ditto, global model on 10 samples of client 0: from 1) and by 0.5 (Ditto, model of" in text
    assert "5 × 5 points along two random directions" in text
    everyone = opened(preset="flat", loss="everyone")
    assert "Ditto, model of client 0 on 40 samples of all clients" in [title.value for title in everyone.subheader]


def test_a_card_is_drawn_again_when_an_analysis_of_its_runs_is_done(runs: list[RunRecord], empty_store: Store) -> None:
    def card() -> Card:
        preset = known()["flat"]
        return card_of(results_of(preset, "quick", standing(preset_runs(preset, "quick"))))

    assert card().picture == ""
    analyse(empty_store, runs, {})
    assert card().picture.count("<circle") == 1


@pytest.mark.slow
def test_shipped_landscapes_are_those_of_the_shipped_options(
    runs: list[RunRecord], empty_store: Store, tmp_path: Path
) -> None:
    analyse(empty_store, runs, dict(paper_results.ANALYSES["landscape"].options))
    export = tmp_path / "runs.json"
    export.write_bytes(exchange.json_of([run.id for run in runs]))
    paper_results.main([str(export), "--db", empty_store.url])
    empty_store.queue.archive([run.id for run in runs])
    results = shipped_results(known()["flat"], "quick")
    ditto = results.runs[1]
    kept = results.source.analysis(ditto.id, "landscape")
    assert kept is not None and np.allclose(kept.arrays["personalized_own"], bowl(0.5, 0.5), atol=1e-3)
    assert landscapes.rise(results.source, ditto.id, "personalized_own") == pytest.approx(0.5, abs=1e-3)
    assert landscapes.rise(results.source, ditto.id, "of_nobody") is None
    assert drawn(results).picture.count("<circle") == 1, "FedAvg has one model, in the middle of one bowl"
    assert len(opened(preset="flat").get("plotly_chart")) == 3


def test_surfaces_in_a_row_share_a_scale_and_have_a_gap() -> None:
    figure = surface.in_a_row(surface.data(AXIS, {"a": bowl(1, 0.25), "b": bowl(0.5, 0.5)}))
    contour, centers = figure.data
    assert np.isnan(contour.z[:, 5]).all() and np.isfinite(np.delete(contour.z, 5, axis=1)).all()
    assert contour.z[2, 2] == 0 and contour.z[2, 8] == pytest.approx(np.log10(0.5))
    assert list(centers.x) == [2, 8]
    assert figure.layout.coloraxis.cmin == pytest.approx(np.log10(0.5))


@pytest.mark.parametrize(("shared", "own", "state"), [(0.25, 0.5, "holds"), (0.5, 0.25, "fails")])
def test_the_claim_compares_the_rise_around_both_models(shared: float, own: float, state: str) -> None:
    run = run_record(1, "PLGU-LF", 0, algorithm="plgu_lf", digest="d")
    findings = found(shared, own)
    entry = {"analyses": {"landscape": {"arrays": findings.arrays, "values": findings.values}}}
    preset = known()["plgu-fig7"]
    pairs = ((PresetRun(preset.configs("quick")[0]["name"], "PLGU-LF", "plgu_lf", 0, "d"), run),)
    (verdict,) = verdicts(Results(preset, "quick", Standing(pairs), Shipped("", (run,), {1: entry})))
    assert isinstance(verdict, Verdict) and verdict.state == state and len(verdict.checks) == 2
    words_ = f"On the client's samples: global model {shared:g}, the client's model {own:g}"
    assert words_ in verdict.sentence() and verdict.head.endswith("in one seed (not tested)")


def test_the_quick_scale_of_figure_7_says_that_its_global_model_still_guesses() -> None:
    preset = known()["plgu-fig7"]
    results = shipped_results(preset, "quick")
    found = results.source.analysis(results.runs[0].id, "landscape")
    assert found is not None
    loss = found.arrays["global_everyone"][10, 10]
    assert results.runs[0].label == "PLGU-LF" and f"loss, {loss:.2f}," in preset.cut
