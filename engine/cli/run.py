"""``python -m engine``: experiments without the browser, on the same database as the app."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from engine.cli import manage
from engine.cli.exit_codes import CANCELLED, DIVERGED, DONE, FAILED, answer, open_store
from engine.cli.export_runs import SUFFIXES, file_name, files_of, format_of, write_all_models, write_runs
from engine.cli.inputs import experiments_of
from engine.cli.listing import as_json, as_text
from engine.cli.progress import Reporter, line, reporter, table
from engine.cli.signals import interruptible
from engine.cli.stderr import print_errors
from engine.config.schema import ExperimentConfig
from engine.core.errors import FedscapeError, InvalidConfig
from engine.core.paths import ROOT
from engine.core.writable import check_writable
from engine.exchange.import_runs import Known, import_runs, open_export
from engine.exchange.records import choices_of, export_config, load_result, new_runs
from engine.export.document import joint_config, write_export
from engine.simulation.preflight import check_runs, study_notes
from engine.worker.choice import executor_kind, make_executor
from engine.worker.dispatcher import Dispatcher
from engine.worker.study import advance
from engine.worker.study_progress import progress_of
from storage import DispatcherLockLost, ExperimentNotFound, RunRecord, StorageError, Store, Transient

POLL_S = 0.2
SCHEMA_WAIT_S = 30.0  # for another process that is migrating the database
ACCURACY = "personalized.mean"
DELETED = (
    "the study has no final runs, since some of its runs were deleted; restore them with `undelete` and start the app "
    "or `worker`, or run the study again"
)


def main(arguments: argparse.Namespace) -> int:
    """Runs the command and returns its exit code. Errors are lines on stderr, never a traceback."""
    if arguments.command in manage.COMMANDS:
        return manage.main_at(arguments, ROOT)
    return answer(COMMANDS[arguments.command], arguments, ROOT / "var")


def run_command(arguments: argparse.Namespace) -> int:
    experiments = experiments_of(arguments)
    check_writable(file=arguments.export, folder=arguments.models)
    format_of(arguments.export, "json")
    notes = _checked(experiments, arguments.quiet)
    if not arguments.quiet:
        print_errors(f"note: {note}" for note in notes)
    with open_store(arguments.db, ROOT) as store:
        executor_kind(store)
        store.ensure_schema(SCHEMA_WAIT_S)
        run_ids, held_up = _compute(store, experiments, arguments.quiet)
        runs = _runs(store, run_ids)
        _report(runs, arguments.quiet)
        print_errors(held_up)
        is_written = _write_results(store, runs, experiments, arguments)
        return _exit_code(runs, len(run_ids), bool(held_up)) if is_written else FAILED


def list_command(arguments: argparse.Namespace) -> int:
    print(as_json(arguments.kind) if arguments.json else as_text(arguments.kind))
    return DONE


def export_command(arguments: argparse.Namespace) -> int:
    with open_store(arguments.db, ROOT) as store:
        store.check_schema()
        runs = [store.queue.get(run_id) for run_id in dict.fromkeys(arguments.run_ids)]
        format = format_of(arguments.output, arguments.format)
        path = arguments.output or Path(f"{file_name(runs[0].experiment_name)}{SUFFIXES[format]}")
        if arguments.output is None and (taken := [file for file in files_of(path, format) if file.exists()]):
            names, them = " and ".join(map(str, taken)), "it" if len(taken) == 1 else "them"
            verb = "exists" if len(taken) == 1 else "exist"
            raise InvalidConfig([f"{names} {verb}; give --output to replace {them}, or to choose another name"])
        print("wrote", " and ".join(map(str, write_runs(store, path, runs, format))))
    return DONE


def import_command(arguments: argparse.Namespace) -> int:
    with open_export(arguments.file) as file, open_store(arguments.db, ROOT) as store:
        store.ensure_schema(SCHEMA_WAIT_S)
        imported = import_runs(store, file)
        if not imported.experiments and not imported.known:
            raise InvalidConfig([f"{arguments.file} has no runs; nothing was imported"])
        for kept in imported.experiments:
            ids = imported.new_runs[kept.id]
            runs = "1 run" if len(ids) == 1 else f"{len(ids)} runs"
            print(f"{kept.name}: {runs} imported, ids {' '.join(map(str, ids))}")
        print_errors(map(_known_line, imported.known))
        print_errors(imported.notes)
    return DONE


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": run_command,
    "list": list_command,
    "export": export_command,
    "import": import_command,
}


# Compute and follow.


def _checked(experiments: Sequence[ExperimentConfig], is_quiet: bool) -> list[str]:
    """Checks all runs, and returns notes on them."""
    notes: list[str] = []
    for experiment in experiments:
        notes += check_runs(experiment.runs(), progress=_download_line(is_quiet), tune=experiment.tune)
        notes += study_notes(experiment)
    return list(dict.fromkeys(notes))


def _queue(store: Store, experiment: ExperimentConfig) -> tuple[int, list[int]]:
    created = store.experiments.create(experiment.name, experiment.raw, new_runs(experiment))
    return created.id, store.queue.ids(experiment_ids=[created.id])


def _compute(store: Store, experiments: Sequence[ExperimentConfig], is_quiet: bool) -> tuple[list[int], list[str]]:
    """Queues all runs and waits until they end: computes them, or follows the dispatcher that does.

    Returns their ids, and what holds up studies that did not end. Ctrl-C cancels them at any time.
    """
    run_ids: list[int] = []
    studies: list[int] = []
    held_up: list[str] = []
    with interruptible() as interrupts:
        try:
            for experiment in experiments:
                experiment_id, queued = _queue(store, experiment)
                run_ids += queued
                studies += [experiment_id] if experiment.tune else []
            with closing(reporter(is_quiet)) as show, closing(_Driver(store, run_ids, grows=bool(studies))) as driver:
                held_up = _follow(store, run_ids, studies, show, driver, interrupts)
        except BaseException:  # do not leave them running
            with suppress(StorageError):
                store.queue.request(run_ids, "cancel")
            raise
    return run_ids, held_up


def _follow(
    store: Store,
    run_ids: list[int],
    studies: Sequence[int],
    show: Reporter,
    driver: "_Driver",
    interrupts: Sequence[int],
) -> list[str]:
    """Works until all runs have ended. Runs that the ``studies`` queue meanwhile are added to ``run_ids``.

    Each turn reads only the runs that had not ended; at the end all are read, since another process may have resumed
    some. Then we advance the studies ourselves, as their dispatcher may be unable to, and end if no run is new. Returns
    what holds up studies that did not end.
    """
    accuracies: dict[int, float] = {}
    seen: dict[int, int] = {}  # the last round shown, by run
    known: dict[int, RunRecord] = {}  # without those that were deleted
    while True:
        try:
            if interrupts:  # every time: runs may have been resumed, or the last try met a locked database
                store.queue.request(run_ids, "cancel")
            driver.turn()
            ended = {run.id: run for run in known.values() if run.is_finished}
            changed = _runs(store, [i for i in run_ids if i not in ended], with_partition=False)
            known = ended | {run.id: run for run in changed}
            accuracies |= _new_accuracies(store, changed, seen)
            is_over = all(run.is_finished for run in known.values())
            if is_over:
                known = {run.id: run for run in _runs(store, run_ids, with_partition=False)}
                is_over = all(run.is_finished for run in known.values())
            held_up = _advance(store, studies) if is_over and not interrupts else []
            added = sorted(set(store.queue.ids(experiment_ids=studies)) - set(run_ids))
            run_ids += added
            driver.also(added)
        except Transient:  # the runs continue; retry in the next turn
            time.sleep(POLL_S)
            continue
        seen |= {run.id: run.round for run in changed}
        show.show([known[i] for i in run_ids if i in known], accuracies)
        if is_over and (interrupts or not added):
            return held_up


def _advance(store: Store, studies: Sequence[int]) -> list[str]:
    """Queues what follows from the runs of the studies, which have all ended. Returns what holds up the others."""
    held_up = []
    for one in studies:
        try:
            advance(store, one)
            found = progress_of(store, one)
        except ExperimentNotFound:  # deleted with all its runs
            continue
        except FedscapeError as error:
            held_up.append(f"the study of experiment {one} cannot continue: {error}")
            continue
        if not found.finals:
            held_up += [f"experiment {one}: {reason}" for reason in found.in_words()[1:] or [DELETED]]
    return held_up


class _Driver:
    """Acts as the dispatcher of our own runs if the lock is free, else waits for another one.

    If the number of runs ``grows``, as in a study, every slot is used, however few the first runs are.
    """

    def __init__(self, store: Store, run_ids: Sequence[int], *, grows: bool) -> None:
        self._store, self._run_ids, self._grows = store, run_ids, grows
        self._dispatcher: Dispatcher | None = None

    def turn(self) -> None:
        """Makes some progress, or waits a moment."""
        if self._dispatcher is None and (lock := self._store.try_dispatcher_lock()) is not None:
            executor = make_executor(self._store, run_ids=None if self._grows else self._run_ids)
            self._dispatcher = Dispatcher(self._store, executor, lock, run_ids=self._run_ids)
        if self._dispatcher is None:
            time.sleep(POLL_S)
        else:
            try:
                self._dispatcher.step()
            except DispatcherLockLost:  # another process continues them
                self.close()

    def also(self, run_ids: Sequence[int]) -> None:
        """Also computes these runs, which were queued meanwhile."""
        if self._dispatcher is not None:
            self._dispatcher.also(run_ids)

    def close(self) -> None:
        dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            dispatcher.close()


def _runs(store: Store, run_ids: Sequence[int], with_partition: bool = True) -> list[RunRecord]:
    return store.queue.runs(run_ids=run_ids, include_archived=True, newest_first=False, with_partition=with_partition)


def _new_accuracies(store: Store, runs: Sequence[RunRecord], seen: Mapping[int, int]) -> dict[int, float]:
    """Accuracies of runs that were evaluated since the last call."""
    after = {run.id: seen.get(run.id, -1) for run in runs if run.round > seen.get(run.id, -1)}
    curves = store.metrics.scalars(list(after), [ACCURACY], after) if after else {}
    return {run_id: float(curve[ACCURACY][1][-1]) for run_id, curve in curves.items() if ACCURACY in curve}


def _known_line(known: Known) -> str:
    added = f"; {known.added} missing models or analyses were added" if known.added else ""
    return f"{known.label} {known.seeds} is skipped: it was imported before, as run {known.run_id}{added}"


def _exit_code(runs: Collection[RunRecord], num_requested: int, is_held_up: bool) -> int:
    statuses = {run.status for run in runs}
    if "failed" in statuses:
        return FAILED
    if "cancelled" in statuses or len(runs) < num_requested:  # a deleted run was cancelled first
        return CANCELLED
    if is_held_up:
        return FAILED
    return DIVERGED if "diverged" in statuses else DONE


# Results.


def _report(runs: Sequence[RunRecord], is_quiet: bool) -> None:
    """Prints all runs in a table, or only failures."""
    if not is_quiet:
        print(table(runs))
    else:
        print_errors(line(run, None) for run in runs if run.status in ("failed", "diverged"))


def _write_results(
    store: Store, runs: Sequence[RunRecord], experiments: Sequence[ExperimentConfig], arguments: argparse.Namespace
) -> bool:
    """Writes the requested files. If that fails, prints the reason and returns False: the runs are stored anyway."""
    try:
        if arguments.export:
            config = export_config(store, runs) if runs else joint_config([one.raw for one in experiments])
            write_export(arguments.export, config, (load_result(store, run) for run in runs), choices_of(store, runs))
        if arguments.models:
            write_all_models(store, arguments.models, runs)
    except (OSError, StorageError) as error:
        ids = " ".join(str(run.id) for run in runs)
        print_errors([f"the results were not written: {error}", f"the runs are stored; write them with: export {ids}"])
        return False
    return True


def _download_line(is_quiet: bool) -> Callable[[str, float], None] | None:
    """Shows downloads on a terminal only."""
    if is_quiet or not sys.stderr.isatty():
        return None
    return lambda what, share: print(f"\r{what}: {share:.0%} ", end="\n" if share >= 1 else "", file=sys.stderr)
