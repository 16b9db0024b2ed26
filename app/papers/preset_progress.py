"""The progress of a preset: which of its runs exist, and which runs have their names but other settings."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.data import queries
from app.data.config_fields import flat
from app.data.preset_catalog import PresetRun
from app.wording import STATUS, names, plural
from engine.config.schema import parse_experiment
from storage import RunRecord

_RANK = {"done": 0, "running": 1, "queued": 2, "paused": 3, "diverged": 4}
_ABSENT = object()


@dataclass(frozen=True)
class Standing:
    """The runs of a preset, each with the best existing run or ``None``."""

    pairs: tuple[tuple[PresetRun, RunRecord | None], ...]

    @property
    def runs(self) -> list[RunRecord]:
        return [run for _, run in self.pairs if run]

    @property
    def done(self) -> list[RunRecord]:
        return [run for run in self.runs if run.status == "done"]

    @property
    def is_complete(self) -> bool:
        """Whether every run is done or diverged, and at least one is done. Rerunning would not change that."""
        ended = [run for run in self.runs if run.status in ("done", "diverged")]
        return bool(self.done) and len(ended) == len(self.pairs)

    @property
    def is_active(self) -> bool:
        return any(run.is_active for run in self.runs)

    @property
    def unfinished(self) -> list[str]:
        """Experiments with a run that is missing, failed or cancelled."""
        still = ("done", "diverged", "queued", "running", "paused")
        return list(dict.fromkeys(w.experiment for w, run in self.pairs if not run or run.status not in still))

    def of(self, experiment: str) -> list[RunRecord]:
        return [run for planned, run in self.pairs if run and planned.experiment == experiment]

    def by_label(self) -> dict[tuple[str, str], list[RunRecord | None]]:
        """(experiment, label) -> its runs, one for each seed of the preset."""
        found: dict[tuple[str, str], list[RunRecord | None]] = {}
        for planned, run in self.pairs:
            found.setdefault((planned.experiment, planned.label), []).append(run)
        return found

    def sentence(self) -> str:
        """``24 of 54 runs done, 2 running, 1 failed``."""
        counts = Counter(run.status for run in self.runs)
        done = counts.pop("done", 0)
        rest = [f"{number} {STATUS.get(status, status)}" for status, number in counts.items()]
        return ", ".join([f"{done} of {plural(len(self.pairs), 'run')} done", *rest])


def standing(planned: Sequence[PresetRun]) -> Standing:
    """Runs are matched by their whole configuration, not by name."""
    best: dict[str, RunRecord] = {}
    for run in _found({w.digest for w in planned}):  # newest first
        if run.archived or _rank(run) >= _rank(best.get(run.digest)):
            continue
        best[run.digest] = run
    return Standing(tuple((w, best.get(w.digest)) for w in planned))


def changed(planned: Sequence[PresetRun], configs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Runs with the same names but other configurations: experiment -> the fields that differ.

    They do not have the paper's setting, so their numbers are excluded.
    """
    called, digests = {w.experiment for w in planned}, {w.digest for w in planned}
    ids = [e.id for e in queries.experiments() if e.name in called]
    others = [run for run in (queries.runs(experiment_ids=ids) if ids else []) if run.digest not in digests]
    experiments = [parse_experiment(c) for c in configs if c["name"] in {run.experiment_name for run in others}]
    wanted = [run for experiment in experiments for run in experiment.runs()]
    expected = {(run.name, run.label, run.split, run.seed): run.to_dict() for run in wanted}
    found: dict[str, list[str]] = {}
    for run in others:
        key = (run.experiment_name, run.label, run.split, run.seed)
        if key in expected:
            found.setdefault(run.experiment_name, []).extend(differences(expected[key], run.config))
    return {experiment: list(dict.fromkeys(fields)) for experiment, fields in found.items()}


def differences(expected: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """``training.rounds 20 instead of 200``, for each field that changes the numbers."""
    a, b = flat(expected), flat(other)
    return [
        f"{field} {_text(b.get(field, _ABSENT))} instead of {_text(a.get(field, _ABSENT))}"
        for field in dict.fromkeys([*a, *b])
        if a.get(field, _ABSENT) != b.get(field, _ABSENT)
    ]


def changed_sentence(experiment: str, fields: Sequence[str]) -> str:
    return f"Runs named “{experiment}” exist with {names(fields)}; their numbers are excluded."


def _found(digests: set[str]) -> list[RunRecord]:
    return [] if queries.problem() else queries.store().queue.find_by_digest(digests)


def _rank(run: RunRecord | None) -> int:
    return len(_RANK) + 1 if run is None else _RANK.get(run.status, len(_RANK))


def _text(value: Any) -> str:
    return "unset" if value is _ABSENT else str(value)
