"""The command line's arguments, separate from the commands: ``--help`` and mistyped options don't wait for torch."""

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, get_args

from engine.core.errors import MAX_MESSAGE, cut
from engine.core.vocabulary import Status

KINDS = (
    *("algorithms", "datasets", "partitioners", "models", "metrics"),
    *("attacks", "aggregators", "compressors", "presets"),
)
FORMATS = ("json", "csv", "parquet", "models", "bundle")

WIDTH = 79  # of descriptions

RUN_EXIT_CODES = """\
exit code: 0 done; 2 bad configuration, absent or unreadable data, impossible partition (one line for each problem); 3
a run failed, or a study cannot continue; 4 a run diverged; 130 cancelled, here with Ctrl-C or elsewhere. --export
always writes all runs, including the rounds of those that did not finish."""

EXAMPLES = {
    "run": (
        "run experiment.yaml",
        "run --preset digits-first --scale quick --export digits.json",
        'run experiment.yaml --set training.rounds=50 --set "seeds=[0, 1, 2]"',
    ),
    "list": ("list algorithms", "list presets --json"),
    "worker": ("worker --db sqlite:///results.db",),
    "export": ("export 12 13 --output results.json", "export 12 13 --format csv", "export 12 --format bundle"),
    "import": ("import results.json",),
    "runs": ("runs --status failed --status diverged",),
    "study": ("study 5",),
    "log": ("log 12",),
    "cancel": ("cancel 12 13",),
    "backup": ("backup fedscape.zip",),
    "restore": ("restore fedscape.zip --replace",),
}

# Commands on stored data, with their descriptions; they take a database, most of them runs.
ON_RUNS = {
    "log": "Show the log of runs, with the tracebacks of unexpected errors. Times are UTC.",
    "cancel": "Cancel runs that have not ended; their rounds are kept.",
    "pause": "Pause runs; their rounds and their position in the queue are kept.",
    "resume": "Resume paused runs.",
    "retry": "Retry runs that failed, diverged or were cancelled: each is queued as a new run.",
    "delete": "Delete runs. For a week `undelete` restores them.",
    "undelete": "Restore deleted runs. `runs --deleted` lists them.",
    "drop-models": "Delete the stored models of runs. Numbers and analyses are kept; new analyses need a rerun.",
}
# These compute nothing themselves.
WITHOUT_TORCH = frozenset({*ON_RUNS, "worker", "runs", "study", "disk", "backup", "restore"})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(cut(message, MAX_MESSAGE))


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="python -m engine",
        description="Personalized federated learning experiments without the browser.",
        epilog="DATABASE_URL (default: SQLite under var/) and DATA_DIR (default: data/) set where runs and data sets "
        "are stored.",
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_list(commands)
    _add_worker(commands)
    _add_export(commands)
    _add_import(commands)
    _add_runs(commands)
    _add_study(commands)
    for name, description in ON_RUNS.items():
        on_runs = _add_managing(commands, name, description)
        _add_run_ids(on_runs)
        _add_database(on_runs)
    _add_database(_add_managing(commands, "disk", "Show how much of the disk is used, by what, and how much is free."))
    _add_backup(commands)
    _add_restore(commands)
    for name, command in commands.choices.items():
        _complete(command, EXAMPLES.get(name, ()))
    return whole


def _complete(command: argparse.ArgumentParser, examples: Sequence[str]) -> None:
    """Adds examples below the options, each on a line of its own."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = textwrap.fill(str(command.description), WIDTH, break_on_hyphens=False)
    listed = ["\n".join(["examples:", *(f"  python -m engine {example}" for example in examples)])] if examples else []
    command.epilog = "\n\n".join(filter(None, [*listed, command.epilog]))


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser(
        "run",
        help="run an experiment",
        epilog=RUN_EXIT_CODES,
        description="Compute all runs of an experiment and store them in the database.",
    )
    what = run.add_mutually_exclusive_group(required=True)
    what.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help="YAML or JSON file with the experiment")
    what.add_argument("--preset", metavar="NAME", help="a shipped experiment; see `list presets`")
    run.add_argument(
        "--scale",
        choices=("quick", "paper"),
        help="scale of the preset: quick (minutes on two cores; the default if there is one) or paper (as published)",
    )
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="a.b=VALUE",
        dest="changes",
        help="change a value of the configuration (YAML; list items are numbered from 0); may be repeated",
    )
    run.add_argument("--export", type=Path, metavar="FILE.json", help="write all runs to one JSON document")
    run.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="write the last round's models as safetensors, DIR/<label>-seed<seed>/",
    )
    _add_database(run)
    run.add_argument("--quiet", action="store_true", help="no progress and no summary, only errors")


def _add_list(commands: argparse._SubParsersAction) -> None:
    listing = commands.add_parser(
        "list",
        help="list what is available",
        description="List what is available, with options and defaults; --json adds sources and descriptions.",
    )
    listing.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    listing.add_argument("--json", action="store_true", help="names, titles, sources and parameters as JSON")


def _add_worker(commands: argparse._SubParsersAction) -> None:
    worker = commands.add_parser(
        "worker",
        help="compute queued runs until stopped",
        description="Compute queued runs without the app, until Ctrl-C.",
    )
    _add_database(worker)


def _add_export(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser("export", help="write stored runs to files", description="Write stored runs to files.")
    _add_run_ids(export)
    export.add_argument(
        "--format",
        choices=FORMATS,
        help="json: all numbers; csv, parquet: rounds, and clients in a second file; models: safetensors; bundle: one "
        "ZIP with numbers, models, analyses and logs, for `import`; by default as --output ends, or json",
    )
    export.add_argument(
        "--output",
        type=Path,
        metavar="PATH",
        help="file, or folder for models; by default named after the experiment, in the current folder",
    )
    _add_database(export)


def _add_import(commands: argparse._SubParsersAction) -> None:
    importing = commands.add_parser(
        "import",
        help="read exported runs into the database",
        description="Read exported runs into the database. A run that was imported before is skipped, "
        "except for models and analyses that it lacks. New runs of an experiment that was imported before are added to "
        "it.",
    )
    importing.add_argument(
        "file", type=Path, metavar="FILE", help="written by --export, or by `export` as json or bundle"
    )
    _add_database(importing)


def _add_runs(commands: argparse._SubParsersAction) -> None:
    runs = _add_managing(commands, "runs", "List runs, newest last, with the ids for other commands.")
    runs.add_argument(
        "--status",
        action="append",
        choices=get_args(Status),
        default=[],
        help="only runs with this status; may be repeated",
    )
    runs.add_argument("--deleted", action="store_true", help="list deleted runs, which `undelete` can restore")
    runs.add_argument("--json", action="store_true", help="with times, errors and summaries, as JSON")
    _add_database(runs)


def _add_study(commands: argparse._SubParsersAction) -> None:
    study = _add_managing(commands, "study", "Show the progress of a study and the settings it has chosen.")
    study.add_argument(
        "experiment_id",
        type=int,
        metavar="EXPERIMENT_ID",
        help="experiment id, as in links of the app and `runs --json`",
    )
    study.add_argument("--json", action="store_true", help="the choices as JSON")
    _add_database(study)


def _add_backup(commands: argparse._SubParsersAction) -> None:
    backup = _add_managing(
        commands,
        "backup",
        "Write the whole database into one file, with models, analyses and the checkpoints of unfinished "
        "runs. Runs may continue during the backup.",
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="a ZIP file; an existing backup is replaced")
    _add_database(backup)


def _add_restore(commands: argparse._SubParsersAction) -> None:
    restore = _add_managing(
        commands,
        "restore",
        "Replace the database with a backup. The backup is checked first, and the app must be stopped.",
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="written by `backup`")
    restore.add_argument(
        "--replace",
        action="store_true",
        help="restore even if the database has runs; the old database is kept in a second file, whose name is printed",
    )
    _add_database(restore)


def _add_managing(commands: argparse._SubParsersAction, name: str, description: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=_short(description), description=description)
    return command


def _short(description: str) -> str:
    """The first clause, for the list of commands: ``cancel runs that have not ended``."""
    clause = description.split(".")[0].split(";")[0].split(", ")[0]
    return clause[0].lower() + clause[1:]


def _add_run_ids(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "run_ids", nargs="+", type=int, metavar="RUN_ID", help="run id, as shown by the app, `run` and `runs`"
    )


def _add_database(command: argparse.ArgumentParser) -> None:
    command.add_argument("--db", metavar="URL", help="sqlite:///FILE or postgresql://...; instead of DATABASE_URL")
