"""How a study was done, for those who judge it: budget, seeds, splits, and the search space of every method."""

import pandas as pd

from app.charts.tuning_axes import value_in_words
from app.study.study import SELECT, Study
from app.wording import capital, count, names, plural

SAMPLERS = {
    "sobol": "Sobol sequence; trial k of all methods has the same learning rate",
    "random": "uniformly at random; trial k of all methods has the same learning rate",
    "tpe": "Sobol sequence, then tree-structured Parzen estimators",
}
PER = {"split": "each split separately", "first": "the first split, for all splits"}


def steps(study: Study) -> pd.DataFrame:
    """[Step, How]: what was done, in its order."""
    tune, rounds = study.plan.tune, _rounds(study)
    budget = (
        f"{count(tune.gradients)} gradient evaluations per method and split"
        if tune.gradients
        else f"{plural(tune.trials, 'trial')} per method and split"
    )
    rows = {
        "Budget": f"{budget}; the first trial has the defaults",
        "Sampler": SAMPLERS[tune.sampler],
        "Splits of the data": _listed(study.splits),
        "Rounds": f"{_listed(rounds)}; of a trial {tune.rounds}" if tune.rounds else _listed(rounds),
        "Seeds of the trials": _listed(tune.seeds),
        "Selected by": f"{SELECT[tune.select]} of the {tune.model} model after the last round, on {PER[tune.per]}",
        "Seeds of the final runs": _listed(study.seeds),
        "Test data": "evaluated only in the final runs, after all settings were chosen",
    }
    return pd.DataFrame([(step, capital(how)) for step, how in rows.items()], columns=["Step", "How"])


def spaces(study: Study) -> pd.DataFrame:
    """[Method, Parameter, Search space, Default]: a row per tuned parameter, or one for a method without any."""
    rows: list[tuple[str, str, str, str]] = []
    for entry in study.entries:
        of, defaults = study.plan.spaces(entry.label), study.plan.defaults(entry.label)
        symbols = {axis.name: axis.symbol for axis in study.axes(entry)}
        rows += [
            (entry.name, symbols.get(name, name), space.in_words, value_in_words(defaults[name]))
            for name, space in of.items()
        ]
        if not of:
            rows.append((entry.name, "none", "", ""))
    return pd.DataFrame(rows, columns=["Method", "Parameter", "Search space", "Default"])


def _rounds(study: Study) -> list[int]:
    return sorted({entry.training.rounds for entry in study.plan.entries.values()})


def _listed(numbers: tuple[int, ...] | list[int]) -> str:
    return names(map(str, numbers), 20)
