"""The Python API: ``run(config)`` computes an experiment in this process, without a database.

from engine import run
result = run("experiment.yaml")
result.summary()
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.config.alike import without_seeds
from engine.config.files import load_config
from engine.config.schema import ExperimentConfig, RunConfig, parse_experiment
from engine.config.study import Study
from engine.config.tpe import Point
from engine.core.devices import limited_threads
from engine.core.errors import InvalidConfig, shown
from engine.core.lockstep import Lockstep
from engine.core.results import RoundResult, RunResult
from engine.export import tables
from engine.export.choices import ChoiceEntry
from engine.export.document import export_text, write_export
from engine.simulation.preflight import check_runs
from engine.simulation.selection import Validation, choose, value_of
from engine.simulation.simulate import Models, Simulation

Progress = Callable[[RunConfig, RoundResult], None]


@dataclass(frozen=True)
class Result:
    """The runs of an experiment, and the choices of a study.

    ``models`` has the last round's models of each run, in the same order.
    """

    config: dict[str, Any] = field(repr=False)
    runs: tuple[RunResult, ...]
    models: tuple[Models, ...] = field(repr=False)
    choices: tuple[ChoiceEntry, ...] = field(default=(), repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per run and round.

        Columns: ``experiment``, ``algorithm``, ``label``, ``split`` if the data have seeds of their own, ``seed``,
        ``status`` of the run, ``round``, ``participants``, then scalars such as ``personalized.mean``, ``bytes_up`` and
        ``seconds``. Accuracies are fractions in [0, 1]; costs are those of the round, over all participants. NaN where
        a round was not evaluated.
        """
        return tables.rounds_table(self.runs)

    def clients_dataframe(self) -> pd.DataFrame:
        """One row per run, round and client.

        The columns that identify the run, ``round`` and ``client``, then values such as ``personalized.accuracy``,
        ``global.loss`` and ``train_loss``; NaN where a client or a round was not measured.
        """
        return tables.clients_table(self.runs)

    def summary(self) -> pd.DataFrame:
        """One row per experiment and label: the mean over seeds of summaries of the last round and of total costs.

        ``personalized.mean.std`` is the sample standard deviation of ``personalized.mean``. Only runs that are done
        count: ``seeds`` says how many, ``diverged`` how many diverged.
        """
        return tables.summary_table(self.runs)

    def to_json(self, path: Path | str | None = None) -> str:
        """The export, as ``python -m engine run --export`` writes it; also into ``path`` where one is given."""
        if path is not None:
            write_export(Path(path), self.config, self.runs, self.choices)
        return export_text(self.config, self.runs, self.choices)


def run(
    config: Mapping[str, Any] | Path | str | ExperimentConfig | RunConfig, *, progress: Progress | None = None
) -> Result:
    """Compute all runs of a configuration: a mapping, a YAML or JSON file, or one that is validated already.

    ``progress(run, round)`` is called after every round. Raises InvalidConfig before anything is trained; a run that
    diverges keeps its rounds and has the ``status`` diverged. An error in a method's own code is raised as it is. With
    ``tune`` the trials come first, then the final runs.
    """
    raw, runs, study = _resolved(config)
    check_runs(runs, tune=study.tune if study else None)
    choices: list[ChoiceEntry] = []
    finished = list(_run_study(study, choices, progress) if study else _run_all(runs, progress))
    return Result(raw, tuple(o for o, _ in finished), tuple(m for _, m in finished), tuple(choices))


def _resolved(
    config: Mapping[str, Any] | Path | str | ExperimentConfig | RunConfig,
) -> tuple[dict[str, Any], tuple[RunConfig, ...], Study | None]:
    """The configuration as written, its runs or first trials, and its study, if it is one."""
    if isinstance(config, RunConfig):
        return config.as_experiment(), (config,), None
    if not isinstance(config, ExperimentConfig):
        if not isinstance(config, Mapping | Path | str):
            raise InvalidConfig(
                [f"{shown(config)}: is not a configuration; give a mapping, or the path of a YAML or JSON file"]
            )
        config = parse_experiment(config if isinstance(config, Mapping) else load_config(config))
    return config.raw, config.runs(), Study(config) if config.tune else None


def _run_study(
    study: Study, choices: list[ChoiceEntry], progress: Progress | None
) -> Iterator[tuple[RunResult, Models]]:
    """All trials, and when every choice is made the final runs; adds the choices to ``choices``."""
    chosen, chosen_points = {}, {}
    for entry, split in study.tuned:
        validations: dict[int, list[Validation | None]] = {}
        points: dict[int, Point | None] = {}
        spent = 0.0
        while not study.is_spent(trial := len(validations), spent):
            values = {k: value_of(seeds, study.tune.select) for k, seeds in validations.items()}
            points[trial] = study.next_point(entry, split, values, points)
            validations[trial] = []
            for result, models in _run_all(study.trials(entry, split, trial, points[trial]), progress):
                validations[trial].append(_validation(result, study))
                spent += sum(r.scalars["gradient_evaluations"] for r in result.rounds)
                yield result, models
        best = choose(validations, study.tune.select)
        choices.append(ChoiceEntry(experiment=0, entry=entry, split=split, chosen_at=datetime.now(UTC), **vars(best)))
        chosen[entry, split], chosen_points[entry, split] = best.trial, points[best.trial]
    yield from _run_all(study.finals(chosen, chosen_points), progress)


def _validation(result: RunResult, study: Study) -> Validation | None:
    if result.status != "done":
        return None
    arrays, partition = result.rounds[-1].arrays, result.partition or {}
    accuracy, loss = (arrays[f"{study.tune.model}.val_{what}"] for what in ("accuracy", "loss"))
    return Validation.of_benign(accuracy, loss, np.array(partition["val_sizes"], float), partition.get("malicious"))


def _run_all(configs: Iterable[RunConfig], progress: Progress | None) -> Iterator[tuple[RunResult, Models]]:
    """Each run in turn, or several seeds at a time where ``seeds_together`` asks for it."""
    for _, alike in groupby(configs, lambda config: without_seeds(config.to_dict())):
        left = list(alike)
        while left:
            size = left[0].machine.seeds_together
            together, left = left[:size], left[size:]
            yield from _run_together(together, progress)


def _run_together(configs: Sequence[RunConfig], progress: Progress | None) -> list[tuple[RunResult, Models]]:
    """One run, or several that are trained together."""
    threads = configs[0].machine.threads
    with limited_threads(threads) if threads else nullcontext():
        if len(configs) == 1:
            return [_run(configs[0], progress, None)]
        lockstep, finished = Lockstep(), dict[int, tuple[RunResult, Models]]()

        def member(place: int, config: RunConfig) -> None:
            finished[place] = _run(config, progress, lockstep)

        lockstep.run([partial(member, place, config) for place, config in enumerate(configs)])
        return [finished[place] for place in range(len(configs))]


def _run(config: RunConfig, progress: Progress | None, lockstep: Lockstep | None) -> tuple[RunResult, Models]:
    simulation = Simulation(config, lockstep=lockstep)
    rounds = []
    for result in simulation.rounds():
        rounds.append(result)
        if progress is not None:
            progress(config, result)
    return _result(simulation, rounds), simulation.models()


def _result(simulation: Simulation, rounds: list[RoundResult]) -> RunResult:
    config, diverged = simulation.config, rounds[-1].diverged
    return RunResult(
        experiment=config.name,
        algorithm=config.algorithm.name,
        label=config.label,
        hparams=config.hparams,
        seed=config.seed,
        status="diverged" if diverged else "done",
        rounds=tuple(rounds),
        provenance=asdict(simulation.provenance),
        partition=simulation.task.data.summary.to_dict(),
        summary=simulation.summary(),
        error=diverged,
        data_seed=config.data_seed,
        study=config.study.to_dict() if config.study else None,
    )
