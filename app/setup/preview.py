"""The right side of Set up: the split, the cost of the runs, and the button that queues them."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
import yaml

from app import wording
from app.access import permits
from app.actions import launch
from app.charts import split as split_chart
from app.charts.plot import figure_cache
from app.components import terms
from app.components.page import chart, landing
from app.components.queue_button import queue_button
from app.components.queue_position import queue_position
from app.data import pools, queries
from app.data.study_size import study_size
from app.forms import Form
from app.setup import cost as costs
from app.setup.dial_problems import at_dial, dial_of, refused
from app.setup.measure import measure_panel
from app.wording import plain
from engine.config.schema import NOT_SET, ExperimentConfig, RunConfig, parse_experiment
from engine.config.study import Study
from engine.core.errors import DataUnavailable, FedscapeError, ImpossiblePartition, InvalidConfig
from engine.core.registry import DATASETS
from engine.partitioners.measures import label_entropy, mean_js_distance
from engine.simulation.preflight import labeled, study_notes, validation_notes
from storage import ExperimentRecord


def first_run(raw: Mapping[str, Any]) -> RunConfig | None:
    """The data and split of the draft as one run, even if a method or its training is invalid."""
    drawn = raw.get("splits") or raw.get("seeds")
    split = drawn[0] if isinstance(drawn, list) and drawn and isinstance(drawn[0], int) else 0
    data = {"dataset": raw["dataset"], "partition": raw["partition"], "model": "mlr"}
    try:
        return parse_experiment({**data, "algorithms": ["fedavg"], "seeds": [max(split, 0)]}).runs()[0]
    except InvalidConfig:
        return None


QUEUE = "Queue"
SPLIT = "Data per client"


def _without_split(why: str) -> list[str]:
    st.header(SPLIT, anchor=False)
    st.caption(why)
    return []


def split_panel(run: RunConfig | None) -> list[str]:
    """Draw the split; returns problems with the data."""
    if run is None:
        return _without_split("The split appears here once the data set and the data split are valid.")
    if must_download(run):
        st.header(SPLIT, anchor=False)
        return _absent(run)
    try:
        partition = pools.split_of(run)
    except (DataUnavailable, ImpossiblePartition) as error:
        return [*_without_split("This split cannot be made."), _located(error, run)]
    table = split_chart.data(partition)
    finding = split_chart.sentence(table)
    chart(
        figure_cache.figure(split_chart.figure, table),
        table,
        key="split",
        alt=finding,
        title=SPLIT,
        name="split",
        caption=f"{finding} {_heterogeneity(np.asarray(partition['class_counts']))} Seed {run.split}.",
    )
    for note in partition["notes"]:
        st.info(plain(f"{wording.capital(note)}."))
    if partition["unseen"]:
        count = len(partition["unseen"]["clients"])
        terms.caption(f"Not shown: {wording.plural(count, 'held-out client')}, evaluated after the last round.")
    measure_panel(run)
    return []


def must_download(run: RunConfig) -> bool:
    """Whether the data must be downloaded first; opening a form downloads nothing."""
    can_be_fetched = getattr(DATASETS.get(run.dataset.name).make, "needs_download", False)
    return bool(can_be_fetched) and not pools.is_present(run.dataset)


def dial_problems(raw: Mapping[str, Any], experiment: ExperimentConfig) -> list[str]:
    """Dials that the chosen methods refuse; checking this needs no data."""
    return refused(raw, _one_seed(experiment.runs()))


def cost_panel(experiment: ExperimentConfig) -> list[str]:
    """Number of runs, time, memory and disk; returns problems that would prevent a method's start."""
    planned, each = _planned(experiment), list[costs.Cost]()
    slots = sum(engine.slots for engine in queries.engines()) or 1
    if must_download(planned[0][0]):
        st.html(_facts(planned, None, slots, 0))
        return []
    with queue_position(), st.spinner("Timing each method"):
        problems = _refused_methods(experiment, [run for run, _ in planned])
        if not problems:
            planned = _planned(experiment, lambda run: costs.cost_of(run).gradients)
            each = [costs.cost_of(run) for run, _ in planned]
    repeated = [cost for cost, (_, count) in zip(each, planned, strict=False) for _ in range(count)]
    total = costs.total_cost(repeated, min(slots, len(repeated))) if each else None
    st.html(_facts(planned, total, slots, sum(cost.seconds is None for cost in each)))
    if experiment.tune:
        st.caption(plain(study_size(planned, experiment.tune, all(cost.gradients for cost in each))))
    return problems


def _refused_methods(experiment: ExperimentConfig, runs: Sequence[RunConfig]) -> list[str]:
    """Why methods cannot be trained, with their labels."""
    found = dict[str, None]()
    for run in runs:
        try:
            costs.cost_of(run)
            costs.notes_of(run, experiment.tune)  # the whole run may not be allowed what a short round is
        except FedscapeError as error:
            name, why = run.study.entry if run.study else run.label, str(error)
            of_method = why if why.startswith(name) else f"{name}: {why}"
            found[at_dial(why, experiment.raw) or f"algorithms: {of_method}"] = None
    return list(found)


def notes_panel(form: Form, experiment: ExperimentConfig) -> None:
    """Options that will be adjusted or have no effect; notes shared by all methods appear once.

    Notes on a dial are shown at it, if it is drawn.
    """
    runs, by_note = _one_seed(experiment.runs()), dict[str, list[RunConfig]]()
    at_dials: dict[str, list[str]] = {}
    of_study = list(study_notes(experiment))
    if experiment.tune and not must_download(runs[0]):
        of_study += validation_notes(pools.split_of(runs[0])["val_sizes"], runs[0].split)
    for note in of_study:
        st.caption(plain(f"Note: {note}."))
    for run in runs:
        for note in costs.notes_of(run, experiment.tune):
            by_note.setdefault(note.removeprefix(f"{run.algorithm.name}: "), []).append(run)
    for note, own in by_note.items():
        dial = dial_of(note, experiment.raw)
        what = note.removeprefix(f"{dial}: ")
        several = len(own) > 1 and len(own) < len(runs)
        text = f"{wording.names(run.label for run in own)}: {what}" if several else what
        text = f"Note: {labeled(own[0], what) if len(own) == 1 else text}."
        if dial:
            at_dials.setdefault(dial, []).append(text)
        else:
            st.caption(plain(text))
    for dial, texts in at_dials.items():
        form.note(dial, texts)


def to_do(raw: Mapping[str, Any], problems: Sequence[str]) -> list[str]:
    """Problems that are not mistakes: a field that is still empty, a data set that is not on this machine yet."""
    absent = _must_be_provided(raw["dataset"]["name"], first_run(raw))
    return [
        problem
        for problem in problems
        if problem.partition(": ")[2].startswith(NOT_SET) or (absent and problem.startswith("dataset: "))
    ]


def _must_be_provided(name: str, run: RunConfig | None) -> bool:
    """Whether the user must get the data set; a wrong path of a custom file is a mistake instead."""
    is_chosen = not any(parameter.required for parameter in DATASETS.get(name).parameters)
    return is_chosen and run is not None and not pools.is_present(run.dataset)


def queue_panel(
    experiment: ExperimentConfig | None,
    problems: Sequence[str],
    unplaced: Sequence[str],
    to_do: Sequence[str] = (),
    fields: Sequence[str] = (),
) -> None:
    """The button, or the reason why it is disabled; ``to_do`` are the problems that are not mistakes.

    ``fields``: the labels of the fields with problems.
    """
    number = len(experiment.runs()) if experiment else 0
    is_study = experiment is not None and experiment.tune is not None
    label = "Queue study" if is_study else f"Queue {wording.plural(number, 'run')}" if experiment else "Queue runs"
    broken = queries.problem()
    is_unfinished = bool(problems) and not broken and len(to_do) == len(problems)
    reason = plain(broken) if broken else _reason(fields, unplaced, is_unfinished) if problems else None
    if experiment and not problems:
        _known_runs(experiment)
    with st.container(gap="small", key="queue_bar"):
        with st.container(gap=None):
            landing(QUEUE)
            with st.container(gap="small"):
                record = queue_button(label, "queue", partial(_queue, experiment), is_disabled=bool(reason))
        if is_unfinished:
            st.caption(reason)
        elif reason:
            st.error(reason)
        elif record:
            st.success(f"Queued {wording.plural(record.num_runs, 'run')}.")
            launch.watch([record])


def _queue(experiment: ExperimentConfig | None) -> ExperimentRecord | None:
    return launch.queue_experiment(experiment, progress_bar()) if experiment else None


def yaml_panel(raw: Mapping[str, Any]) -> None:
    with st.popover("Show as YAML", type="tertiary", key="yaml"):
        # Without a language: the colors of Streamlit's syntax highlighting are too faint.
        st.code(yaml.safe_dump(dict(raw), sort_keys=False, allow_unicode=True, width=100), language=None)
        st.caption("For `python -m engine run`. To share this configuration, copy the address of this page.")


def _known_runs(experiment: ExperimentConfig) -> None:
    """List runs that already exist."""
    runs = experiment.runs()
    found = list(launch.same_runs(runs).values())
    if not found:
        return
    is_all = len(found) == len({run.digest for run in runs})
    how_many = "These runs already exist" if is_all else f"{len(found)} of {len(runs)} runs already exist"
    st.info(f"{how_many} in {plain(wording.names(f'“{run.experiment_name}”' for run in found))}.")
    if st.button("Open them", key="open_known"):
        page = "live" if any(run.is_active for run in found) else "compare"
        launch.open_page(page, "Open them", runs=",".join(str(run.id) for run in found))


def _absent(run: RunConfig) -> list[str]:
    title = DATASETS.get(run.dataset.name).title
    st.caption(f"{plain(title)} is not on this machine yet. It is downloaded when the runs are queued, or now.")
    refused = permits.refusal("download")
    if st.button(f"Download {plain(title)}", key="download", disabled=refused is not None, help=refused):
        try:
            pools.download(run, progress_bar())
        except DataUnavailable as error:
            st.error(plain(str(error)))
        else:
            st.rerun()
    return []


def progress_bar() -> Callable[[str, float], None]:
    """A progress bar for downloads."""
    place = st.empty()

    def show(what: str, share: float) -> None:
        place.progress(min(max(share, 0.0), 1.0), plain(what))

    return show


def _located(error: FedscapeError, run: RunConfig) -> str:
    """``partition.alpha: message`` where the message is about an option; a column not chosen yet is required."""
    section = "partition" if isinstance(error, ImpossiblePartition) else "dataset"
    options, missing = getattr(run, section).options, re.search(r"is missing \((\w+)=", str(error))
    named = re.match(r"(\w+)=", str(error)) or missing
    if not named or named[1] not in type(options).model_fields:
        return f"{section}: {error}"
    if missing and named[1] not in options.model_fields_set:
        return f"{section}.{named[1]}: {NOT_SET[0]}{type(options).model_fields[named[1]].description}"
    return f"{section}.{named[1]}: {error}"


@st.cache_data(show_spinner=False, max_entries=20)
def _heterogeneity(counts: np.ndarray) -> str:
    """Cached, since the distance takes a while for many clients."""
    return (
        f"Mean label entropy per client: {label_entropy(counts).mean():.2f} of at most {np.log2(counts.shape[1]):.2f} "
        f"bits. Mean Jensen–Shannon distance: {mean_js_distance(counts):.2f} (0: identical, 1: disjoint)."
    )


def _planned(
    experiment: ExperimentConfig, gradients: Callable[[RunConfig], float | None] = lambda _: None
) -> list[tuple[RunConfig, int]]:
    """One run of each method (for a study, a trial and a final run), and how many runs cost the same.

    ``gradients`` of a trial determine how many trials a budget allows.
    """
    if experiment.tune:
        return list(Study(experiment).planned(gradients))
    runs = experiment.runs()
    one_each = _one_seed(runs)
    return [(run, len(runs) // len(one_each)) for run in one_each]


def _facts(planned: Sequence[tuple[RunConfig, int]], total: costs.Cost | None, slots: int, unknown: int) -> str:
    where = f" on {wording.plural(slots, 'slot')}" if slots > 1 else ""
    about = "more than" if unknown else "about"  # some methods were too slow to time
    time = "unknown"
    if total is not None and total.seconds is not None:
        time = f"{about} {wording.duration(total.seconds)}{where}"
    facts = {
        "Runs": wording.count(sum(count for _, count in planned)),
        "Rounds": wording.count(sum(count * run.training.rounds for run, count in planned)),
        "Time": time,
        "Gradients": "–" if total is None or total.gradients is None else f"{about} {_rounded(total.gradients)}",
        "Memory": "–" if total is None else f"about {wording.size_bytes(total.memory_bytes)}",
        "Disk": "–" if total is None else f"about {wording.size_bytes(total.disk_bytes)}",
    }
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{cells}</dl>'


def _rounded(gradients: float) -> str:
    return wording.count(float(f"{gradients:.3g}"))


def _one_seed(runs: Sequence[RunConfig]) -> list[RunConfig]:
    """Splits, seeds and trials cost the same: one run of each method is enough."""
    alike = [run for run in runs if run.study is None or run.study.trial == 0]
    return [run for run in alike if (run.split, run.seed) == (runs[0].split, runs[0].seed)]


def _reason(fields: Sequence[str], unplaced: Sequence[str], is_unfinished: bool) -> str:
    """Why the button is disabled: the fields with problems, and problems without a field."""
    if unplaced:
        return wording.lines(unplaced)
    where = plain(", ".join(fields))
    return f"Still required: {where}." if is_unfinished else f"Fix first: {where}."
