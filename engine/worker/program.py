"""Compares the programs of two machines: the code of Fedscape and of plugins, and the versions of torch and numpy."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from engine.core.code_digest import code_digest
from engine.version import CODE_VERSION

LIBRARIES = ("torch", "numpy")
CODE = "code"


def program() -> dict[str, str]:
    """The versions on this machine by name, and a digest of the code. Does not import torch."""
    return {"Fedscape": CODE_VERSION, **{name: _version(name) for name in LIBRARIES}, CODE: code_digest()}


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """How the program of another machine, ``there``, differs from ours; empty if it is the same."""
    for name, ours in here.items():
        theirs = there.get(name, "none")
        if theirs != ours and name == CODE:
            return f"its code of Fedscape or of plugins ({theirs}) differs from the dispatcher's ({ours})"
        if theirs != ours:
            return f"it has {name} {theirs}, the dispatcher has {ours}"
    return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
