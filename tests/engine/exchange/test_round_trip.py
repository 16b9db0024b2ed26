"""What is exported can be imported, and what is backed up can be restored, with the same numbers."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import InvalidConfig, run
from engine.exchange.bundle import write_bundle
from engine.exchange.import_runs import import_file, import_runs, open_export
from engine.exchange.records import check_documents, export_config, load_result
from engine.export.document import export_text
from storage import FinishedRun, RunRecord, Store

SMALL: dict[str, Any] = {
    "name": "first",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 4},
    "model": "mlr",
    "training": {"rounds": 2, "local_steps": 1},
    "algorithms": ["ditto"],
    "seeds": [0],
}
ATTACKED = SMALL | {
    "partition": {"name": "iid", "num_clients": 4, "val_fraction": 0.25},
    "attack": {"name": "sign_flip", "share": 0.25, "scale": 5},
}
UNTESTED = SMALL | {
    "partition": {"name": "iid", "num_clients": 4, "test_fraction": 0, "val_fraction": 0.25},
    "evaluation": {"on": "val"},
}


def imported(store: Store, tmp_path: Path, text: str) -> list[RunRecord]:
    path = tmp_path / "runs.json"
    path.write_text(text)
    (experiment,) = import_file(store, path).experiments
    return store.queue.runs(experiment_ids=[experiment.id], newest_first=False, with_partition=True)


def exported(store: Store, runs: list[RunRecord]) -> str:
    return export_text(export_config(store, runs), [load_result(store, one) for one in runs])


def test_summaries_leave_malicious_clients_out_after_an_import(store: Store, tmp_path: Path) -> None:
    computed = run(ATTACKED)
    (here,), before = imported(store, tmp_path, computed.to_json()), computed.runs[0]
    after = load_result(store, here)
    assert here.summary is not None and before.summary is not None and here.summary["best"] == before.summary["best"]
    for old, new in zip(before.rounds, after.rounds, strict=True):
        assert new.scalars == pytest.approx(old.scalars, nan_ok=True)


def test_the_round_in_which_a_run_diverged_is_not_its_best_after_an_import(store: Store, tmp_path: Path) -> None:
    stream, rows = np.random.default_rng(0), ["label,client,a,b,c"]
    for client, scale in enumerate((3e37, 1.0, 1.0, 1.0)):  # the first client's losses overflow
        values = stream.normal(size=(60, 3))
        rows += [f"{int(v[client % 3] > 0)},{client},{','.join(map(str, v * scale))}" for v in values]
    (tmp_path / "own.csv").write_text("\n".join(rows))
    data = {"dataset": {"name": "custom", "path": str(tmp_path / "own.csv")}, "partition": {"name": "natural"}}
    training = {"rounds": 5, "local_steps": 20, "lr": 0.5}
    computed = run(SMALL | data | {"training": training, "algorithms": ["local_train"]})
    (before,) = computed.runs
    (here,) = imported(store, tmp_path, computed.to_json())
    assert before.status == here.status == "diverged" and before.rounds[-1].scalars["personalized.mean"] > 0.9
    assert before.summary is not None and before.summary["best"]["personalized"]["round"] == 0
    assert here.summary is not None and here.summary["best"] == before.summary["best"]


def test_mean_losses_in_tables_leave_malicious_clients_out() -> None:
    found = run(ATTACKED)
    table, last = found.to_dataframe().set_index("round"), found.runs[0].rounds[-1]
    is_benign = ~np.array((found.runs[0].partition or {})["malicious"])
    assert not is_benign.all()
    for name in ("personalized.loss", "train_loss"):
        assert table.loc[2, name] == pytest.approx(last.arrays[name][is_benign].mean())


def test_runs_without_test_samples_are_imported_and_restored(store: Store, tmp_path: Path) -> None:
    (here,) = imported(store, tmp_path, run(UNTESTED).to_json())
    assert here.partition is not None and not any(here.partition["test_sizes"])
    store.back_up(tmp_path / "backup.zip", "1")
    restored = Store(f"sqlite:///{tmp_path}/b.db")
    restored.restore(tmp_path / "backup.zip", check_run=partial(check_documents, tmp_path / "backup.zip"))
    assert [one.label for one in restored.queue.runs()] == [here.label]
    restored.close()


def test_terms_of_the_number_of_clusters_that_differ_in_length_are_imported(store: Store, tmp_path: Path) -> None:
    lossy = SMALL | {
        "partition": {"name": "iid", "num_clients": 8},
        "system": {"drop_out": 0.5},
        "algorithms": [{"name": "cgpfl_heur", "solve_rounds": 4}],
        "training": {"rounds": 4, "local_steps": 1},
    }
    (here,) = imported(store, tmp_path, run(lossy).to_json())
    terms = [r.arrays.get("diagnostics.capacity") for r in load_result(store, here).rounds]
    assert len({len(capacity) for capacity in terms if capacity is not None}) > 1


def test_a_renamed_experiment_is_exported_with_its_new_name(store: Store, tmp_path: Path) -> None:
    runs = imported(store, tmp_path, run(SMALL).to_json())
    store.experiments.rename(runs[0].experiment_id, "second")
    renamed = store.queue.runs(newest_first=False)
    (tmp_path / "runs.json").write_text(exported(store, renamed))
    write_bundle(store, tmp_path / "runs.zip", renamed)
    for file in ("runs.json", "runs.zip"):
        other = Store(f"sqlite:///{tmp_path}/{file}.db")
        other.ensure_schema()
        (found,) = import_file(other, tmp_path / file).experiments
        assert other.experiments.get(found.id).name == "second"
        other.close()


def test_an_older_document_of_a_renamed_experiment_is_imported(store: Store, tmp_path: Path) -> None:
    document = json.loads(run(SMALL).to_json())
    document["runs"][0]["experiment"] = "second"
    assert [one.label for one in imported(store, tmp_path, json.dumps(document))] == ["ditto"]


def test_further_runs_of_an_experiment_are_added_to_it(store: Store, tmp_path: Path) -> None:
    whole = json.loads(run(SMALL | {"seeds": [0, 1, 2]}).to_json())
    (first,) = imported(store, tmp_path, json.dumps(whole | {"runs": whole["runs"][:1]}))
    store.experiments.rename(first.experiment_id, "renamed here")

    def stop_at_the_last(number: int, total: int) -> None:
        if number == total:
            raise KeyboardInterrupt

    (tmp_path / "whole.json").write_text(json.dumps(whole))
    with pytest.raises(KeyboardInterrupt):
        import_file(store, tmp_path / "whole.json", stop_at_the_last)
    assert [one.id for one in store.queue.runs()] == [first.id]
    done = import_file(store, tmp_path / "whole.json")
    assert [(e.id, e.name, e.num_runs) for e in done.experiments] == [(first.experiment_id, "renamed here", 3)]
    assert [known.run_id for known in done.known] == [first.id]
    every = store.queue.runs(newest_first=False)
    assert [one.seed for one in every] == [0, 1, 2] and done.new_runs == {
        first.experiment_id: [r.id for r in every[1:]]
    }


def test_an_import_that_fails_leaves_nothing_of_an_experiment_that_its_file_has_twice(
    store: Store, tmp_path: Path
) -> None:
    whole = json.loads(run(SMALL | {"seeds": [0, 1]}).to_json())
    (first,) = imported(store, tmp_path, json.dumps(whole | {"runs": whole["runs"][:1]}))
    runs = [one | {"experiment_index": index} for index in (0, 1) for one in whole["runs"]]
    twice = whole | {"config": {"experiments": [whole["config"]] * 2}, "runs": runs}
    (tmp_path / "twice.json").write_text(json.dumps(twice))

    def add_or_fail(number: int, found: FinishedRun) -> FinishedRun:
        if number == len(runs) - 1 and len(store.queue.runs()) == 3:  # both have been added
            raise KeyboardInterrupt
        return found

    with open_export(tmp_path / "twice.json") as file, pytest.raises(KeyboardInterrupt):
        import_runs(store, replace(file, add_attachments=add_or_fail))
    assert [one.id for one in store.queue.runs()] == [first.id]


def test_runs_of_an_experiment_with_another_configuration_become_a_new_one(store: Store, tmp_path: Path) -> None:
    whole = json.loads(run(SMALL | {"seeds": [0, 1]}).to_json())
    part = whole | {"runs": whole["runs"][:1], "config": whole["config"] | {"seeds": [0]}}
    (first,) = imported(store, tmp_path, json.dumps(part))
    (second,) = imported(store, tmp_path, json.dumps(whole))
    assert (first.seed, second.seed) == (0, 1) and first.experiment_id != second.experiment_id


METRIC = """
from engine.core.registry import METRICS

@METRICS.register("mine", title="Mine", paper="Nobody, 2026")
class Mine:
    def __call__(self, values, weights):
        return values.max()
"""


def test_summaries_by_a_metric_that_is_not_here_are_left_out_with_a_note(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "plugins").mkdir()
    (folder / "mine.py").write_text(METRIC)
    (path := tmp_path / "runs.json").write_text(run(SMALL).to_json())
    assert import_file(store, path).notes == ()
    text = path.read_text().replace('"summary": {"personalized": {', '"summary": {"personalized": {"mine": 1.0, ')
    path.write_text(text.replace('"name": "first"', '"name": "second"'))
    (note,) = import_file(store, path).notes
    assert note.startswith("summaries without a metric of that name were left out: ['mine']; for a plugin's name, set")
    monkeypatch.setenv("FEDSCAPE_PLUGINS", str(folder))
    path.write_text(text.replace('"name": "first"', '"name": "third"'))
    assert import_file(store, path).notes == ()


def test_a_method_that_is_not_here_may_be_that_of_a_plugin(store: Store, tmp_path: Path) -> None:
    (path := tmp_path / "runs.json").write_text(run(SMALL).to_json().replace("ditto", "mine"))
    with pytest.raises(InvalidConfig, match="for a plugin's name, set FEDSCAPE_PLUGINS to its folder"):
        import_file(store, path)


def test_an_incomplete_bundle_is_named_so(store: Store, tmp_path: Path) -> None:
    (path := tmp_path / "runs.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InvalidConfig, match="is a damaged or incomplete bundle; export it again"):
        import_file(store, path)
