"""A study advances when its trials end: choices are made, then the final runs are queued.

``advance`` may be called at any time, by the dispatcher and by others. It derives what is due from the stored rows, and
does it in one transaction, each step only once.
"""

from collections.abc import Iterable, Sequence

from engine.config import tpe
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.config.tpe import Point
from engine.config.tune import StudyRun
from engine.exchange.records import run_of_study
from engine.simulation.selection import Validation, choose, value_of
from engine.worker.study_progress import CONCLUDED, Key, Trials, trials_by_choice
from storage import NewRun, Store, StudyTransaction, TrialRecord


def advance(store: Store, experiment_id: int) -> list[int]:
    """Makes the choices that can be made, and queues what follows from them. Returns the ids of the new runs.

    Raises InvalidConfig if the configuration is not valid any more, for instance because a method was removed, or if
    Optuna is needed and not installed.
    """
    study = Study(parse_experiment(store.experiments.get(experiment_id).config))
    if study.tune.sampler == "tpe" and tpe.is_installed():
        tpe.optuna()  # its import may take longer than others wait for the transaction
    with store.studies.reading(experiment_id) as rows:  # mostly nothing is due, so no other write has to wait
        if not _ended_trials(study, rows):
            return []
    with store.studies.changing(experiment_id) as rows:
        chosen, new = {(choice.entry, choice.split): choice.trial for choice in rows.choices}, []
        all_trials = _ended_trials(study, rows)
        for (entry, split), trials in all_trials.items():
            measured = rows.measured([run for own in trials.values() for run in own.values()], study.tune.model)
            if not study.is_spent(len(trials), sum(run.gradients for run in measured)):
                new += rows.enqueue(_next_trial(study, trials, measured, entry, split))
            else:
                best = choose(validations(measured), study.tune.select)
                rows.insert_choice(entry, split, **vars(best))
                chosen[entry, split] = best.trial
        if all_trials and len(chosen) == len(study.tuned):  # with the last choice, so that deleted ones stay deleted
            by_choice = trials_by_choice(rows.runs)
            points = {key: _points(by_choice.get(key, {})).get(trial) for key, trial in chosen.items()}
            new += rows.enqueue([run_of_study(study, run) for run in study.finals(chosen, points)])
        return new


def _ended_trials(study: Study, rows: StudyTransaction) -> dict[Key, Trials]:
    """The trials of each undecided choice for which all have ended; none of a study that was imported."""
    if rows.is_imported:
        return {}  # computed elsewhere, and perhaps only in part
    decided = {(choice.entry, choice.split) for choice in rows.choices}
    undecided = [key for key in study.tuned if key not in decided]
    trials = trials_by_choice(rows.runs) if undecided else {}
    return {key: trials[key] for key in undecided if key in trials and _have_ended(study, trials[key])}


def _have_ended(study: Study, trials: Trials) -> bool:
    """Whether there are trials, none was deleted, and none is pending or cancelled."""
    expected = max(1, len(trials)) if study.is_sequential else study.tune.trials
    return list(trials) == list(range(expected)) and all(
        len(own) == len(study.tune.seeds) and all(run.status in CONCLUDED for run in own.values())
        for own in trials.values()
    )


def _points(trials: Trials) -> dict[int, Point | None]:
    """trial -> its point, where that depended on results."""
    return {trial: StudyRun.from_dict(next(iter(own.values())).study).point for trial, own in trials.items()}


def _next_trial(study: Study, trials: Trials, measured: Sequence[TrialRecord], entry: str, split: int) -> list[NewRun]:
    values = {trial: value_of(seeds, study.tune.select) for trial, seeds in validations(measured).items()}
    drawn = study.next_point(entry, split, values, _points(trials))
    return [run_of_study(study, run) for run in study.trials(entry, split, len(values), drawn)]


def validations(trials: Iterable[TrialRecord]) -> dict[int, list[Validation | None]]:
    """trial -> its validation with each seed; None for a run that is not done or has no values."""
    found: dict[int, list[Validation | None]] = {}
    for one in trials:
        measured = None
        if one.run.status == "done" and one.accuracy is not None and one.loss is not None and one.sizes is not None:
            measured = Validation.of_benign(one.accuracy, one.loss, one.sizes, one.malicious)
        found.setdefault(one.trial, []).append(measured)
    return found
