"""Write what comes from the code: the tables in README.md, and docs/cli.md.  ``make docs``

A table stands between ``<!-- algorithms: ... -->`` and ``<!-- end of algorithms -->``; its name is a registry's.
"""

import re
from pathlib import Path

from docs import command_line
from engine.core.registry import ALGORITHMS, DATASETS, MODELS, PARTITIONERS, Entry, Parameter, Registry

README = Path(__file__).resolve().parents[1] / "README.md"
TABLES = {"algorithms": ALGORITHMS, "datasets": DATASETS, "partitioners": PARTITIONERS, "models": MODELS}


def updated(text: str) -> str:
    """``text`` with every table as the registries have it now."""
    for name, registry in TABLES.items():
        block = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not block.search(text):
            raise ValueError(f"no place for the {name}; put back <!-- {name}: --> and <!-- end of {name} -->")
        text = block.sub(lambda found, registry=registry: f"{found[1]}{table(registry)}\n{found[2]}", text)
    return text


def table(registry: Registry) -> str:
    """A Markdown table of what ships: name, title, options with their defaults, paper or source."""
    head = [f"| {registry.kind} | | options | source |", "|---|---|---|---|"]
    return "\n".join(head + [_row(entry) for entry in registry if entry.make.__module__.startswith("engine.")])


def _row(entry: Entry) -> str:
    cells = (f"`{entry.name}`", entry.title, ", ".join(_option(p) for p in entry.parameters), entry.paper)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _option(parameter: Parameter) -> str:
    return f"`{parameter.name}`" if parameter.required else f"`{parameter.name}={parameter.default}`"


if __name__ == "__main__":
    README.write_text(updated(README.read_text()))
    command_line.PAGE.write_text(command_line.reference(), encoding="utf-8")
