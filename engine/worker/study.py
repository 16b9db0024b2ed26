"""A study advances when its trials end: choices are made, then the final runs are queued.

``advance`` may be called at any time, by whatever process is the dispatcher: it does what the rows call for, in one
transaction, and nothing twice.
"""

from collections.abc import Iterable, Sequence

from engine.config.sampler import MAX_TRIALS
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.exchange.records import run_of_study
from engine.simulation.selection import Validation, choose
from engine.worker.study_progress import Trials, have_ended, trials_of
from storage import NewRun, Store, TrialRecord


def advance(store: Store, experiment_id: int) -> list[int]:
    """Makes the choices that can be made, and queues what follows from them. Returns the ids of the new runs.

    Raises InvalidConfig if the configuration is not valid any more, for instance because a method was removed.
    """
    study = Study(parse_experiment(store.experiments.get(experiment_id).config))
    with store.studies.changing(experiment_id) as rows:
        runs = rows.runs
        if any((run.provenance or {}).get("imported") for run in runs):
            return []  # computed elsewhere, and perhaps only in part
        new = []
        chosen = {(choice.entry, choice.split): choice.trial for choice in rows.choices}
        for entry, split in study.tuned:
            if (entry, split) in chosen:
                continue
            trials = trials_of(runs, entry, split)
            if not have_ended(trials) or not _are_complete(study, trials):
                continue
            measured = rows.measured([run for own in trials.values() for run in own.values()], study.tune.model)
            if following := _next_trial(study, measured, entry, split):
                new += rows.enqueue(following)
            else:
                best = choose(validations(measured), study.tune.select)
                rows.insert_choice(entry, split, **vars(best))
                chosen[entry, split] = best.trial
        if len(chosen) == len(study.tuned):
            new += rows.enqueue([run_of_study(study, run) for run in study.finals(chosen)])
        return new


def _are_complete(study: Study, trials: Trials) -> bool:
    expected = len(trials) if study.tune.gradients else study.tune.trials
    return len(trials) == expected and all(len(own) == len(study.tune.seeds) for own in trials.values())


def _next_trial(study: Study, trials: Sequence[TrialRecord], entry: str, split: int) -> list[NewRun]:
    """The next trial, if there is a budget of gradients and some of it is left."""
    budget, count = study.tune.gradients, len({trial.trial for trial in trials})
    if budget is None or count >= MAX_TRIALS or (count >= 2 and sum(trial.gradients for trial in trials) >= budget):
        return []
    return [run_of_study(study, run) for run in study.trials(entry, split, count)]


def validations(trials: Iterable[TrialRecord]) -> dict[int, list[Validation | None]]:
    """trial -> its validation with each seed; None for a run that is not done or has no values."""
    found: dict[int, list[Validation | None]] = {}
    for one in trials:
        measured = None
        if one.run.status == "done" and one.accuracy is not None and one.loss is not None and one.sizes is not None:
            measured = Validation(one.accuracy.astype(float), one.loss.astype(float), one.sizes)
        found.setdefault(one.trial, []).append(measured)
    return found
