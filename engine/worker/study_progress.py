"""The progress of a study, from its database rows alone: needs no method, and so no torch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.config.tune import Tune
from storage import ChoiceRecord, RunRecord, Store

CONCLUDED = ("done", "diverged", "failed")  # a cancelled run has to be retried
Key = tuple[str, int]  # entry and split of a choice
Trials = dict[int, dict[int, RunRecord]]  # trial -> seed -> its newest run


@dataclass(frozen=True)
class StudyProgress:
    """The trials of a study by entry and split, its choices, and its final runs.

    ``planned`` is the number of runs that the trials of a choice need, also those that are not queued yet; 0 if it
    depends on their costs. ``deleted`` is the number of runs of its trials that were deleted.
    """

    trials: Mapping[Key, Trials]
    choices: Mapping[Key, ChoiceRecord]
    finals: tuple[RunRecord, ...]
    planned: int = 0
    deleted: Mapping[Key, int] = field(default_factory=dict)

    @property
    def trial_runs(self) -> list[RunRecord]:
        return [run for trials in self.trials.values() for own in trials.values() for run in own.values()]

    @property
    def undecided(self) -> list[Key]:
        return [key for key in self.trials if key not in self.choices]

    @property
    def held_up(self) -> list[str]:
        """The cancelled and deleted trials of each method, for which the final runs of all methods wait."""
        cancelled, deleted = Counter[str](), Counter[str]()
        for entry, split in self.undecided:
            runs = [run for own in self.trials[entry, split].values() for run in own.values()]
            cancelled[entry] += sum(run.status == "cancelled" for run in runs)
            deleted[entry] += self.deleted.get((entry, split), 0)
        return [
            *(f"{_trials(entry, n)} cancelled; retry {_them(n)}" for entry, n in cancelled.items() if n),
            *(
                f"{_trials(entry, n)} deleted; restore {_them(n)} from the trash, or run the study again"
                for entry, n in deleted.items()
                if n
            ),
        ]

    def in_words(self) -> list[str]:
        """``trials 112 of 160, final runs wait for 3 methods``, and what holds them up."""
        total = sum(max(self.planned, sum(map(len, trials.values()))) for trials in self.trials.values())
        line = f"trials {sum(run.status in CONCLUDED for run in self.trial_runs)} of {total}"
        if self.finals:
            line += f", final runs {sum(run.status in CONCLUDED for run in self.finals)} of {len(self.finals)}"
        elif methods := len({entry for entry, _ in self.undecided}):
            line += f", final runs wait for {methods} method{'' if methods == 1 else 's'}"
        else:
            line += ", no final runs"
        cancelled = sum(run.status == "cancelled" for run in self.finals)
        which = "1 final run was" if cancelled == 1 else f"{cancelled} final runs were"
        return [line, *self.held_up, *([f"{which} cancelled; retry {_them(cancelled)}"] if cancelled else [])]


def progress_of(store: Store, experiment_id: int) -> StudyProgress:
    runs = store.queue.runs(
        experiment_ids=[experiment_id], include_archived=True, newest_first=False, with_partition=False
    )
    choices = {(choice.entry, choice.split): choice for choice in store.studies.choices(experiment_id)}
    trashed = store.studies.trashed_trials(experiment_id)
    present = [run.study for run in runs if run.study is not None and run.study["role"] == "trial"]
    keys = dict.fromkeys((trial["entry"], trial["split"]) for trial in [*present, *trashed])
    present_trials = trials_by_choice(runs)
    trials = {key: present_trials.get(key, {}) for key in keys}
    finals = newest([run for run in runs if run.study is not None and run.study["role"] == "final"])
    tune = Tune.model_validate(store.experiments.get(experiment_id).config.get("tune") or {})
    planned = 0 if tune.gradients else tune.trials * len(tune.seeds)
    is_imported = any((run.provenance or {}).get("imported") for run in runs)
    deleted = {} if is_imported else {key: _deleted(tune, key, own, trashed) for key, own in trials.items()}
    return StudyProgress(trials, choices, tuple(finals), planned, deleted)


def trials_by_choice(runs: Sequence[RunRecord]) -> dict[Key, Trials]:
    """The trials of each method and split, in order. If a trial was repeated, its newest run counts."""
    found: dict[Key, Trials] = {}
    for run in sorted(runs, key=lambda run: run.id):
        study_run = run.study
        if study_run and study_run["role"] == "trial":
            own = found.setdefault((study_run["entry"], study_run["split"]), {})
            own.setdefault(study_run["trial"], {})[run.seed] = run
    return {key: dict(sorted(own.items())) for key, own in found.items()}


def newest(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Only the last of repeated runs with the same settings and seed."""
    return list({(run.label, run.digest): run for run in sorted(runs, key=lambda run: run.id)}.values())


def _deleted(tune: Tune, key: Key, trials: Trials, trashed: Sequence[Mapping[str, Any]]) -> int:
    """How many runs of the trials of a choice were deleted. Later trials may not have been queued yet."""
    if tune.gradients is None and tune.sampler != "tpe":
        queued = tune.trials
    else:
        numbers = [trial["trial"] for trial in trashed if (trial["entry"], trial["split"]) == key]
        queued = 1 + max([*trials, *numbers], default=-1)
    return queued * len(tune.seeds) - sum(map(len, trials.values()))


def _trials(entry: str, count: int) -> str:
    return f"1 trial of {entry} was" if count == 1 else f"{count} trials of {entry} were"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"
