"""The Python API: an experiment computed in this process, as tables and as an export."""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from threadpoolctl import threadpool_limits

import engine
from engine import ALGORITHMS, InvalidConfig, api, parse_experiment, run
from engine.api import Result
from engine.config import tpe
from engine.export import tables
from engine.export.reading import parse_export
from engine.simulation.selection import Chosen, Validation
from tests.support.rounding import equal_to_rounding
from tests.support.threads import blas_threads

CONFIG: dict[str, Any] = {
    "name": "tiny",
    "dataset": "digits",
    "partition": {"name": "iid", "num_clients": 3},
    "model": "mlr",
    "training": {"rounds": 2, "local_steps": 1},
    "algorithms": ["fedavg", "local_train"],
    "seeds": [0, 1],
}


def without_seconds(text: str) -> list[Any]:
    """The runs of an export without times, thread counts and the config's spelling."""
    runs = json.loads(text)["runs"]
    return [{**r, "rounds": [{**x, "seconds": 0} for x in r["rounds"]]} for r in runs]


def test_a_mapping_a_file_and_a_parsed_experiment_give_equal_results(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(CONFIG))
    texts = [run(config).to_json() for config in (CONFIG, tmp_path / "c.yaml", parse_experiment(CONFIG))]
    first, *others = [without_seconds(text) for text in texts]
    assert all(other == first for other in others)


def test_a_single_run_of_an_experiment_can_be_computed() -> None:
    last = parse_experiment(CONFIG).runs()[-1]
    alone = run(last)
    assert [(r.algorithm, r.seed) for r in alone.runs] == [("local_train", 1)]
    assert without_seconds(alone.to_json()) == without_seconds(run(CONFIG).to_json())[-1:]


def test_progress_is_called_for_every_round() -> None:
    calls: list[tuple[str, int, int]] = []
    run(CONFIG, progress=lambda config, result: calls.append((config.label, config.seed, result.round)))
    assert calls == [(label, seed, r) for label in ("fedavg", "local_train") for seed in (0, 1) for r in (0, 1, 2)]


def test_seeds_that_are_trained_together_give_the_results_of_each_alone() -> None:
    seeds = CONFIG | {"seeds": [0, 1, 2, 3]}
    alone = without_seconds(run(seeds).to_json())
    for together in (3, 64):
        calls: list[tuple[str, int, int]] = []
        result = run(
            seeds | {"seeds_together": together},
            progress=lambda config, result, calls=calls: calls.append((config.label, result.round, config.seed)),
        )
        assert equal_to_rounding(without_seconds(result.to_json()), alone), together
        of_first = [(round, seed) for label, round, seed in calls if label == "fedavg" and seed < together]
        assert of_first == sorted(of_first)  # the seeds of a group reach each round together


@pytest.mark.slow
def test_the_trials_of_a_study_are_trained_together() -> None:
    study = CONFIG | {"partition": CONFIG["partition"] | {"val_fraction": 0.25}, "splits": [4]}
    study |= {"tune": {"trials": 2, "seeds": 2}}
    together = run(study | {"seeds_together": 4})
    assert without_seconds(together.to_json()) == without_seconds(run(study).to_json())


def test_the_table_of_rounds_has_a_row_for_each() -> None:
    table = run(CONFIG).to_dataframe()
    assert len(table) == 4 * 3 and set(table["label"]) == {"fedavg", "local_train"}
    assert table["participants"].tolist()[:3] == [0, 3, 3]
    assert table.loc[table["label"] == "local_train", "bytes_up"].sum() == 0


def test_the_table_of_rounds_has_means_of_the_table_of_clients() -> None:
    result = run(CONFIG)
    keys = ["label", "seed", "round"]
    means = result.clients_dataframe().groupby(keys, sort=False)["personalized.accuracy"].mean()
    expected = result.to_dataframe().set_index(keys)["personalized.mean"]
    pd.testing.assert_series_equal(means.astype(float), expected, check_names=False, rtol=1e-6)


def test_losses_of_clients_average_to_the_table_of_rounds() -> None:
    result = run({**CONFIG, "training": {"rounds": 2, "local_steps": 1, "participation": 0.6}})
    keys = ["label", "seed", "round"]
    means = result.clients_dataframe().groupby(keys, sort=False)
    found = result.to_dataframe().set_index(keys)
    for name in ("personalized.loss", "global.loss", "train_loss"):
        expected = means[name].mean().astype(float)
        assert found.loc["fedavg", name].notna().sum() == (4 if name == "train_loss" else 6)  # round 0 trains nothing
        pd.testing.assert_series_equal(expected, found[name], check_names=False, rtol=1e-6)


def test_the_summary_aggregates_over_seeds() -> None:
    result = run(CONFIG)
    row = result.summary().set_index("label").loc["fedavg"]
    ends = [r.summary["personalized"]["mean"] for r in result.runs if r.summary and r.label == "fedavg"]
    assert row["seeds"] == 2 and row["personalized.mean"] == pytest.approx(sum(ends) / 2)
    assert row["personalized.mean.std"] == pytest.approx(abs(ends[0] - ends[1]) / 2**0.5)
    sent = [sum(r.scalars["bytes_up"] for r in run.rounds) for run in result.runs if run.label == "fedavg"]
    assert row["bytes_up"] == sent[0] == sent[1] > 0 and row["bytes_up.std"] == 0


def test_a_diverged_run_keeps_its_rounds() -> None:
    changes = {"algorithms": [{"name": "ditto", "lam": 1e6}], "training": {"rounds": 9, "lr": 1e9}}
    diverged = run({**CONFIG, **changes}).runs[0]
    assert diverged.status == "diverged" and "not finite" in str(diverged.error) and len(diverged.rounds) < 10


def test_results_keep_the_configuration_as_it_was() -> None:
    given = copy.deepcopy(CONFIG) | {"algorithms": ("fedavg",), "seeds": np.arange(1)}
    result = run(given)
    before = result.to_json()
    given["training"]["lr"] = 9
    assert result.to_json() == before and json.loads(before)["config"]["seeds"] == [0]


def test_runs_without_rounds_have_tables_with_columns() -> None:
    result = run(CONFIG)
    none = [dataclasses.replace(one, rounds=()) for one in result.runs]
    assert list(tables.rounds_table(none))[:5] == ["experiment", "algorithm", "label", "seed", "status"]
    assert list(tables.clients_table(none))[-2:] == ["round", "client"]


def test_a_mistake_is_raised_before_training() -> None:
    with pytest.raises(InvalidConfig, match="classes_per_client=11"):
        run({**CONFIG, "partition": {"name": "classes_per_client", "classes_per_client": 11}}, progress=pytest.fail)


@pytest.mark.parametrize("config", [None, 3, [CONFIG]])
def test_what_is_not_a_configuration_is_refused(config: Any) -> None:
    with pytest.raises(InvalidConfig, match="is not a configuration; give a mapping, or the path of a YAML"):
        run(config)


def test_an_export_is_not_a_configuration(tmp_path: Path) -> None:
    (path := tmp_path / "runs.json").write_text('{"config": {}, "runs": []}')
    with pytest.raises(
        InvalidConfig, match=r"runs\.json: is an export of runs; import it with python -m engine import"
    ):
        run(path)


@pytest.mark.parametrize("together", [1, 2])
def test_the_number_of_threads_is_restored(together: int) -> None:
    seen = set[int]()
    config = {**CONFIG, "algorithms": ["fedavg"], "threads": 2, "seeds_together": together}
    before = torch.get_num_threads()
    with threadpool_limits(1, user_api="blas"):
        result = run(config, progress=lambda *_: seen.update(blas_threads()))
        assert blas_threads() == {1}
    assert {run.provenance["threads"] for run in result.runs if run.provenance} == {2}
    assert seen == {2}
    assert torch.get_num_threads() == before


def test_without_threads_the_numbers_stay_as_they_are() -> None:
    seen = set[int]()
    with threadpool_limits(3, user_api="blas"):
        run(CONFIG | {"algorithms": ["fedavg"]}, progress=lambda *_: seen.update(blas_threads()))
    assert seen == {3}


def test_models_are_in_the_order_of_the_runs() -> None:
    result = run(CONFIG)
    has_global = [models.global_model is not None for models in result.models]
    assert has_global == [r.algorithm == "fedavg" for r in result.runs]


def test_every_public_name_exists() -> None:
    assert all(hasattr(engine, name) for name in engine.__all__)
    assert "fedavg" in ALGORITHMS
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        engine.Nothing  # noqa: B018


def test_an_export_of_several_splits_is_read_back(tmp_path: Path) -> None:
    text = run(CONFIG | {"algorithms": ["fedavg"], "splits": [4, 5]}).to_json()
    (found,) = parse_export(text.encode(), tmp_path)
    assert [(config.split, config.seed, result.data_seed) for config, result in found.runs] == [
        (4, 0, 4),
        (4, 1, 4),
        (5, 0, 5),
        (5, 1, 5),
    ]


def test_a_study_is_computed_in_one_process() -> None:
    changed = {"partition": CONFIG["partition"] | {"val_fraction": 0.25}, "splits": [4], "tune": {"trials": 2}}
    result = run(CONFIG | changed)
    roles = [r.study["role"] for r in result.runs]
    assert roles == sorted(roles, reverse=True) and roles.count("trial") == 4
    finals = [r for r in result.runs if r.study["role"] == "final"]
    assert {(r.label, r.seed) for r in finals} >= {("fedavg", 0), ("fedavg", 1), ("local_train", 0), ("local_train", 1)}
    assert all(r.summary["personalized"] for r in finals)
    (found,) = parse_export(result.to_json().encode(), Path("study.json"))
    assert [r.study for _, r in found.runs] == [r.study for r in result.runs]


def test_settings_are_chosen_without_the_accuracies_of_malicious_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[float]] = []

    def chosen(trials: dict[int, list[Validation]], *_: Any) -> Chosen:
        seen[:] = [seeds[0].accuracy.tolist() for seeds in trials.values()]
        return Chosen(0, 0.5, None, 2, 1)

    monkeypatch.setattr(api, "choose", chosen)
    changed = {"partition": CONFIG["partition"] | {"val_fraction": 0.25}, "splits": [4], "tune": {"trials": 2}}
    result = run(CONFIG | changed | {"algorithms": ["local_train"], "attack": {"name": "labels", "share": 0.34}})
    for trial, accuracy in zip(result.runs, seen, strict=False):
        expected = trial.rounds[-1].arrays["personalized.val_accuracy"].astype(float)
        expected[list(trial.partition["malicious"])] = np.nan
        assert np.isnan(expected).sum() == 1
        assert np.array_equal(accuracy, expected, equal_nan=True)
    assert len(seen) == 2


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Result:
    """A study whose trials 2 and 3 are drawn by TPE; its final runs have the settings of trial 2."""
    pytest.importorskip("optuna")
    monkeypatch.setattr(tpe, "STARTUP", 2)
    monkeypatch.setattr(api, "choose", lambda *_: Chosen(2, 0.5, None, 4, 1))
    changed = {"partition": CONFIG["partition"] | {"val_fraction": 0.25}, "splits": [4], "algorithms": ["fedavg"]}
    return run(CONFIG | changed | {"tune": {"trials": 4, "sampler": "tpe"}})


def test_final_runs_have_the_settings_that_tpe_drew(drawn: Result) -> None:
    trials = {r.study["trial"]: r for r in drawn.runs if r.study["role"] == "trial"}
    assert [k for k, trial in trials.items() if "point" in trial.study] == [2, 3]
    finals = [r for r in drawn.runs if r.study["role"] == "final" and r.study["trial"] == 2]
    assert finals and all(r.study["point"] == trials[2].study["point"] for r in finals)
    (found,) = parse_export(drawn.to_json().encode(), Path("study.json"))
    assert [r.study for _, r in found.runs] == [r.study for r in drawn.runs]
    lr = {config.study.trial: config.training.lr for config, _ in found.runs if config.study.role == "trial"}
    assert lr[2] == pytest.approx(0.001 * 500 ** trials[2].study["point"][0])
    assert {config.training.lr for config, _ in found.runs if config.study.role == "final"} == {lr[0], lr[2]}


def test_a_document_with_a_forged_point_is_refused(drawn: Result) -> None:
    document = json.loads(drawn.to_json())
    forged = next(r for r in document["runs"] if r["study"]["trial"] == 2)
    for point in (None, [1.5], [0.5, 0.5]):
        forged["study"]["point"] = point
        with pytest.raises(InvalidConfig, match="is not a run of the file's config"):
            parse_export(json.dumps(document).encode(), Path("study.json"))
    forged["study"]["point"] = [0.5]
    with pytest.raises(InvalidConfig, match="trial 2 of 'fedavg' has several points"):
        parse_export(json.dumps(document).encode(), Path("study.json"))
