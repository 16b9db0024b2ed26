"""Which experiments are studies, and the one that the address names."""

from collections.abc import Sequence

from app.data import queries
from app.data.own_first import own_or_examples
from app.state import url_state
from app.state.choice import Choice
from app.study.study import Study
from engine.config.schema import parse_experiment
from engine.config.study import Study as StudyConfig
from engine.worker.study_progress import progress_of
from storage import ExperimentRecord


def studies() -> list[ExperimentRecord]:
    """The experiments with a ``tune:`` block, newest first."""
    return [experiment for experiment in queries.experiments() if experiment.config.get("tune") is not None]


def named(found: Sequence[ExperimentRecord]) -> ExperimentRecord | None:
    """``?experiment=5``, also if it is archived; else the newest of ``found``, an example if there are no others."""
    for experiment_id in url_state.ids("experiment"):
        experiment = queries.experiment(experiment_id)
        if experiment is not None and experiment.config.get("tune") is not None:
            return experiment
    return newest(found)


def newest(found: Sequence[ExperimentRecord]) -> ExperimentRecord | None:
    own = own_or_examples(found)
    return own[0] if own else None


def control(found: Sequence[ExperimentRecord], shown: ExperimentRecord) -> Choice:
    titles = {str(one.id): one.name for one in [shown, *found]}
    return Choice("Study", titles, "experiment", str((newest(found) or shown).id))


def study_of(experiment: ExperimentRecord) -> Study:
    """Raises InvalidConfig if its methods or data sets are not installed."""
    plan = StudyConfig(parse_experiment(experiment.config))
    return Study(experiment, plan, progress_of(queries.store(), experiment.id))
