"""Converts runs between engine and storage: a configuration to a queued row, a stored run to an export, and back."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from engine.config.schema import ExperimentConfig, RunConfig
from engine.config.study import Study
from engine.core.errors import InvalidConfig
from engine.core.results import RoundResult, RunResult
from engine.exchange.stored_json import ConfigEntry, SummaryEntry
from engine.export.choices import ChoiceEntry
from engine.export.document import joint_config
from engine.export.reading import check_levels, check_run, validated
from storage import ChoiceRecord, FinishedRun, NewRun, RoundRecord, RunRecord, Store


def new_run(config: RunConfig) -> NewRun:
    """A run to queue, for storage."""
    return NewRun(
        algorithm=config.algorithm.name,
        label=config.label,
        seed=config.seed,
        hparams=config.hparams,
        config=config.to_dict(),
        rounds=config.training.rounds,
        digest=config.digest,
    )


def new_runs(experiment: ExperimentConfig) -> list[NewRun]:
    """The runs to queue when an experiment starts: all of them, or the first trials of a study."""
    if experiment.tune is None:
        return [new_run(run) for run in experiment.runs()]
    study = Study(experiment)
    return [run_of_study(study, run) for run in study.first_trials()]


def run_of_study(study: Study, run: RunConfig) -> NewRun:
    """A run to queue, at its position in the study."""
    return replace(new_run(run), position=study.position(run))


def check_documents(path: Path, run: RunRecord) -> None:
    """Checks a run's JSON documents, so that the app can show it. Raises InvalidConfig."""
    try:
        check_levels([run.hparams, run.config, run.provenance, run.partition, run.summary])
        check_run(run.provenance, run.partition)
        validated(ConfigEntry, run.config, "config")
        validated(SummaryEntry, run.summary or {}, "summary")
    except ValueError as error:
        raise InvalidConfig([f"{path}: run {run.id} ({run.label!r:.100} seed {run.seed}): {error}"]) from error


def round_record(result: RoundResult) -> RoundRecord:
    """A round for storage: the same fields without ``diverged``, which becomes the error of the run."""
    return RoundRecord(**{field.name: getattr(result, field.name) for field in fields(RoundRecord)})


def round_result(record: RoundRecord) -> RoundResult:
    return RoundResult(**vars(record))


def load_result(store: Store, run: RunRecord) -> RunResult:
    """A stored run with its rounds, for exports and tables."""
    return RunResult(
        experiment=run.experiment_name,
        algorithm=run.algorithm,
        label=run.label,
        hparams=run.hparams,
        seed=run.seed,
        status=run.status,
        rounds=[round_result(record) for record in store.metrics.rounds(run.id)],
        provenance=run.provenance,
        partition=run.partition,
        summary=run.summary,
        error=run.error,
        experiment_id=run.experiment_id,
        data_seed=run.config.get("data_seed"),
        study=run.study,
    )


def export_config(store: Store, runs: Sequence[RunRecord]) -> dict[str, Any]:
    """The ``config`` of an export of these runs."""
    ids = dict.fromkeys(run.experiment_id for run in runs)
    found = [store.experiments.get(i) for i in ids]
    return joint_config([experiment.config | {"name": experiment.name} for experiment in found])


def choices_of(store: Store, runs: Sequence[RunRecord]) -> list[ChoiceEntry]:
    """The ``choices`` of an export of these runs: those of their studies."""
    ids = dict.fromkeys(run.experiment_id for run in runs)
    return [
        ChoiceEntry(experiment=index, **{k: v for k, v in vars(choice).items() if k != "experiment_id"})
        for index, experiment_id in enumerate(ids)
        for choice in store.studies.choices(experiment_id)
    ]


def choice_record(experiment_id: int, entry: ChoiceEntry) -> ChoiceRecord:
    """An imported choice, for storage."""
    return ChoiceRecord(experiment_id, **entry.model_dump(exclude={"experiment"}))


def finished_run(config: RunConfig, result: RunResult) -> FinishedRun:
    """An imported run, for storage."""
    return FinishedRun(
        run=new_run(config),
        status=result.status,
        rounds=[round_record(r) for r in result.rounds],
        provenance=result.provenance,
        partition=result.partition,
        summary=result.summary,
        error=result.error,
    )
