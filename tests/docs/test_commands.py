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
    pytest.param(module, arguments, id=f"{page.stem}: {module} {arguments}")
    for page in PAGES
    for block in CONSOLE.findall(page.read_text(encoding="utf-8"))
    for module, arguments in MODULE.findall(block)
]
COMMANDS += [
    pytest.param("engine", example, id=f"help of {name}: {example}")
    for name, examples in EXAMPLES.items()
    for example in examples
]


@pytest.mark.parametrize(("module", "arguments"), COMMANDS)
def test_a_documented_command_is_accepted(module: str, arguments: str) -> None:
    if module != "engine":
        assert find_spec(module)
        return
    given = parser().parse_args(shlex.split(arguments, comments=True))
    if getattr(given, "preset", None):
        assert given.scale in (None, *load_preset(given.preset).scales)


def test_the_docs_have_commands() -> None:
    assert len(COMMANDS) > 20
