"""The size of a study in words."""

from collections.abc import Sequence

from app.wording import count, plural
from engine.config.schema import RunConfig
from engine.config.tune import Tune


def study_size(planned: Sequence[tuple[RunConfig, int]], tune: Tune, is_measured: bool = False) -> str:
    """``32 trials on validation data, then at most 12 final runs.``

    ``planned`` is what ``Study.planned`` gives. Trials within a budget of gradients are estimated, from measured costs
    if ``is_measured``.
    """
    trials, finals = (
        sum(number for run, number in planned if run.study is not None and run.study.role == role)
        for role in ("trial", "final")
    )
    estimated = "About " if is_measured else "At least "
    about = estimated if tune.gradients else ""
    budget = f", {count(tune.gradients)} gradients per method and split" if tune.gradients else ""
    many = f"{about}{plural(trials, 'trial')} on validation data{budget}"
    return f"{many}, then at most {plural(finals, 'final run')}."
