"""Configuration and log: settings, provenance, data split, stored files and events of a run."""

from typing import Any

import pandas as pd
import streamlit as st

from app.actions import run_config
from app.charts import split
from app.charts.plot import figure_cache
from app.components import page
from app.data import queries
from app.data.experiment_names import unnamed
from app.inside import configuration, federation
from app.inside.tab import Tab
from app.inside.view import RunView
from app.state.links import pack_config
from app.wording import MISSING, duration, lines, plain, plural, size_bytes
from engine.core.run_json import recorded
from engine.core.vocabulary import MODELS_OF
from storage import ArtifactRecord, EventRecord, RunRecord

COLUMNS = {"part": "Part", "option": "Option", "value": "Value", "default": "Default", "meaning": "Meaning"}
KINDS: dict[str, str] = {
    "checkpoint": "Checkpoint",
    **{kind: f"Models of the {when} round" for when, kind in MODELS_OF.items()},
    "analysis": "Findings of analysis",
}
MAX_EVENTS = 200


def panel(view: RunView) -> None:
    what_was_run(view.run)
    where_it_ran(view.run)
    whose_data(view)
    stored_files(view.run)
    what_happened(view.run)


TAB = Tab("Configuration and log", order=70, panel=panel, needs_rounds=False)


def what_was_run(run: RunRecord) -> None:
    st.header("Configuration", anchor=False)
    table = configuration.options(run)
    own, usual = table[table["differs"]], table[~table["differs"]]
    st.subheader("Settings that differ from their defaults", anchor=False)
    _table(own[list(COLUMNS)].rename(columns=COLUMNS), "run_options", "Options that differ from their defaults")
    with st.expander(f"{plural(len(usual), 'option')} at the default", key="run_defaults"):
        _table(usual[list(COLUMNS)].rename(columns=COLUMNS), "run_usual", "Options at their defaults")
    st.caption("Save the configuration and run it without the app to get the same numbers:")
    # Without a language: the colors of Streamlit's syntax highlighting are too faint.
    st.code(run_config.command(run), language=None, wrap_lines=True)
    with st.container(horizontal=True, vertical_alignment="center", key="run_config"):
        st.download_button(
            "Download YAML",
            lambda: run_config.as_yaml(run),
            f"{run_config.file_name(run)}.yaml",
            "application/yaml",
            key="run_yaml",
            on_click="ignore",
        )
        page.link("setup", "Open in Set up", config=pack_config(unnamed(run_config.experiment_of(run))))


def where_it_ran(run: RunRecord) -> None:
    st.header("Versions, device and times", anchor=False)
    _table(pd.DataFrame(origin(run), columns=["What", "Value"]), "run_origin", "Versions, device and times")
    if notes := recorded(run.provenance).warnings:
        st.warning(lines(notes))


def origin(run: RunRecord) -> list[tuple[str, str]]:
    """Labeled values; those not recorded are omitted."""
    took = (run.finished_at - run.started_at).total_seconds() if run.started_at and run.finished_at else None
    return made_with(run) + _recorded(
        {
            "Queued (UTC)": _time(run.created_at),
            "Started (UTC)": _time(run.started_at),
            "Ended (UTC)": _time(run.finished_at),
            "Duration": duration(took) if took is not None else None,
            "Computed by": run.worker,
            "Digest (equal digests mean equal numbers)": run.digest,
        }
    )


def made_with(run: RunRecord) -> list[tuple[str, str]]:
    """The part of the origin that runs may share: versions, device, data and code."""
    known = recorded(run.provenance)
    return _recorded(
        {
            **{f"{name} version": version for name, version in known.versions.items()},
            "Device": known.device,
            "Backend": known.backend,
            "CPU threads": known.threads,
            "Data fingerprint": known.dataset_fingerprint,
            "Code version": known.code,
            **({"layers": known.extra.layers} if known.extra.layers else {}),
            **(known.extra.model_extra or {}),
        }
    )


def _recorded(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(what, str(value)) for what, value in found.items() if value not in (None, "")]


def whose_data(view: RunView) -> None:
    partition = view.partition
    st.header("Data split", anchor=False)
    if not partition:
        st.caption("The split is unknown until the run starts.")
        return
    table = split.data(partition)
    page.finding_chart(
        figure_cache.figure(split.figure, table),
        table,
        split.sentence(table),
        key="run_split",
        name="split",
        also=f"Drawn with seed {view.run.split}.",
    )
    config = {
        name: st.column_config.NumberColumn(name.capitalize(), format="%.6g")
        for name in ("lowest", "median", "highest", "mean", "all")
    }
    st.dataframe(
        federation.numbers(partition),
        hide_index=True,
        key="run_numbers",
        alt="Sizes and labels over clients",
        column_config={"what": "Over clients", **config, "all": st.column_config.NumberColumn("Total")},
    )
    if partition.get("notes"):
        st.caption(lines(partition["notes"]))


def stored_files(run: RunRecord) -> None:
    st.header("Stored files", anchor=False)
    kept = queries.store().artifacts.list(run.id)
    if not kept:
        why = "they were not stored, were deleted, or the imported file had none"
        st.caption(f"No models: {why}. All numbers are available.")
        return
    total = sum(artifact.size_bytes for artifact in kept)
    _table(files(kept), "run_artifacts", f"{plural(len(kept), 'file')}, {size_bytes(total)} in total")
    st.caption(f"{plural(len(kept), 'file')}, {size_bytes(total)} in total.")


def files(kept: list[ArtifactRecord]) -> pd.DataFrame:
    """[What, Round, Size, File]."""
    rows = []
    for artifact in kept:
        head, _, rest = artifact.kind.partition("-")
        title = KINDS.get(artifact.kind) or (f"{KINDS[head]} {rest}" if head in KINDS and rest else artifact.kind)
        rows.append((title, artifact.round, size_bytes(artifact.size_bytes), artifact.path))
    return pd.DataFrame(rows, columns=["What", "Round", "Size", "File"])


def what_happened(run: RunRecord) -> None:
    st.header("Events", anchor=False)
    if run.error:
        st.error(plain(run.error))
    events = queries.store().events.list(run.id, limit=MAX_EVENTS)
    if events:
        _table(log(events), "run_events", plural(len(events), "event"))
        st.download_button(
            "Download log",
            log_file(events),
            f"{run_config.file_name(run)}.log",
            "text/plain",
            key="run_log",
            type="tertiary",
            on_click="ignore",
        )
    elif not run.error:
        st.caption("No events.")


def log(events: list[EventRecord]) -> pd.DataFrame:
    """[When (UTC), Level, Event, Message], oldest first."""
    rows = [(_time(e.at), e.level, e.kind, e.message) for e in events]
    return pd.DataFrame(rows, columns=["When (UTC)", "Level", "Event", "Message"])


def log_file(events: list[EventRecord]) -> str:
    """A line per event: ``2026-01-01 03:04:05 UTC error worker it fell over``."""
    return "\n".join(f"{_time(e.at)} UTC {e.level} {e.kind} {e.message}" for e in events)


def _table(table: pd.DataFrame, key: str, alt: str) -> None:
    st.dataframe(table, hide_index=True, key=key, alt=alt, placeholder=MISSING, height=page.table_height(len(table)))


def _time(at: object) -> str | None:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else None
