"""Queues runs from a configuration, and opens the page that shows them."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.errors import StreamlitAPIException

from app.access import permits
from app.data import allowed_paths, queries
from app.data.pools import federation_of
from app.state import links
from engine.config.presets import Preset
from engine.config.schema import ExperimentConfig, RunConfig, parse_experiment
from engine.core.errors import InvalidConfig
from engine.exchange.records import new_runs
from engine.simulation.preflight import check_runs
from storage import ExperimentRecord, RunRecord

SAME_CLICK_S = 5.0  # the same list again within this time is a double click
_LATEST = "launch.latest"

Token = tuple[tuple[str, ...], ...]
"""The names and digests of what was queued."""


@dataclass
class _Latest:
    """What this reader queued last.

    It is changed without access to the session's state, where a second click would stop the run of the first.
    """

    token: Token = ()
    ids: Sequence[int] = ()
    at: float = 0.0

    def again(self, token: Token) -> list[ExperimentRecord]:
        """What was just queued, if it is the same and still exists."""
        if self.token != token or time.monotonic() - self.at > SAME_CLICK_S:
            return []
        return [record for record in map(queries.experiment, self.ids) if record]


def queue_experiment(
    experiment: ExperimentConfig, progress: Callable[[str, float], None] | None = None
) -> ExperimentRecord:
    """Check every run, download missing data, then queue all. Raises InvalidConfig; then nothing is queued."""
    return _queue([experiment], progress)[0]


def queue_preset(
    preset: Preset, scale: str | None = None, only: Collection[str] | None = None
) -> list[ExperimentRecord]:
    """All experiments of a preset, or those named in ``only``; none if one is invalid. Raises InvalidConfig."""
    configs = [config for config in preset.configs(scale) if only is None or config["name"] in only]
    return _queue([parse_experiment(config) for config in configs])


def same_runs(runs: Iterable[RunConfig]) -> dict[str, RunRecord]:
    """By digest, the newest run with the same numbers that is done or in progress."""
    if queries.problem():
        return {}
    found = queries.store().queue.find_by_digest([run.digest for run in runs])
    alive = [run for run in found if run.status in ("done", "diverged") or run.is_active]
    return {run.digest: run for run in reversed(alive)}


def watch(experiments: Sequence[ExperimentRecord]) -> None:
    """Open Live with the runs just queued, or show a link if this page runs alone."""
    open_page("live", "Watch them train", experiment=experiments[0].id)


def open_page(page: str, label: str, **params: object) -> None:
    """Open another page of the app, or show a link to it if this page runs alone."""
    try:
        st.switch_page(f"views/{page}.py", query_params={k: str(v) for k, v in params.items()})
    except StreamlitAPIException:
        st.markdown(f"[{label}]({links.link(page, **params)})")


def _queue(
    experiments: Sequence[ExperimentConfig], progress: Callable[[str, float], None] | None = None
) -> list[ExperimentRecord]:
    """A double click returns what the first click queued."""
    permits.require("queue")
    runs = [new_runs(e) for e in experiments]
    token = tuple((e.name, *(run.digest for run in own)) for e, own in zip(experiments, runs, strict=True))
    latest: _Latest = st.session_state.setdefault(_LATEST, _Latest())
    if just_queued := latest.again(token):
        return just_queued
    if reason := next(filter(None, (allowed_paths.problem(e.dataset.to_dict()) for e in experiments)), None):
        raise InvalidConfig([f"dataset: {reason}"])
    for experiment in experiments:
        check_runs(experiment.runs(), progress=progress, build=federation_of, tune=experiment.tune)
    with permits.allow("queue", queries.store(), "Queue", of=[e.name for e in experiments], adds="runs") as person:
        created = queries.store().experiments.create_all(
            [(e.name, e.raw, own) for e, own in zip(experiments, runs, strict=True)], owner=person.name
        )
        latest.token, latest.ids, latest.at = token, [record.id for record in created], time.monotonic()
    return list(created)
