"""The commands in the docs exist."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.cli.arguments import EXAMPLES, parser
from engine.config.presets import load_preset

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]) if page.name != "cli.md"]
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"-m (engine|benchmarks\.\w+) ?(.*)")

COMMANDS = [
    (page.name, module, arguments)
    for page in PAGES
    for block in CONSOLE.findall(page.read_text(encoding="utf-8"))
    for module, arguments in MODULE.findall(block)
]
COMMANDS += [(f"help of {name}", "engine", example) for name, examples in EXAMPLES.items() for example in examples]


def test_documented_commands_are_accepted() -> None:
    engine = parser()
    for place, module, arguments in COMMANDS:
        command = f"{place}: {module} {arguments}"
        if module != "engine":
            assert find_spec(module), command
            continue
        try:
            given = engine.parse_args(shlex.split(arguments, comments=True))
        except SystemExit:
            pytest.fail(command)
        if getattr(given, "preset", None):
            assert given.scale in (None, *load_preset(given.preset).scales), command
    assert len(COMMANDS) > 20
