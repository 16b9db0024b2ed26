"""How much tuning helped, and whether the budget was enough."""

import streamlit as st

from app.charts import best_so_far, tuned
from app.charts.plot import figure_cache
from app.components import page
from app.components.shown import Shown, with_finding
from app.state import url_state
from app.state.choice import Choice, Choices
from app.statistics.best_of import chance_to_meet
from app.study import finals
from app.study.numbers import floors
from app.study.study import SELECT, SHARE, Study
from app.wording import capital, plural

AXIS = Choice("Budget in", best_so_far.AXES, "budget", "trials")


def worth(study: Study) -> Shown:
    """The defaults and the chosen settings on test data."""
    runs = study.final_runs
    rows, band = tuned.data(runs, floors(study)), tuned.band(runs)
    clients = int(study.final_clients.groupby("run")["client"].nunique().max())
    return with_finding(
        figure_cache.figure(tuned.figure, rows, SHARE, band),
        rows.drop(columns=["samples", "tail_samples"]),
        tuned.finding(rows),
        key="tuned",
        name="defaults-and-tuned",
        heads=finals.heads(study.reference),
        title="Defaults ▸ tuned, on test data",
        also=tuned.note(SHARE, clients, band is not None, study.has_malicious),
    )


def budget(study: Study, axis: str) -> Shown:
    """The best of the first trials on validation data: in their order if they depend on results, else expected."""
    in_order = study.plan.tune.sampler == "tpe"
    rows = best_so_far.data(study.trial_values, axis, in_order)
    best, draws = "best" if in_order else "expected best", study.budget - 1  # trial 0 has the defaults
    met = {share: f"{100 * chance_to_meet(share, draws):.0f} %" for share in (0.05, 0.2)}
    chance = (
        f"With {plural(draws, 'independent draw')}, the chance to find one of the best 5 % of all settings is "
        f"{met[0.05]}, and {met[0.2]} for the best 20 %."
    )
    return with_finding(
        figure_cache.figure(best_so_far.figure, rows, axis, f"{best} {SELECT[study.shown_by]}"),
        rows,
        best_so_far.finding(rows),
        key="best_so_far",
        name="best-so-far",
        title=f"{capital(best)} of the first trials, on validation data",
        also="In the order of the trials, since later ones depend on earlier results." if in_order else chance,
    )


@url_state.fragment
def panel(study: Study) -> None:
    page.section("How much did tuning help?")
    axis = AXIS.switch() if len(study.trial_values) else AXIS.default
    for column, one in zip(st.columns(2, gap="large"), _known(study, axis), strict=False):
        with column:
            page.show(one)


def figures(study: Study, choices: Choices) -> list[Shown]:
    return _known(study, AXIS.made_in(choices))


def _known(study: Study, axis: str) -> list[Shown]:
    """The figures of final runs and of trials, as far as there are results."""
    of_finals = [worth(study)] if len(study.final_runs) else []
    return of_finals + ([budget(study, axis)] if len(study.trial_values) else [])
