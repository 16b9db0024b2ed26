"""Results that ship: read as they were computed, shown until the reader's own are complete."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from app.actions import exchange
from app.data import preset_catalog, queries, shipped
from app.data.preset_catalog import known, preset_runs
from app.papers.card import SHIPPED, drawn, in_words, shipped_cards
from app.papers.figures import first_figure, panels_of
from app.papers.preset_progress import standing
from app.papers.results import results_of
from benchmarks import paper_results
from benchmarks.paper_cards import shipped_results
from engine.config import presets
from storage import RunRecord, Store
from tests.app import databases
from tests.app.pages import open_page, words
from tests.app.samples import store_experiment
from tests.app.test_papers_page import PRESETS, TINY, opened

CURVES: dict[str, Any] = {
    **PRESETS[1],
    "name": "curves",
    "view": {"page": "compare", "panels": ["over_time"], "note": "No numbers are printed."},
    "scales": {"quick": [{**TINY, "algorithms": [*TINY["algorithms"], {"name": "cgpfl", "K": 2, "label": "CGPFL"}]}]},
}


def look_in(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Presets and shipped results are those of this folder."""
    for module in (preset_catalog, presets):
        patch.setattr(module, "FOLDER", root / "presets")
    for module in (shipped, paper_results):
        patch.setattr(module, "FOLDER", root / "shipped")
    patch.setattr(paper_results, "presets", lambda: presets.presets(root / "presets"))


@pytest.fixture(scope="module")
def made(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the only preset, its runs in a database, and their result as it ships."""
    root = tmp_path_factory.mktemp("made") / "root"
    (root / "presets").mkdir(parents=True)
    (root / "presets" / "curves.yaml").write_text(yaml.safe_dump(CURVES, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        look_in(root, patch)
        for store in databases.copied(empty_file, root / "runs.db", patch):
            store_experiment(store, CURVES["scales"]["quick"][0])
            export = root / "runs.json"
            export.write_bytes(exchange.json_of([run.id for run in queries.runs()]))
            paper_results.main([str(export)])
    return root


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The runs of the only preset, with their result shipped."""
    for name in ("presets", "shipped"):
        shutil.copytree(made / name, tmp_path / name)
    look_in(tmp_path, monkeypatch)
    yield from databases.copied(made / "runs.db", tmp_path / "runs.db", monkeypatch)


@pytest.fixture
def ours(store: Store) -> list[RunRecord]:
    return queries.runs(with_partition=True)


@pytest.mark.slow
def test_a_shipped_result_has_the_numbers_that_were_computed(ours: list[RunRecord]) -> None:
    found = shipped.shipped(known()["curves"], "quick")
    assert found is not None and found.command == "python -m engine run --preset curves --scale quick"
    for run in ours:
        same = found.by_digest[run.digest]
        assert same.id < 0 and (same.label, same.seed, same.round) == (run.label, run.seed, run.round)
        for model, own in (same.summary or {}).items():
            assert own == pytest.approx((run.summary or {})[model], abs=1e-6)
        theirs, mine = (source.final_clients([r])["accuracy"] for source, r in ((found, same), (queries, run)))
        assert np.allclose(theirs, mine, atol=1e-6)
        names = ["personalized.mean", "bytes_up", "gradient_evaluations"]
        theirs, mine = (
            source.scalar_series([r], names).sort_values(["name", "round"])["value"].tolist()
            for source, r in ((found, same), (queries, run))
        )
        assert theirs == pytest.approx(mine, rel=1e-3)
        totals = [
            s.scalar_totals({r.id: r.round}, ["bytes_up"])["bytes_up"][0] for s, r in ((found, same), (queries, run))
        ]
        assert totals[0] == pytest.approx(totals[1], rel=1e-3)
        assert [a.tolist() for a in found.clusters(same.id)] == [a.tolist() for a in queries.clusters(run.id)]


def test_a_shipped_result_is_shown_until_the_own_one_is_complete(ours: list[RunRecord], store: Store) -> None:
    preset = known()["curves"]
    mine = results_of(preset, "quick", standing(preset_runs(preset, "quick")))
    assert mine.shipped is None and len(mine.runs) == len(ours)
    store.queue.archive([ours[0].id])
    results = results_of(preset, "quick", standing(preset_runs(preset, "quick")))
    assert results.shipped is not None and all(run.id < 0 for run in results.runs)


@pytest.mark.slow
def test_the_page_shows_the_origin_of_a_shipped_result(ours: list[RunRecord], store: Store) -> None:
    assert "Shipped result" not in words(opened(preset="curves"))
    store.queue.archive([run.id for run in ours])
    page = opened(preset="curves")
    command = "<code>python -m engine run --preset curves --scale quick</code>"
    assert f"Shipped result, quick scale, seeds 0 and 1, computed by {command}." in words(page)
    assert "0 of 6 runs done" in words(page) and "Explore the runs" not in words(page)
    assert len(page.get("plotly_chart")) == 2


def test_a_card_shows_the_figure_of_a_shipped_result(ours: list[RunRecord], store: Store) -> None:
    store.queue.archive([run.id for run in ours])
    text = words(opened())
    assert "data:image/svg+xml," in text and "Figure 4 · Quick scale" in text and "Not run yet" not in text


def test_a_preset_with_other_settings_has_no_shipped_result(ours: list[RunRecord]) -> None:
    path = preset_catalog.FOLDER / "curves.yaml"
    path.write_text(path.read_text().replace("rounds: 2", "rounds: 3"))
    assert shipped.shipped(known()["curves"], "quick") is None


@pytest.mark.slow
def test_every_shipped_card_matches_its_numbers() -> None:
    cards = shipped_cards(SHIPPED)
    files = [*shipped.FOLDER.glob("*.json"), *shipped.STUDIES.glob("*.zip.xz")]
    assert set(cards) == {".".join(path.name.split(".")[:2]) for path in files}
    kinds = set()
    for name, card in cards.items():
        preset, scale = known()[name.split(".")[0]], name.split(".")[1]
        assert card["of"] == shipped.checksum(preset, scale), f"{name}: python -m benchmarks.paper_cards"
        assert card["picture"], name
        if not preset.is_study:  # the test below loads the study
            results = shipped_results(preset, scale)
            now = in_words(results)
            assert (card["verdict"], card["claims"]) == (now.verdict, now.claims), name
            kind = (preset.view and preset.view.panels, bool(preset.paper))
            if kind not in kinds:  # the first of each
                assert drawn(results).picture, name
                kinds.add(kind)


@pytest.mark.slow
def test_the_shipped_study_opens_with_its_finding_and_all_its_runs(empty_store: Store) -> None:
    preset = known()["study-digits"]
    verdict = shipped_cards(SHIPPED)["study-digits.quick"]["verdict"]
    assert f"Shipped result, quick scale: {verdict}." in words(opened(preset="study-digits"))
    page = open_page("study")
    page.button(key="open_study-digits_quick").click().run()
    assert "[Open the study](/study?experiment=1)" in words(page)
    planned = preset_runs(preset, "quick")
    assert {run.digest for run in planned} < {run.digest for run in empty_store.queue.runs()}
    assert empty_store.experiments.get(1).example and len(empty_store.studies.choices(1)) == 30
    assert exchange.load_study(preset, "quick").id == 1 and len(empty_store.experiments.list()) == 1
    assert verdict in words(open_page("study"))
    page = opened(preset="study-digits")
    assert f"{verdict}." in words(page) and "Shipped result" not in words(page)
    assert "[Open the study](/study?experiment=1)" in words(page)


def test_every_shipped_file_has_a_preset_and_all_its_runs() -> None:
    for path in sorted(shipped.FOLDER.glob("*.json")):
        name, scale, _ = path.name.split(".")
        found = shipped.shipped(known()[name], scale)
        assert found is not None, f"{path.name}: compute it again ({json.loads(path.read_text())['command']})"
        assert len(found.runs) == len(preset_runs(known()[name], scale))


def test_every_shipped_file_has_the_curves_that_its_page_draws() -> None:
    for path in sorted(shipped.FOLDER.glob("*.json")):
        preset = known()[path.name.split(".")[0]]
        if "over_time" in panels_of(preset) and (preset.view or not preset.paper):
            for run in json.loads(path.read_text())["runs"]:
                assert run["series"].keys() >= set(paper_results.CURVES["over_time"]), path.name


@pytest.mark.slow
def test_a_figure_of_errors_opens_with_the_error() -> None:
    first = first_figure(shipped_results(known()["fedprox-fig2"], "quick"))
    assert first is not None and "an error of" in first.alt and "accuracy" not in first.alt


def test_shipped_results_leave_malicious_clients_out() -> None:
    found = shipped.shipped(known()["dial-robust"], "quick")
    assert found is not None
    clients = found.final_clients(found.runs).groupby("run")["accuracy"]
    assert set(clients.count()) == {32}, "of 40 clients, 8 are malicious"
    ends = found.scalar_series(found.runs, ["personalized.mean"]).groupby("run")["value"].last()
    assert ends.to_numpy() == pytest.approx(clients.mean()[ends.index].to_numpy(), abs=1e-4)
    assert all(run.summary["personalized"]["mean"] == pytest.approx(clients.mean()[run.id]) for run in found.runs)
