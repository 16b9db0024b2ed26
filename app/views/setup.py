"""Set up: an experiment from its data to its seeds, with a preview of the split and the cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app import wording
from app.components.page import header, kicker_html
from app.data import pools
from app.data.experiment_names import automatic_name
from app.forms import Form
from app.setup import draft as drafts
from app.setup import methods, preview, sections
from app.setup.advanced import Advanced
from app.setup.dials import dials_section
from app.setup.presets import presets_panel
from app.setup.problem_words import in_words, label_at, labeled
from app.setup.tuning import tuning_section
from app.state import url_state
from engine.config.schema import parse_experiment
from engine.simulation.preflight import sampler_problems

STYLE = Path(sections.__file__).with_name("setup.css")
LEAD = "All methods share the data split and the initial model, and in each round the participants and their batches."


def render() -> None:
    form = Form("setup_form")
    with form.resumed():
        draft = drafts.current(form)
        st.html(STYLE)
        before = kicker({"name": "untitled", **draft})
        first_line = header(before, "New experiment", LEAD, skip_to=preview.QUEUE)  # first: it would move the form
        written, shown = st.columns([7, 5], gap="large")
        with written:
            raw = configuration(form, draft)
        drafts.keep(raw)
    complete = {"name": automatic_name(raw), **raw}
    problems = drafts.problems_of(complete)
    if (now := kicker(complete, problems)) != before:
        first_line.html(kicker_html(now, preview.QUEUE))
    with shown, st.container(key="setup_preview"):
        outcome(form, complete, problems)


def configuration(form: Form, draft: Mapping[str, Any]) -> dict[str, Any]:
    """The whole form; returns its current values."""
    named, right = st.columns([3, 1], vertical_alignment="bottom", gap="medium")
    notice = st.container()
    with right:
        presets_panel(form, notice)
    first, advanced = st.container(), Advanced(form, st.container())
    with first:
        dataset = sections.data_section(form, draft, advanced)
        with st.spinner("Loading data"):
            facts = pools.facts_of(preview.first_run({"dataset": dataset, "partition": "iid"}))
        sections.fit_partition(form, draft, dataset, facts.has_clients if facts else None)
        partition = sections.heterogeneity_section(form, draft, advanced, facts.num_classes if facts else None)
        entries = methods.methods_section(form, draft)
        swept = methods.shared_sweeps(form, draft)
        model, training, evaluation, drawn = sections.training_section(form, draft, advanced, swept)
        tune = tuning_section(form, draft)
        dials = dials_section(form, draft, swept)
    raw = {
        "dataset": dataset,
        "partition": partition,
        "model": model,
        "training": training,
        "algorithms": methods.with_shared(entries, draft, swept),
        **drawn,
        **({"tune": tune} if tune is not None else {}),
        "evaluation": evaluation,
        **dials,
        **advanced.machine(draft),
    }
    advanced.close(raw)
    with named:
        name = form.text("Name", str(draft.get("name", "")), "name", placeholder=automatic_name(raw))
    return {"name": name, **raw} if name.strip() else raw


def outcome(form: Form, raw: Mapping[str, Any], problems: list[str]) -> None:
    """Cost and button first, to be visible on a laptop, then the split; each problem is shown under its field."""
    above = st.container()
    problems = problems + preview.split_panel(preview.first_run(raw))
    experiment = None if problems else parse_experiment(raw)
    if experiment and (problems := sampler_problems(experiment.tune) or preview.dial_problems(raw, experiment)):
        experiment = None
    with above:
        if experiment:
            problems = preview.cost_panel(experiment)
        problems = in_words(problems, raw)
        unfinished = preview.to_do(raw, problems)
        unplaced = [labeled(problem, raw) for problem in form.show(problems, unfinished)]
        fields = list(dict.fromkeys(label_at(problem.partition(": ")[0], raw) for problem in problems))
        preview.queue_panel(experiment, problems, unplaced, unfinished, fields)
        if experiment and not problems:
            preview.notes_panel(form, experiment)
        preview.yaml_panel(raw)


def kicker(raw: Mapping[str, Any], problems: list[str] | None = None) -> str:
    """The setting in one line, or "Set up" if it has problems. Without ``problems``, it is validated here."""
    found = drafts.problems_of(raw) if problems is None else problems
    return "Set up" if found else wording.kicker(raw)


with url_state.page("setup"):
    render()
