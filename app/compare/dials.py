"""The panel on hyper-parameters: which value is best."""

import pandas as pd

from app.charts import sweep
from app.compare import tables
from app.compare.section import Part
from app.compare.view import View
from app.components import page
from app.components.shown import Shown, with_finding
from app.data import config_fields
from app.data.column_heads import Head
from app.data.comparison import unit_of
from app.forms import label_of
from app.state import url_state
from app.state.choice import Choice, Choices
from app.wording import capital


@url_state.fragment
def swept(view: View) -> None:
    if (choice := parameter_of(view)) is None:
        return
    parameter = choice.value()
    page.section(heading(view, parameter))
    if len(choice.titles) > 1:
        choice.pick()
    page.show(figure(view, parameter))


def part(view: View, choices: Choices) -> Part | None:
    if (choice := parameter_of(view)) is None:
        return None
    parameter = choice.made_in(choices)
    return Part(heading(view, parameter), (figure(view, parameter),))


def parameter_of(view: View) -> Choice | None:
    """The parameters that were swept."""
    found = {name: name.removeprefix("training.") for name in sweep.parameters(view.with_options())}
    return Choice("Parameter", found, "parameter", next(iter(found))) if found else None


def heading(view: View, parameter: str) -> str:
    rows = _rows(view, parameter)
    return sweep.heading(rows, _words(view, rows, parameter)[0])


def figure(view: View, parameter: str) -> Shown:
    rows = _rows(view, parameter)
    symbol, axis, meaning = _words(view, rows, parameter)
    return with_finding(
        sweep.figure(rows, symbol, axis),
        tables.for_download(rows),
        sweep.finding(rows, symbol, unit_of(view.per_run())),
        key="sweep",
        name=f"sweep-{parameter}",
        title=f"Accuracy by {symbol}; ★ best, chosen on {rows['chosen_on'].iloc[0]}; dashed: lowest {view.tail} %",
        also=f"{meaning} {view.rule.capitalize()}, whisker: {view.whisker}.".strip(),
        heads={"value": Head(symbol), "seeds": Head(capital(view.spread))},
    )


def _rows(view: View, parameter: str) -> pd.DataFrame:
    runs = view.with_options()
    return sweep.data(_with_validation(view, _with_own_choice(view, runs, parameter)), parameter)


def _with_own_choice(view: View, runs: pd.DataFrame, parameter: str) -> pd.DataFrame:
    """CGPFL-Heur records ``diagnostics.K_hat``: the K that it chose."""
    return runs.assign(itself=runs["run"].map(view.last(f"diagnostics.{parameter}_hat")).astype(float))


def _with_validation(view: View, runs: pd.DataFrame) -> pd.DataFrame:
    """Adds the mean validation accuracy, where runs have validation data."""
    return runs.assign(validation=runs["run"].map(view.means("val_accuracy")).astype(float))


def _words(view: View, rows: pd.DataFrame, parameter: str) -> tuple[str, str, str]:
    """Symbol, axis title with its direction, and the description of the parameter."""
    algorithms = set(rows.loc[rows["value"].notna(), "algorithm"])
    configs = [run.config for run in view.runs.values() if run.algorithm in algorithms]
    known = config_fields.parameter_of(parameter if "." in parameter else f"algorithm.{parameter}", configs)
    if known is None:
        plain_name = parameter.removeprefix("training.")
        return plain_name, plain_name, ""
    return known.symbol, label_of(known), known.description
