"""docs/cli.md: the command line's reference, from its arguments.  ``make docs``"""

import argparse
from pathlib import Path

from docs.markdown import GENERATED
from engine.cli.arguments import EXAMPLES, RUN_EXIT_CODES, parser

PAGE = Path(__file__).with_name("cli.md")


def reference() -> str:
    """The whole page, without argparse's own help, whose layout depends on the terminal and Python's version."""
    whole = parser()
    (commands,) = (a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    python = "Use the Python of `.venv`: `.venv/bin/python -m engine`, or `source .venv/bin/activate` once."
    head = ["# Command line", GENERATED, f"{whole.description} {whole.epilog}", python]
    return "\n\n".join([*head, *(_command(name, command) for name, command in commands.choices.items())]) + "\n"


def _command(name: str, command: argparse.ArgumentParser) -> str:
    actions = [action for action in command._actions if not isinstance(action, argparse._HelpAction)]
    usage = " ".join([f"python -m engine {name}", *(_usage(action) for action in actions)])
    rows = ["| argument | meaning |", "|---|---|", *(f"| `{_form(a)}` | {_text(a)} |" for a in actions)]
    examples = [f"python -m engine {example}" for example in EXAMPLES.get(name, ())]
    parts = [f"## {name}", " ".join(str(command.description).split()), _console(usage), "\n".join(rows)]
    parts += [_console(*examples)] if examples else []
    if name == "run":
        parts.append(RUN_EXIT_CODES[0].upper() + RUN_EXIT_CODES[1:])
    return "\n\n".join(parts)


def _console(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```"])


def _text(action: argparse.Action) -> str:
    return str(action.help).replace("<", "&lt;").replace("|", "\\|")


def _usage(action: argparse.Action) -> str:
    return _form(action) if action.required else f"[{_form(action)}]"


def _form(action: argparse.Action) -> str:
    """``--db URL``, ``--scale {quick,paper}``, ``RUN_ID...``"""
    value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else "")
    value = f"{value}..." if action.nargs == "+" else value
    return " ".join(filter(None, [*action.option_strings[:1], "" if action.nargs == 0 else str(value)]))
