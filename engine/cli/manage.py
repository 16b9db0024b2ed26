"""Commands that manage stored runs, and the dispatcher. None of them imports torch."""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from engine.cli.exit_codes import DONE, answer, open_store
from engine.cli.progress import percent, table_of
from engine.cli.signals import interruptible
from engine.cli.stderr import print_errors
from engine.core.errors import InvalidConfig
from engine.core.paths import ROOT
from engine.core.sizes import size_in_words
from engine.core.vocabulary import summary_at
from engine.core.writable import check_writable
from engine.exchange.records import check_documents
from engine.exchange.run_log import log_text
from engine.version import CODE_VERSION
from engine.worker.service import serve
from engine.worker.study_progress import StudyProgress, progress_of
from storage import FINISHED, RETRIABLE, ChoiceRecord, DiskUse, RunNotFound, RunRecord, Status, Store

JSON_FIELDS = (
    "id",
    "experiment_id",
    "experiment_name",
    "algorithm",
    "label",
    "seed",
    "status",
    "round",
    "rounds",
    "priority",
    "error",
    "summary",
)
MAX_LINES = 1000  # of a log, the newest
TIME_FIELDS = ("created_at", "started_at", "finished_at", "deleted_at")


def main(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code."""
    return main_at(arguments, ROOT)


def main_at(arguments: argparse.Namespace, root: Path) -> int:
    """``main`` with the database and the error log under ``root``, unless the environment says otherwise."""
    return answer(lambda arguments: _on_store(arguments, root), arguments, root / "var")


def _on_store(arguments: argparse.Namespace, root: Path) -> int:
    with open_store(arguments.db, root) as store:
        COMMANDS[arguments.command](store, arguments)
    return DONE


# On the whole database.


def worker(store: Store, arguments: argparse.Namespace) -> None:
    """Runs the dispatcher until it is stopped. The processes that it starts do the computing."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("engine").setLevel(logging.INFO)
    serve(store.url)


def backup(store: Store, arguments: argparse.Namespace) -> None:
    check_writable(file=arguments.file)
    with _progress("packed") as progress:
        written = store.back_up(arguments.file, CODE_VERSION, progress)
    print(f"wrote {written.path}: {_runs(written.runs)}, {size_in_words(written.size_bytes)}")
    print_errors(f"skipped: {problem}" for problem in written.left_out)


def restore(store: Store, arguments: argparse.Namespace) -> None:
    with _progress("unpacked") as progress:
        restored = store.restore(arguments.file, arguments.replace, progress, partial(check_documents, arguments.file))
    print(f"{_runs(restored.runs)} restored from {arguments.file}")
    if restored.previous is not None:
        print(f"the previous database is kept; open it with DATABASE_URL={Store.url_of(restored.previous)}")


def disk(store: Store, arguments: argparse.Namespace) -> None:
    store.check_schema()
    use: DiskUse = store.disk_use()
    parts = {
        "database": use.database_bytes,
        "models": use.models_bytes,
        "analyses": use.analyses_bytes,
        "checkpoints": use.checkpoints_bytes,
        "trash": use.trash_bytes,
        "free": use.free_bytes,
    }
    print(table_of([(name, size_in_words(size)) for name, size in parts.items()]))


# On some runs.


def runs(store: Store, arguments: argparse.Namespace) -> None:
    store.check_schema()
    if arguments.deleted:
        found = [run for run in store.trash.list() if not arguments.status or run.status in arguments.status][::-1]
    else:
        found = store.queue.runs(
            statuses=arguments.status or None, include_archived=True, newest_first=False, with_partition=False
        )
    print(json.dumps([_plain(run) for run in found], indent=1) if arguments.json else _table(found))
    _warn_without_engine(store, any(run.is_active for run in found))


def study(store: Store, arguments: argparse.Namespace) -> None:
    store.check_schema()
    experiment = store.experiments.get(arguments.experiment_id)
    found = progress_of(store, experiment.id)
    if experiment.config.get("tune") is None:
        raise InvalidConfig([f"experiment {arguments.experiment_id} is not a study: it has no `tune`"])
    if arguments.json:
        print(json.dumps([_choice(found, choice) for choice in found.choices.values()], indent=1))
        return
    rows = [("method", "split", "chosen", "validation", "as good", "setting")]
    for choice in found.choices.values():
        value = "" if choice.value is None else f"{choice.value:.4f}"
        error = "" if choice.error is None else f" ± {choice.error:.4f}"
        values = _setting(found, choice)
        setting = " ".join(f"{name}={_rounded(value)}" for name, value in (values or {}).items()) or "defaults"
        setting = "deleted with its trial" if values is None else setting
        counts = f"{choice.tied} of {choice.considered}"
        rows.append((choice.entry, str(choice.split), f"trial {choice.trial}", value + error, counts, setting))
    print(table_of(rows))
    print_errors(found.in_words())


def log(store: Store, arguments: argparse.Namespace) -> None:
    chosen = _chosen(store, arguments.run_ids)
    names = {run.id: _name(run) for run in chosen}
    text = log_text(chosen, store.events.for_runs(list(names), MAX_LINES), names, MAX_LINES)
    print(text)
    if len(text.splitlines()) >= MAX_LINES:
        print_errors([f"only the newest {MAX_LINES} lines are shown"])


def cancel(store: Store, arguments: argparse.Namespace) -> None:
    _change(store, arguments, ("queued", "running", "paused"), lambda ids: store.queue.request(ids, "cancel"))


def pause(store: Store, arguments: argparse.Namespace) -> None:
    _change(store, arguments, ("queued", "running"), lambda ids: store.queue.request(ids, "pause"))


def resume(store: Store, arguments: argparse.Namespace) -> None:
    _change(store, arguments, ("paused", "running"), store.queue.resume)


def retry(store: Store, arguments: argparse.Namespace) -> None:
    chosen = _fitting(_chosen(store, arguments.run_ids), RETRIABLE)
    for old, new in zip(chosen, store.queue.retry([run.id for run in chosen], RETRIABLE), strict=True):
        print(f"{_name(old)}: retried as run {new.id}")
    _warn_without_engine(store, bool(chosen))


def delete(store: Store, arguments: argparse.Namespace) -> None:
    chosen = _chosen(store, arguments.run_ids)
    store.trash.put([run.id for run in chosen])
    print(f"{_runs(len(chosen))} deleted; undelete restores them within a week")


def undelete(store: Store, arguments: argparse.Namespace) -> None:
    store.check_schema()
    requested = set(arguments.run_ids)
    if missing := requested - {run.id for run in store.trash.list()}:
        raise RunNotFound(missing)
    store.trash.restore(sorted(requested))
    for run in _chosen(store, arguments.run_ids):
        print(_state(run))


def drop_models(store: Store, arguments: argparse.Namespace) -> None:
    chosen = _fitting(_chosen(store, arguments.run_ids), ("queued", "paused", *FINISHED))
    print(f"{size_in_words(store.artifacts.drop_models([run.id for run in chosen]))} freed")


COMMANDS: dict[str, Callable[[Store, argparse.Namespace], None]] = {
    "worker": worker,
    "backup": backup,
    "restore": restore,
    "disk": disk,
    "runs": runs,
    "study": study,
    "log": log,
    "cancel": cancel,
    "pause": pause,
    "resume": resume,
    "retry": retry,
    "delete": delete,
    "undelete": undelete,
    "drop-models": drop_models,
}


def _chosen(store: Store, run_ids: Sequence[int]) -> list[RunRecord]:
    """The runs, oldest first. Raises RunNotFound before anything is changed."""
    store.check_schema()
    found = store.queue.runs(run_ids=run_ids, include_archived=True, newest_first=False, with_partition=False)
    if missing := set(run_ids) - {run.id for run in found}:
        raise RunNotFound(missing)
    return found


def _fitting(chosen: Sequence[RunRecord], statuses: Sequence[Status]) -> list[RunRecord]:
    """The runs in one of the statuses; prints a line for each of the others."""
    print_errors(f"{_name(run)} is unchanged: {run.status}" for run in chosen if run.status not in statuses)
    return [run for run in chosen if run.status in statuses]


def _change(
    store: Store, arguments: argparse.Namespace, statuses: Sequence[Status], change: Callable[[list[int]], None]
) -> None:
    ids = [run.id for run in _fitting(_chosen(store, arguments.run_ids), statuses)]
    change(ids)
    changed = store.queue.runs(run_ids=ids, include_archived=True, newest_first=False, with_partition=False)
    for run in changed:
        print(_state(run))
    _warn_without_engine(store, any(run.is_active for run in changed))


def _warn_without_engine(store: Store, is_needed: bool) -> None:
    if is_needed and not store.dispatcher_is_running():
        print_errors(["no worker is running: start the app, or python -m engine worker"])


@contextmanager
def _progress(done: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for bytes done: shows the share on a terminal, and raises on Ctrl-C where it is safe to stop."""
    shown = sys.stderr.isatty()
    with interruptible() as interrupts:

        def progress(size: int, total: int) -> None:
            if interrupts:
                raise KeyboardInterrupt
            if shown:
                print(f"\r{done}: {size / max(total, 1):.0%} ", end="", file=sys.stderr)

        yield progress
    if shown:
        print(file=sys.stderr)


def _table(runs: Sequence[RunRecord]) -> str:
    rows = [("id", "experiment", "run", "status", "round", "mean")]
    for run in runs:
        mean = percent(summary_at(run.summary, "personalized").get("mean"))
        at = f"{max(run.round, 0)} of {run.rounds}"
        rows.append((str(run.id), run.experiment_name, f"{run.label} {run.seeds_in_words}", run.status, at, mean))
    return table_of(rows)


def _choice(found: StudyProgress, choice: ChoiceRecord) -> dict[str, Any]:
    return vars(choice) | {"chosen_at": choice.chosen_at.isoformat(), "setting": _setting(found, choice)}


def _setting(found: StudyProgress, choice: ChoiceRecord) -> dict[str, Any] | None:
    """What the chosen trial has instead of the defaults: ``lr``, and hyper-parameters of the method.

    None if one of them was deleted.
    """
    of_trial = found.trials.get((choice.entry, choice.split), {})
    if not of_trial.keys() >= {0, choice.trial}:
        return None
    defaults, chosen = (_options(next(iter(of_trial[number].values()))) for number in (0, choice.trial))
    return {name: value for name, value in chosen.items() if value != defaults.get(name)}


def _options(run: RunRecord) -> dict[str, Any]:
    return run.config["training"] | run.config["algorithm"]


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _plain(run: RunRecord) -> dict:
    times = {name: value.isoformat() if (value := getattr(run, name)) else None for name in TIME_FIELDS}
    seeds = {"data_seed": run.config.get("data_seed"), "study": run.study}
    return {name: getattr(run, name) for name in JSON_FIELDS} | seeds | times


def _state(run: RunRecord) -> str:
    return f"{_name(run)}: {run.status}" + (f", {run.control} requested" if run.control else "")


def _name(run: RunRecord) -> str:
    return f"run {run.id} ({run.label} {run.seeds_in_words})"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
