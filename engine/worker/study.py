"""A study advances when its trials end: choices are made, then the final runs are queued.

``advance`` may be called at any time, by whatever process is the dispatcher: it does what the rows call for, in one
transaction, and nothing twice.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.config.sampler import MAX_TRIALS
from engine.config.schema import parse_experiment
from engine.config.study import Study
from engine.exchange.records import run_of_study
from engine.simulation.selection import Validation, choose
from engine.worker.study_progress import Trials, have_ended, trials_of
from storage import NewRun, RunRecord, Store
from storage.studies import StudyTransaction

GRADIENTS = "gradient_evaluations"


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
            if following := _next_trial(study, rows, trials, entry, split):
                new += rows.enqueue(following)
            else:
                best = choose(_validations(study, rows, trials), study.tune.select)
                rows.insert_choice(entry, split, **vars(best))
                chosen[entry, split] = best.trial
        if len(chosen) == len(study.tuned):
            new += rows.enqueue([run_of_study(study, run) for run in study.finals(chosen)])
        return new


def _are_complete(study: Study, trials: Trials) -> bool:
    expected = len(trials) if study.tune.gradients else study.tune.trials
    return len(trials) == expected and all(len(own) == len(study.tune.seeds) for own in trials.values())


def _next_trial(study: Study, rows: StudyTransaction, trials: Trials, entry: str, split: int) -> list[NewRun]:
    """The next trial, if there is a budget of gradients and some of it is left."""
    budget = study.tune.gradients
    if budget is None or len(trials) >= MAX_TRIALS:
        return []
    until = {run.id: run.round for own in trials.values() for run in own.values()}
    spent = sum(rows.totals(until, GRADIENTS).values())
    if len(trials) >= 2 and spent >= budget:
        return []
    return [run_of_study(study, run) for run in study.trials(entry, split, len(trials))]


def _validations(study: Study, rows: StudyTransaction, trials: Trials) -> Mapping[int, Sequence[Validation | None]]:
    runs = [run for own in trials.values() for run in own.values()]
    done = [run.id for run in runs if run.status == "done"]
    model = study.tune.model
    accuracies, losses = (rows.last_arrays(done, f"{model}.val_{what}") for what in ("accuracy", "loss"))
    sizes = rows.val_sizes(done)

    def of(run: RunRecord) -> Validation | None:
        if run.id not in accuracies or run.id not in losses or run.id not in sizes:
            return None
        accuracy, loss = (values[run.id].astype(float) for values in (accuracies, losses))
        return Validation(accuracy, loss, np.array(sizes[run.id], float))

    return {number: [of(own[seed]) for seed in study.tune.seeds] for number, own in trials.items()}
