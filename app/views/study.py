"""Study: methods tuned on validation data with equal budgets, and their results on test data."""

from datetime import UTC, datetime
from functools import partial

import streamlit as st

from app.components import page, paper_figure, terms
from app.components.examples import study_button
from app.components.shown import Shown
from app.components.timed import timed
from app.report.study import report
from app.state import url_state
from app.state.choice import Choices
from app.study import choosing, equal_cost, finals, finding, numbers, progress, ranks, settings, tuning
from app.study.study import Study
from app.wording import kicker, lines
from engine.config.presets import load_preset
from engine.core.errors import InvalidConfig

QUESTION = "Which method is best if all are tuned equally?"
EXAMPLE = "study-digits"
REFRESH_S = 5
LEAD = (
    "A study gives every method the same number of trials, chooses settings on validation data, retrains them with "
    "fresh seeds, and only then evaluates on test data."
)


def render() -> None:
    page.require_store()
    found = choosing.studies()
    shown = choosing.named(found)
    if shown is None:
        none_yet()
        return
    try:
        study = choosing.study_of(shown)
    except InvalidConfig as error:
        page.header("STUDY", shown.name)
        st.error(lines(error.problems))
        return
    if study.is_finished and len(study.final_runs):
        results(study)
    else:
        header(study, QUESTION, LEAD)
    control = choosing.control(found, shown)
    with st.container(horizontal=True, vertical_alignment="center", key="study_controls"):
        if len(control.titles) > 1:
            control.pick()
        if study.finals:
            page.link("compare", "Final runs in Compare", runs=",".join(str(run.id) for run in study.finals))
        page.link("live", "Live", experiment=study.experiment.id)
        if study.is_finished and len(study.final_runs):
            report_button(study)
    panels(study)


def none_yet() -> None:
    page.header("STUDY", QUESTION, LEAD)
    example = load_preset(EXAMPLE)
    st.markdown(
        f"There is no study yet. To see one, open the shipped result of *{example.title}*, or run it from "
        f"[Papers](/papers?preset={EXAMPLE}). To study methods of your choice, switch on *Tune all methods alike* in "
        "[Set up](/setup)."
    )
    study_button(example, "quick")


def header(study: Study, title: str, lead: str) -> None:
    page.header(kicker(study.experiment.config), title, lead)


def results(study: Study) -> None:
    """The finding in words, from the finished final runs."""
    found = finding.of(study)
    header(study, found.title, found.procedure)
    terms.paragraph(" ".join(found.sentences))
    terms.caption(progress.test_data(study))


def panels(study: Study) -> None:
    if not study.is_finished:
        follow(study)
    if study.is_finished and len(study.final_runs):
        finals.panel(study, numbers.table(study))
    tuning.panel(study)
    settings.panel(study)
    if study.is_finished:
        ranks.panel(study)
        equal_cost.panel(study)
        settings.download_chosen(study)
    paper_figure.offer(lambda: figures(study, url_state.address()))


@timed(REFRESH_S)
def follow(study: Study) -> None:
    """The progress. The whole page is drawn again when a choice is made or the study ends."""
    now = choosing.study_of(study.experiment)
    if waiting := progress.sentences(now, datetime.now(UTC)):
        st.info(lines(waiting))
    if stage(now) != stage(study):
        st.rerun()


def stage(study: Study) -> tuple[int, int, bool]:
    return len(study.progress.choices), len(study.finals), study.is_finished


def figures(study: Study, choices: Choices) -> list[Shown]:
    return [*tuning.figures(study, choices), *settings.figures(study, choices), *ranks.figures(study)]


def report_button(study: Study) -> None:
    st.download_button(
        "Export report (HTML)",
        partial(report, study, url_state.address(), st.context.url or ""),
        "study.html",
        "text/html",
        key="report",
        on_click="ignore",
        help="All figures and tables of this page in one file that works offline",
    )


with url_state.page("study"):
    render()
