"""Runs that need attention: what happened, why, and what to do, grouped by problem."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import streamlit as st

from app import wording
from app.access import permits
from app.actions.run_config import experiment_of, seeds_of
from app.charts.plot import palette
from app.components import page
from app.data import queries
from app.data.comparison import run_name
from app.data.experiment_names import automatic_name
from app.data.method_labels import labels, run_names
from app.data.pulse import silences
from app.live import live_feed, log
from app.live.live_feed import LOST_AFTER_S, first_line
from app.live.requests import perform
from app.state import links
from app.wording import plain
from engine.worker.work_queue import DIED, KILLED
from storage import EventRecord, RunRecord

MAX_NAMED, MAX_LOGGED = 3, 12


@dataclass(frozen=True)
class Trouble:
    """A problem of some runs, with the reason ``why`` and the advice ``todo``; runs with equal problems are grouped."""

    kind: str
    runs: tuple[RunRecord, ...]
    why: str
    todo: str

    @property
    def happened(self) -> str:
        """``Ditto, seed 0 diverged at round 3 of 50.``"""
        what = _HAPPENED[self.kind]
        if len(self.runs) > 1:
            named = wording.names(run_names(self.runs).values(), MAX_NAMED)
            return f"{wording.count(len(self.runs))} runs {what[1]}: {named}."
        run = self.runs[0]
        where = f"at round {run.round} of {run.rounds}" if run.round >= 0 else "before its first round"
        return f"{run_name(run)} {what[0]} {where}."

    @property
    def stored_error(self) -> str | None:
        """The stored error, if ``why`` does not contain it and all runs share it."""
        lines = {first_line(run.error) for run in self.runs}
        return lines.pop() if self.kind == "diverged" and len(lines) == 1 else None


_HAPPENED = {  # of one run, of several
    "failed": ("failed", "failed"),
    "diverged": ("diverged", "diverged"),
    "killed": ("was cancelled and its worker terminated", "were cancelled and their workers terminated"),
    "unattended": ("has no worker; it stopped", "have no worker"),
    "silent": ("is not responding; it was last seen", "are not responding"),
    "died": ("lost its worker and will resume", "lost their workers and will resume"),
}


def what_went_wrong(runs: Sequence[RunRecord]) -> None:
    """A card for each problem among ``runs``."""
    found = troubles(runs, _events(runs), silences(queries.store(), runs))
    if found:
        has_ended = any(run.is_finished for trouble in found for run in trouble.runs)
        page.section("What went wrong?" if has_ended else "Needs attention")
    for trouble in found:
        card(trouble)


def what_happened(run: RunRecord) -> None:
    """The card of one run, on its own page."""
    for trouble in troubles([run], _events([run]), silences(queries.store(), [run])):
        card(trouble, leads_inside=False)


def troubles(runs: Iterable[RunRecord], events: Iterable[EventRecord], silent_s: Mapping[int, float]) -> list[Trouble]:
    """The problems in the order of their first runs. Runs that train, wait or ended normally are in none."""
    logs: dict[int | None, list[EventRecord]] = {}
    for event in events:
        logs.setdefault(event.run_id, []).append(event)
    groups: dict[tuple[str, str, str], list[RunRecord]] = {}
    for run in runs:
        own = logs.get(run.id, [])
        if (kind := _kind(run, own, silent_s.get(run.id, 0.0))) is not None:
            groups.setdefault((kind, *_advice(kind, run, own)), []).append(run)
    return [Trouble(kind, tuple(own), why, todo) for (kind, why, todo), own in groups.items()]


def card(trouble: Trouble, leads_inside: bool = True) -> None:
    """A card with the problem, its reason and advice, with buttons and the log."""
    runs, key = trouble.runs, _key(trouble)
    with st.container(key=f"card_{key}", gap="small"):
        st.markdown(f"**{plain(trouble.happened)}** {plain(trouble.why)}")
        if trouble.stored_error:
            st.text(f"{wording.capital(trouble.stored_error)}.")
        st.markdown(plain(trouble.todo))
        if not palette.is_presenting():
            with st.container(horizontal=True, vertical_alignment="center", key=f"{key}_ways"):
                ways(trouble, leads_inside)
            with st.expander("Log (times in UTC)", key=f"{key}_log"):
                st.code(log.log_of(queries.store(), runs[:MAX_LOGGED]), language=None, wrap_lines=True)


def ways(trouble: Trouble, leads_inside: bool) -> None:
    runs, key = trouble.runs, _key(trouble)
    ids = [run.id for run in runs]
    if trouble.kind == "diverged":
        gentler_links(runs)
    if runs[0].is_finished:
        retry(runs, key)
    elif trouble.kind == "silent" and not permits.why_not("change", runs):
        st.button("Cancel", key=f"{key}_cancel", on_click=perform, args=("cancel", ids))
    if leads_inside and len(runs) == 1 and runs[0].round >= 0:
        page.link("run", "Look inside", id=runs[0].id)


def retry(runs: Sequence[RunRecord], key: str) -> None:
    """The button for runs not yet retried, and a link to the retries of the others."""
    again = live_feed.retried(queries.store(), runs)
    left = [run.id for run in runs if run.id not in again]
    if left and not permits.why_not("change", runs):
        label = "Retry with the same seed" if len(left) == 1 else f"Retry all {len(left)} with the same seeds"
        st.button(label, key=f"{key}_retry", on_click=perform, args=("retry", left))
    if again:
        ids = sorted(set(again.values()))
        page.link(
            "live", f"Retried as {wording.names((f'run {i}' for i in ids), MAX_NAMED)}", runs=",".join(map(str, ids))
        )


def gentler_links(runs: Sequence[RunRecord]) -> None:
    """Set up with a third of the learning rate, once for all splits and seeds of a method."""
    by_method: dict[tuple[int, str], list[RunRecord]] = {}
    label = labels(runs)
    for run in runs:
        by_method.setdefault((run.experiment_id, run.label), []).append(run)
    for own in list(by_method.values())[:MAX_NAMED]:
        of_it = f": {label[own[0].id]}" if len(by_method) > 1 else ""
        config = gentler(own[0]) | seeds_of(own)
        page.link("setup", plain(f"Try lr / 3 in Set up{of_it}"), config=links.pack_config(config))


def retry_links(runs: Sequence[RunRecord]) -> dict[int, str]:
    """Links for each diverged run to Set up, filled with its configuration and a third of its learning rate."""
    return {run.id: links.setup_link(gentler(run)) for run in runs if run.status == "diverged"}


def gentler(run: RunRecord) -> dict[str, Any]:
    """The experiment of one run, with lr / 3."""
    alone = experiment_of(run)
    training = alone["training"] | {"lr": float(f"{run.config['training']['lr'] / 3:.3g}")}
    return alone | {"name": f"{automatic_name(alone)}, lr = {training['lr']:g}", "training": training}


def _key(trouble: Trouble) -> str:
    return f"trouble_{trouble.runs[0].id}"


def _events(runs: Sequence[RunRecord]) -> list[EventRecord]:
    return queries.store().events.for_runs([run.id for run in runs], kinds=[DIED, KILLED])


def _kind(run: RunRecord, events: Sequence[EventRecord], silent_s: float) -> str | None:
    if run.status in ("failed", "diverged"):
        return run.status
    if run.status == "cancelled":
        return "killed" if _was_killed(events) else None
    if silent_s > LOST_AFTER_S:
        return "silent" if isfinite(silent_s) else "unattended"
    return "died" if _death(run, events) else None


def _was_killed(events: Sequence[EventRecord]) -> bool:
    """Whether the worker was killed to cancel the run, rather than to pause it or to cancel an analysis."""
    return any(event.kind == KILLED and re.search(r"\brun \d+ is now cancelled$", event.message) for event in events)


def _death(run: RunRecord, events: Sequence[EventRecord]) -> str | None:
    """How the worker of a queued run died, if the run has not resumed since: every claim is a heartbeat."""
    died = [event for event in events if event.kind == DIED and not event.message.startswith("analysis ")]
    if run.status != "queued" or run.heartbeat_at is None or not died or died[-1].at < run.heartbeat_at:
        return None
    return died[-1].message.rsplit("; ", 1)[0]  # without its last checkpoint, by which runs would not be grouped


def _advice(kind: str, run: RunRecord, events: Sequence[EventRecord]) -> tuple[str, str]:
    """(why, what to do)."""
    match kind:
        case "failed":
            return _of_failure(first_line(run.error) or "No reason was recorded.")
        case "diverged":
            lr = run.config["training"]["lr"]
            return (
                "A loss was no longer finite; completed rounds are kept.",
                f"Most likely the learning rate is too large for this method and data: try a third of lr = {lr:g}. "
                "With the same seed and settings it will diverge again.",
            )
        case "killed":
            return (
                "The operation in progress could not be interrupted.",
                "No stored data is lost: completed rounds are kept.",
            )
        case "unattended":
            return (
                "No worker is running.",
                "No stored data is lost: the run resumes from its last checkpoint when a worker is running. With make "
                "run a worker restarts automatically; otherwise start one with python -m engine worker.",
            )
        case "silent":
            return (
                "There is no heartbeat: the computer may be overloaded, a single round may take very long, or "
                "the process hangs.",
                "Wait: after a long silence the process is terminated, and training resumes from the last checkpoint. "
                "Or cancel; completed rounds are kept.",
            )
        case _:
            return (
                _sentence(_death(run, events) or ""),
                "No action needed: the run resumes from its last checkpoint and fails only if this happens repeatedly.",
            )


def _of_failure(reason: str) -> tuple[str, str]:
    if reason.startswith("given up after"):
        return _sentence(reason), "Other runs are not affected. Rounds up to the last checkpoint are kept."
    if reason.startswith("unexpected error"):
        return _sentence(reason), (
            "This is a bug in the method, the data set or Fedscape rather than a problem with the settings; see the "
            "log for details. A retry helps only if something else has changed."
        )
    return _sentence(reason), "Fix the problem, or change the settings in Set up, then retry."


def _sentence(text: str) -> str:
    return wording.capital(text) + ("" if text.endswith((".", "!", "?")) else ".")
