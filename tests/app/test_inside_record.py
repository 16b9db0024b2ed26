"""The record of a run: options with defaults, a file that reproduces it, and statistics of the partition."""

import dataclasses
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from app.actions import run_config
from app.inside import configuration, federation, record
from app.inside.profile import beside_training
from app.state.links import unpack_config
from engine.config.files import load_config
from engine.config.schema import DIAL_KEYS, RunConfig, parse_experiment
from engine.exchange.records import new_runs
from storage import ArtifactRecord, EventRecord, RunRecord, Store
from storage.models import Run
from tests.app.frames import run_record, series
from tests.app.pages import open_page, words
from tests.app.samples import DIGITS

CGPFL = 7
DIALS: dict[str, Any] = {
    "attack": {"name": "labels", "share": 0.4},
    "aggregator": {"name": "median"},
    "compression": {"name": "top_k"},
    "privacy": {"noise": 1.5, "clip": 0.5},
    "system": {"compute_s": 0.01, "deadline_s": 2.0},
}


def stored(store: Store, run_id: int = CGPFL) -> RunRecord:
    return store.queue.get(run_id)


def opened(run_id: int, tab: str = "record") -> AppTest:
    return open_page("run", id=run_id, tab=tab)


@pytest.mark.parametrize("run_id", [1, 3, 5, CGPFL])
def test_the_file_reproduces_the_run_on_the_command_line(read_store: Store, tmp_path: Path, run_id: int) -> None:
    run = stored(read_store, run_id)
    file = tmp_path / "run.yaml"
    file.write_text(run_config.as_yaml(run), encoding="utf-8")
    again = parse_experiment(load_config(file)).runs()
    assert [(r.digest, r.label, r.seed) for r in again] == [(run.digest, run.label, run.seed)]
    assert again[0] == RunConfig.from_dict(run.config)


def queued(store: Store, **changes: Any) -> list[RunRecord]:
    """The runs of an experiment with these changes, which are not trained."""
    config = parse_experiment(DIGITS | {"splits": [3]} | changes)
    found = store.experiments.create(config.name, dict(config.raw), new_runs(config))
    return store.queue.runs(experiment_ids=[found.id])


def test_the_file_has_every_dial_of_the_run(empty_store: Store) -> None:
    (run,) = queued(empty_store, algorithms=["fedavg"], seeds=[0], **DIALS)
    config = run_config.experiment_of(run)
    assert set(DIALS) == set(DIAL_KEYS) <= set(config)
    assert [again.digest for again in parse_experiment(config).runs()] == [run.digest]


def test_methods_in_one_file_keep_their_own_dials_and_training(empty_store: Store) -> None:
    methods = [
        {"name": "fedavg", "training": {"clip_norm": 1.0, "local_steps": 5}},
        {"name": "ditto", "attack": None, "privacy": {"epsilon": 8.0}, "training": {"local_epochs": 2}},
        {"name": "local_train", **dict.fromkeys(DIALS)},
    ]
    runs = queued(empty_store, algorithms=methods, seeds=[0], **DIALS)
    config = parse_experiment(run_config.experiment_of_all(runs))
    assert sorted(run.digest for run in config.runs()) == sorted(run.digest for run in runs)


def test_the_command_quotes_labels_for_the_shell() -> None:
    run = run_record(3, label="mine; rm $HOME", seed=2)
    assert run_config.command(run) == (
        "python -m engine run 'mine_ rm _HOME-seed2.yaml' --export 'mine_ rm _HOME-seed2.json'"
    )


def test_changed_options_come_first(read_store: Store) -> None:
    table = configuration.options(stored(read_store))
    assert table["differs"].tolist() == sorted(table["differs"], reverse=True)
    own = table[table["differs"]].set_index("option")
    assert own.loc["Local steps (E)", "value"] == "5"
    assert own.loc["K", "value"] == "3" and own.loc["seed", "value"] == "0"
    assert own.loc["Rounds (T)", ["value", "default"]].tolist() == ["5", "50"]
    usual = table[~table["differs"]]
    assert "Momentum" in set(usual["option"]) and (usual["value"] == usual["default"]).mean() > 0.8


def test_defaults_from_training_show_their_number(read_store: Store) -> None:
    values = configuration.options(stored(read_store, 5))["value"]
    assert values.str.contains("0.05 (as in training)", regex=False).any()


def test_a_seed_draws_the_split_unless_there_is_a_split() -> None:
    run = run_record(1)
    of_both = dataclasses.replace(run, config=run.config | {"data_seed": 3})
    meanings = [configuration.options(one).set_index("option").loc["seed", "meaning"] for one in (run, of_both)]
    assert meanings == [
        "Seed of the split, the initial model and the batches.",
        "Seed of the initial model and the batches.",
    ]


def test_a_missing_method_is_shown_with_its_stored_options() -> None:
    run = run_record(1, label="gone", algorithm_options={"zeta": 3})
    table = configuration.options(run).set_index("option")
    assert table.loc["zeta", "value"] == "3" and table.loc["algorithm", "value"] == "gone"


def test_dials_that_are_off_have_no_row(read_store: Store) -> None:
    table = configuration.options(stored(read_store))
    assert not {"attack", "aggregator", "compressor"} & set(table["option"])
    assert table["value"].ne("").all() and not table["meaning"].str.contains("Configuration name: .", regex=False).any()


def test_partition_statistics_cover_clients_and_all_samples() -> None:
    partition = {
        "train_sizes": [2, 4, 9],
        "val_sizes": [0, 0, 0],
        "test_sizes": [1, 1, 1],
        "class_counts": [[3, 0], [0, 5], [5, 5]],
    }
    table = federation.numbers(partition).set_index("what")
    assert "Validation samples" not in table.index
    assert table.loc["Training samples"].tolist() == [2, 4, 9, 5, 15]
    assert table.loc["Classes held"].tolist() == pytest.approx([1, 1, 2, 4 / 3, 2])
    entropy = table.loc["Label entropy, bits"]
    assert entropy["lowest"] == 0 and entropy["highest"] == 1
    assert entropy["all"] == pytest.approx(-(8 / 18) * np.log2(8 / 18) - (10 / 18) * np.log2(10 / 18))


def test_provenance_omits_missing_fields() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    known = {"versions": {"torch": "2.14"}, "device": "cpu", "threads": 1, "extra": {"note": "by hand"}}
    run = run_record(1, provenance=known, started_at=at, finished_at=at.replace(minute=2), digest="abc")
    found = dict(record.origin(run))
    assert found["torch version"] == "2.14" and found["CPU threads"] == "1" and found["note"] == "by hand"
    assert found["Duration"] == "2 min 00 s" and found["Started (UTC)"] == "2026-01-01 12:00:00"
    assert "Backend" not in found and "Computed by" not in found


def test_files_have_readable_names() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    artifacts = [
        ArtifactRecord(i, 1, kind, 5, f"1/{kind}", "", 2_000, at)
        for i, kind in enumerate(["model-last", "analysis-confusion", "checkpoint", "other-thing"])
    ]
    table = record.files(artifacts)
    assert table["What"].tolist() == [
        "Models of the last round",
        "Findings of analysis confusion",
        "Checkpoint",
        "other-thing",
    ]
    assert table["Size"].tolist() == ["2 kB"] * 4


def test_events_have_time_and_severity() -> None:
    event = EventRecord(1, 1, datetime(2026, 1, 1, 3, 4, 5, tzinfo=UTC), "error", "worker", "it fell over")
    assert record.log([event]).to_numpy().tolist() == [["2026-01-01 03:04:05", "error", "worker", "it fell over"]]
    assert record.log_file([event]) == "2026-01-01 03:04:05 UTC error worker it fell over"


def test_time_outside_training_is_shown_if_known() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    seconds = series("a", 0, seconds=[0.0, 4.0, 5.0])
    known = run_record(1, started_at=at, finished_at=at.replace(second=10))
    assert beside_training(known, seconds).startswith("Of 10 s in total, 90 % was training")
    assert beside_training(run_record(1), seconds) == "Seconds: training only, without evaluation."


def test_the_page_has_options_provenance_partition_and_log(filled_store: Store) -> None:
    filled_store.events.add(CGPFL, "warning", "data", "a line of the log")
    page = opened(CGPFL)
    assert [header.value for header in page.header] == [
        "Configuration",
        "Versions, device and times",
        "Data split",
        "Stored files",
        "Events",
    ]
    shown = {tuple(frame.value.columns): frame.value for frame in page.dataframe}
    assert shown["When (UTC)", "Level", "Event", "Message"]["Message"].tolist() == ["a line of the log"]
    assert "fused" in shown["What", "Value"]["Value"].tolist() or "Backend" in shown["What", "Value"]["What"].tolist()
    assert page.code[0].value == run_config.command(stored(filled_store))


def test_the_link_to_set_up_only_has_this_run(read_store: Store) -> None:
    link = next(text.value for text in opened(CGPFL).markdown if "/setup?config=" in text.value)
    packed = re.search(r"config=([\w-]+)", link)
    assert packed is not None
    config = unpack_config(packed.group(1))
    assert [run.digest for run in parse_experiment(config).runs()] == [stored(read_store).digest]
    assert "name" not in config, "the name of the whole experiment does not fit one of its runs"


def test_the_profile_shows_total_costs(read_store: Store) -> None:
    text = words(opened(CGPFL, "profile"))
    assert "5 rounds" in text and "gradient evaluations" in text
    assert len(opened(CGPFL, "profile").get("plotly_chart")) == 3


@pytest.mark.parametrize(
    "provenance",
    [{"versions": "all"}, {"versions": {"torch": 2}, "device": []}, {"warnings": "none"}, {"extra": {"layers": 7}}],
)
def test_unexpected_provenance_does_not_break_the_page(filled_store: Store, provenance: dict) -> None:
    with filled_store._database.write() as connection:
        connection.execute(sa.update(Run).where(Run.id == CGPFL).values(provenance={"code": "1.0"} | provenance))
    page = opened(CGPFL)
    shown = {tuple(frame.value.columns): frame.value for frame in page.dataframe}["What", "Value"]
    assert shown.set_index("What").loc["Code version", "Value"] == "1.0"
