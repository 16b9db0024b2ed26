"""The settings of one method: all its trials, the effect of each parameter, and the chosen settings to download."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st
import yaml

from app.actions.run_config import experiment_of_all
from app.charts import parallel_trials, sensitivity
from app.charts.plot import figure_cache
from app.charts.plot.method_styles import looks
from app.charts.tuning_axes import Axis, settings_in_words
from app.components import page, terms
from app.components.shown import Shown, with_finding
from app.data.column_heads import Head, percent
from app.state import links, url_state
from app.state.choice import Choice, Choices
from app.study.study import Entry, Study, study_entry
from app.wording import number, plain, plural
from app.wording import percent as in_percent
from engine.config.schema import file_label
from storage import RunRecord

PARALLEL_HEADS = {"place": Head("Place in the range", decimals=2), "value": percent("Validation")}
SENSITIVITY_HEADS = {"value": percent("Validation"), "near": Head("Within a point of the best")}


def method_control(study: Study) -> Choice:
    """The methods that were tuned."""
    titles = {entry.label: entry.name for entry in study.entries if study.axes(entry)}
    return Choice("Method", titles, "method", next(iter(titles), ""))


def split_control(study: Study) -> Choice:
    splits = study.trial_values["split"].unique()
    titles = {str(split): f"Split {split}" for split in splits}
    return Choice("Split", titles, "split", next(iter(titles), ""))


def parameter_control(axes: Sequence[Axis]) -> Choice:
    return Choice("Parameter", {axis.name: axis.symbol for axis in axes}, "parameter", axes[0].name)


@url_state.fragment
def panel(study: Study) -> None:
    methods, splits = method_control(study), split_control(study)
    if not methods.titles or not splits.titles:
        return
    page.section("Which settings were tried, and which were chosen?")
    with st.container(horizontal=True, vertical_alignment="bottom", key="settings_controls"):
        entry = study.names[methods.pick()]
        split = int(splits.pick())
        axes = study.axes(entry)
        name = parameter_control(axes).pick()
    tried = trials_of(study, entry, split)
    if tried.empty:
        st.info("No trial of this method on this split has ended.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        page.show(parallel(study, entry, split))
    with right:
        page.show(effect(study, entry, split, next(axis for axis in axes if axis.name == name)))
    terms.caption(confidence(study, entry, split))


def trials_of(study: Study, entry: Entry, split: int) -> pd.DataFrame:
    values = study.trial_values
    return values[(values["method"] == entry.name) & (values["split"] == split)].reset_index(drop=True)


def parallel(study: Study, entry: Entry, split: int) -> Shown:
    tried, axes = trials_of(study, entry, split), study.axes(entry)
    rows = parallel_trials.data(tried, axes)
    return with_finding(
        figure_cache.figure(parallel_trials.figure, rows, axes),
        rows.drop(columns="parameter"),
        parallel_trials.finding(tried, axes, entry.name),
        key="parallel_trials",
        name="trials",
        title="Every trial and its settings",
        also="Thick: chosen; dashed: defaults; stronger lines have a higher validation accuracy.",
        heads=PARALLEL_HEADS,
    )


def effect(study: Study, entry: Entry, split: int, axis: Axis) -> Shown:
    rows = sensitivity.data(trials_of(study, entry, split), axis)
    look = looks(pd.DataFrame([{"method": one.name, "algorithm": one.algorithm} for one in study.entries]))
    return with_finding(
        figure_cache.figure(sensitivity.figure, rows, axis, look[entry.name]),
        rows,
        sensitivity.finding(rows, axis.symbol, entry.name),
        key="sensitivity",
        name=f"sensitivity-{axis.name}",
        title=f"Validation accuracy by {axis.symbol}",
        also="Star: chosen; ring: defaults; dotted: a point below the best. The other parameters vary, too.",
        heads=SENSITIVITY_HEADS | {"setting": Head(axis.symbol)},
    )


def confidence(study: Study, entry: Entry, split: int) -> str:
    """``9 of 16 settings are as good within the standard error of validation (± 0.8 points).``"""
    choice = study.choice(entry.label, split)
    if choice is None or choice.error is None:
        return ""
    within = f"within the standard error of validation (± {100 * choice.error:.1f} points)"
    if choice.tied == 1:
        return f"No other of the {plural(choice.considered, 'setting')} is as good {within}."
    return f"{choice.tied} of {plural(choice.considered, 'setting')} are as good {within}."


def chosen(study: Study) -> pd.DataFrame:
    """[method, split, settings, value, tied]: every choice, as text."""
    rows = []
    for entry in study.entries:
        axes = study.axes(entry)
        for choice in dict.fromkeys(study.choice(entry.label, split) for split in study.splits):
            if choice is None:
                continue
            tried = trials_of(study, entry, choice.split)
            own = tried.loc[tried["trial"] == choice.trial, "settings"]
            words = settings_in_words(axes, own.iloc[0]) if len(own) and axes else "defaults"
            edge = [a.symbol for a in axes if len(own) and choice.trial and a.is_at_the_edge(own.iloc[0].get(a.name))]
            rows.append(
                {
                    "Method": entry.name,
                    "Split": str(choice.split) if study.plan.tune.per == "split" else "all",
                    "Chosen": f"{words} (defaults)" if choice.trial == 0 and axes else words,
                    "Validation": number(choice.value) if study.select == "loss" else in_percent(choice.value, 1),
                    "As good": f"{choice.tied} of {choice.considered}",
                    "At the edge": ", ".join(edge),
                }
            )
    return pd.DataFrame(rows)


def download_chosen(study: Study) -> None:
    """Every choice in a table, and as a configuration to download or to open in Set up."""
    rows = chosen(study)
    if rows.empty:
        return
    page.section("Download the chosen settings")
    st.dataframe(
        rows,
        hide_index=True,
        height=page.table_height(len(rows)),
        key="chosen_settings",
        alt="The chosen settings of every method and split",
    )
    terms.caption(
        "As good: settings within one standard error of the best validation accuracy. At the edge: parameters chosen "
        "in the outer 5 % of their range; consider widening it."
    )
    by_split = {split: tuned_runs(study, split) for split in study.splits}
    with st.container(horizontal=True, vertical_alignment="center", key="download_chosen"):
        for split, runs in by_split.items():
            if runs:
                config = experiment_of_all(runs)
                st.download_button(
                    f"Split {split}, YAML",
                    yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
                    f"{file_label(study.experiment.name)}-split{split}.yaml",
                    "application/yaml",
                    key=f"configuration_{split}",
                    type="tertiary",
                    on_click="ignore",
                    help="The chosen settings of all methods as one experiment",
                )
        first = next((runs for runs in by_split.values() if runs), None)
        if first:
            page.link("setup", plain("Open in Set up"), config=links.pack_config(experiment_of_all(first)))


def tuned_runs(study: Study, split: int) -> list[RunRecord]:
    """A final run per method with the chosen settings."""
    found: dict[str, RunRecord] = {}
    for run in study.finals:
        own, choice = study_entry(run), study.choice(study_entry(run)["entry"], split)
        if run.split == split and choice is not None and own["trial"] == choice.trial:
            found.setdefault(own["entry"], run)
    return [found[label] for label in study.names if label in found]


def figures(study: Study, choices: Choices) -> list[Shown]:
    """Of the method and split that are chosen on the page."""
    methods, splits = method_control(study), split_control(study)
    if not methods.titles or not splits.titles:
        return []
    entry, split = study.names[methods.made_in(choices)], int(splits.made_in(choices))
    axes = study.axes(entry)
    if trials_of(study, entry, split).empty:
        return []
    name = parameter_control(axes).made_in(choices)
    return [parallel(study, entry, split), effect(study, entry, split, next(a for a in axes if a.name == name))]
