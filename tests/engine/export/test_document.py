"""The export of runs with known numbers."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import InvalidConfig
from engine.core.json_values import finite
from engine.core.results import RoundResult, RunResult
from engine.export.document import export_text, joint_config, round_document, run_document, write_export
from tests.support.outcomes import COSTS, a_round, an_outcome


def half_of_the_runs() -> Iterator[RunResult]:
    yield an_outcome()
    raise ValueError("half")


def test_non_finite_numbers_are_null() -> None:
    assert finite({"a": math.nan, "b": [math.inf, 1.5], "c": np.float32([np.nan, 0.5])}) == {
        "a": None,
        "b": [None, 1.5],
        "c": [None, 0.5],
    }


def test_numpy_numbers_become_plain_ones() -> None:
    assert json.dumps(finite({"a": np.int16(3), "b": np.array([[1, 2]], np.int16)})) == '{"a": 3, "b": [[1, 2]]}'


def test_dotted_names_are_nested_in_a_round() -> None:
    document = round_document(a_round(1, [0.5, np.nan, 1.0], **{"global.loss": [1, 2, 3], "diagnostics.Q": [[1, 0]]}))
    assert document["personalized"] == {"accuracy": [0.5, None, 1.0]}
    assert document["global"] == {"loss": [1.0, 2.0, 3.0]}
    assert document["diagnostics"] == {"K_hat": 2.0, "Q": [[1.0, 0.0]]}


def test_costs_are_whole_numbers() -> None:
    text = json.dumps(round_document(a_round(1, [1.0])))
    assert '"bytes_up": 8, "bytes_down": 16, "gradient_evaluations": 40' in text


def test_a_round_without_evaluation_has_null_models() -> None:
    document = round_document(RoundResult(1, np.array([0], np.int32), COSTS, {"train_loss": np.float32([1, np.nan])}))
    assert document["personalized"] is None and document["global"] is None and document["clusters"] is None
    assert document["train_loss"] == [1.0, None]


def test_a_stored_summary_is_exported_unchanged() -> None:
    assert run_document(an_outcome(summary={"personalized": {"mean": math.nan}}))["summary"] == {
        "personalized": {"mean": None}
    }


def test_a_run_without_a_summary_gets_one_from_its_rounds() -> None:
    summary = run_document(an_outcome())["summary"]
    assert summary["personalized"]["mean"] == 0.5 and summary["global"] is None
    assert summary["best"]["personalized"]["round"] == 1 and summary["best"]["global"] is None


def test_the_best_round_is_chosen_on_validation_data_if_present() -> None:
    rounds = [
        a_round(r, [a] * 3, **{"personalized.val_accuracy": [v, v, np.nan]})
        for r, (a, v) in enumerate([(0.1, 0.2), (0.9, 0.3), (0.4, 0.8)])
    ]
    outcome = an_outcome(rounds=rounds, partition={"val_sizes": [1, 1, 0]})
    assert run_document(outcome)["summary"]["best"]["personalized"]["round"] == 2


def test_the_first_of_equally_good_rounds_is_the_best() -> None:
    rounds = [a_round(0, [0.5]), a_round(1, [0.75]), a_round(2, [0.75])]
    assert run_document(an_outcome(rounds=rounds))["summary"]["best"]["personalized"]["round"] == 1


def test_a_run_that_failed_before_round_one_is_exported_with_its_error() -> None:
    failed = run_document(an_outcome(rounds=(), status="failed", partition=None, provenance=None, error="no memory"))
    assert failed["rounds"] == [] and failed["partition"] is None and failed["provenance"] == {"error": "no memory"}
    assert failed["summary"] == {"personalized": None, "global": None, "best": {"personalized": None, "global": None}}


def test_several_experiments_share_one_config_key() -> None:
    assert joint_config([{"name": "a"}]) == {"name": "a"}
    assert joint_config([{"name": "a"}, {"name": "b"}]) == {"experiments": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize("number", [1, 2])
def test_the_text_is_one_json_document(number: int) -> None:
    document = json.loads(export_text({"name": "e"}, [an_outcome(seed=seed) for seed in range(number)]))
    assert [run["seed"] for run in document["runs"]] == list(range(number))


def test_a_text_without_runs_is_an_error_and_a_file_is_not(tmp_path: Path) -> None:
    running = an_outcome(status="running")
    with pytest.raises(InvalidConfig, match="they have not ended"):
        export_text({"name": "e"}, [running])
    write_export(tmp_path / "out.json", {"name": "e"}, [running])
    assert json.loads((tmp_path / "out.json").read_text()) == {"config": {"name": "e"}, "runs": []}


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="half"):
        write_export(tmp_path / "new" / "out.json", {}, half_of_the_runs())
    assert list((tmp_path / "new").iterdir()) == []
    write_export(tmp_path / "new" / "out.json", {}, [an_outcome()])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.json"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target.json").write_text("old")
    (link := tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    write_export(link, {}, [an_outcome()])
    assert link.is_symlink() and len(json.loads((tmp_path / "target.json").read_text())["runs"]) == 1


def test_a_pipe_and_a_folder_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    for path, problem in ((pipe, "is a pipe or a device"), (tmp_path, "is a folder")):
        with pytest.raises(InvalidConfig, match=problem):
            write_export(path, {}, [an_outcome()])
    assert pipe.is_fifo()


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InvalidConfig, match="is a link that leads to no file"):
        write_export(tmp_path / "a", {}, [an_outcome()])
