"""The examples of the how-tos: each file is saved and does what its page says."""

import json
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
import yaml

import app.charts
from app import wording
from app.components import page
from app.inside import analysis
from engine import Result, parse_experiment, run
from engine.analyses.support.layouts import check_findings
from engine.core.errors import CheckpointInvalid
from engine.core.registry import DATASETS, PARTITIONERS
from engine.datasets import Pool
from engine.exchange.records import new_run
from engine.partitioners import summarize
from engine.version import CODE_VERSION
from storage import Store

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"(?:<!-- (?:file|chart): (\S+) -->\n)?^```(python|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)

Example = tuple[str, str, str]  # file, language, text


def examples(name: str) -> list[Example]:
    return BLOCK.findall((HOW_TO / name).read_text(encoding="utf-8"))


def text_of(name: str, file: str) -> str:
    (found,) = (text for named, _, text in examples(name) if named == file)
    return found


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Saves the files of a page and sets FEDSCAPE_PLUGINS to their folder."""

    def save(name: str) -> None:
        for file, _, text in examples(name):
            if file:
                (tmp_path / file).parent.mkdir(exist_ok=True)
                (tmp_path / file).write_text(text, encoding="utf-8")
        monkeypatch.setenv("FEDSCAPE_PLUGINS", str(tmp_path))

    return save


def run_of(name: str, file: str) -> Result:
    return run(yaml.safe_load(text_of(name, file)))


def test_the_algorithm_is_fedavg_in_its_limit(saved: Callable[[str], None]) -> None:
    saved("add-an-algorithm.md")
    fedavg, whole, half = (one.rounds for one in run_of("add-an-algorithm.md", "my_method.yaml").runs)
    for mine, its in zip(whole, fedavg, strict=True):
        np.testing.assert_array_equal(mine.arrays["global.accuracy"], its.arrays["global.accuracy"])
        np.testing.assert_array_equal(mine.arrays["global.loss"], its.arrays["global.loss"])
    assert (half[2].arrays["global.loss"] != fedavg[2].arrays["global.loss"]).all()
    assert whole[-1].arrays["unseen.accuracy"] == fedavg[-1].arrays["unseen.accuracy"]


def test_the_data_set_has_two_rings(saved: Callable[[str], None], tmp_path: Path) -> None:
    saved("add-a-data-set.md")
    entry = DATASETS.get("rings")
    pool = entry.make(entry.options(samples=50, noise=0)).load(tmp_path, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(pool.x, axis=1), 1 + pool.y, rtol=1e-6)
    (one,) = run_of("add-a-data-set.md", "rings.yaml").runs
    assert one.status == "done" and one.summary["global"]["mean"] > 0.9


def test_the_keys_of_custom_data_are_those_of_the_page() -> None:
    (own,) = (text for file, language, text in examples("add-a-data-set.md") if not file and language == "yaml")
    config = yaml.safe_load(own)
    options = DATASETS.get("custom").options(**{k: v for k, v in config["dataset"].items() if k != "name"})
    assert options.label == "diagnosis" and options.client == "hospital"
    assert config["partition"]["name"] in PARTITIONERS


def test_the_partitioner_gives_each_client_its_main_class(saved: Callable[[str], None]) -> None:
    saved("add-a-partitioner.md")
    pool = Pool(np.zeros((300, 1)), np.arange(300) % 3, num_classes=3)
    entry = PARTITIONERS.get("main_class")
    split = entry.make(entry.options(num_clients=3, focus=0.7)).split(pool, np.random.default_rng(0))
    np.testing.assert_array_equal(summarize(pool, split).class_counts, 10 + 70 * np.eye(3))
    result = run_of("add-a-partitioner.md", "main_class.yaml")
    local, fedavg = result.runs
    assert wording.kicker(result.config).startswith("DIGITS · 10 CLIENTS · MAIN CLASS 90 % ·")
    assert local.status == fedavg.status == "done" and len(local.partition["train_sizes"]) == 10


def test_the_metric_is_in_summaries_and_exports(saved: Callable[[str], None]) -> None:
    saved("add-a-metric.md")
    result = run_of("add-a-metric.md", "tail_gap.yaml")
    accuracy = np.sort(result.runs[0].rounds[-1].arrays["personalized.accuracy"])
    expected = accuracy.mean() - accuracy[0]  # the lowest tenth of ten clients is one
    assert result.summary()["personalized.tail_gap"][0] == pytest.approx(expected, rel=1e-6)
    assert {"personalized.tail_gap", "global.tail_gap"} <= set(result.to_dataframe())
    exported = json.loads(result.to_json())["runs"][0]["summary"]["personalized"]["tail_gap"]
    assert exported == pytest.approx(expected, rel=1e-6)


def test_an_exported_experiment_is_computed_again_with_equal_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_of("add-a-metric.md", "tail_gap.yaml").to_json("runs.json")
    exec(compile(text_of("resume-runs.md", "again.py"), "resume-runs.md", "exec"), {})
    old, new = (json.loads(Path(name).read_text())["runs"] for name in ("runs.json", "again.json"))
    for one in (*old, *new):
        for r in one["rounds"]:
            del r["seconds"]
    assert old == new and old[0]["provenance"]["code"].startswith(f"{CODE_VERSION}+")


def test_the_analysis_measures_distances(saved: Callable[[str], None]) -> None:
    saved("add-an-analysis.md")
    names: dict[str, Any] = {"print": lambda *values: None}
    (try_it,) = (text for file, _, text in examples("add-an-analysis.md") if "Subject.load" in text and not file)
    exec(compile(try_it, "add-an-analysis.md", "exec"), names)
    models, found = names["simulation"].models(), names["found"]
    for i, distance in enumerate(found.arrays["distance"]):
        squares = [(models.personalized[i][n] - models.global_model[n]).square().sum() for n in models.global_model]
        assert distance == pytest.approx(float(sum(squares)) ** 0.5, rel=1e-5)
    assert found.values["largest"] == found.arrays["distance"].argmax()
    check_findings("distances", {}, found, {"test_sizes": [1] * 4})
    with pytest.raises(CheckpointInvalid, match="distance has shape"):
        check_findings("distances", {}, found, {"test_sizes": [1] * 5})


def test_the_tab_requests_the_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    (tab,) = (text for _, _, text in examples("add-an-analysis.md") if "def panel" in text)
    findings = create_autospec(analysis.findings, return_value=None)
    monkeypatch.setattr(analysis, "findings", findings)
    names: dict[str, Any] = {}
    exec(compile(tab, "add-an-analysis.md", "exec"), names)
    assert names["TAB"].title == "Distances"
    names["TAB"].panel("a view")
    findings.assert_called_once()


def test_the_chart_ranks_clients_and_is_shown_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    chart: Any = types.ModuleType("ranked_clients")
    exec(compile(text_of("add-a-chart.md", "ranked_clients.py"), "add-a-chart.md", "exec"), chart.__dict__)
    accuracy = np.array([0.9, 0.7, np.nan, 0.8])
    table = chart.data(accuracy)
    assert table["client"].tolist() == [1, 3, 0]
    assert list(chart.figure(table, "ditto").data[0].y) == pytest.approx([70, 80, 90])
    assert chart.finding(table) == "Client 1 has the lowest accuracy, 70 %."

    finding_chart = create_autospec(page.finding_chart)
    monkeypatch.setattr(page, "finding_chart", finding_chart)
    monkeypatch.setattr(app.charts, "ranked_clients", chart, raising=False)
    (panel,) = (text for _, _, text in examples("add-a-chart.md") if "def ranking" in text)
    names: dict[str, Any] = {}
    exec(compile(panel, "add-a-chart.md", "exec"), names)
    view = types.SimpleNamespace(
        accuracy=lambda: (np.array([0, 1]), np.stack([accuracy, accuracy])),
        run=types.SimpleNamespace(algorithm="ditto"),
    )
    names["ranking"](view)
    finding_chart.assert_called_once()


def test_a_stored_run_can_be_read_and_reproduced(database_url: str) -> None:
    config = {
        "dataset": "digits",
        "partition": {"name": "iid", "num_clients": 3},
        "model": "mlr",
        "training": {"rounds": 5, "local_steps": 1},
        "algorithms": ["fedavg"],
    }
    experiment = parse_experiment(config)
    store = Store(database_url)
    store.ensure_schema()
    created = store.experiments.create("debug", experiment.raw, [new_run(one) for one in experiment.runs()])
    (queued,) = store.queue.runs(experiment_ids=[created.id])
    printed: list[str] = []
    names: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    for _, _, text in examples("debug-a-failed-run.md"):
        code = text.replace("run_id = 7", f"run_id = {queued.id}")
        exec(compile(code, "debug-a-failed-run.md", "exec"), names)
    assert "done None" in printed
    names["store"].close()
    assert names["slow_and_plain"].machine.backend == "loop"
    last, again = (names[name].runs[0].rounds[-1].arrays["global.loss"] for name in ("result", "again"))
    np.testing.assert_allclose(last, again, rtol=1e-5)
    store.close()


def test_the_study_is_valid_also_with_other_ranges() -> None:
    first, ranges = (yaml.safe_load(text) for _, _, text in examples("run-a-fair-study.md"))
    assert parse_experiment(first).tune == parse_experiment(first | ranges).tune
    assert {"algorithms", "tune"} == ranges.keys()


@pytest.mark.slow
def test_the_figure_for_a_paper_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (text for _, language, text in examples("make-a-figure-for-a-paper.md") if language == "python")
    exec(code, {})
    assert (tmp_path / "clients.pdf").read_bytes().startswith(b"%PDF-")
    assert 'width="486pt"' in (tmp_path / "two-panels.svg").read_text()
