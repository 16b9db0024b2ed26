"""Finds what the files of a package declare, so that adding a file is enough."""

import importlib
import pkgutil
from typing import Any


def declared(package: str, name: str) -> dict[str, Any]:
    """file -> its value of ``name``, sorted by ``order``; files without one are skipped."""
    folder = importlib.import_module(package).__path__
    modules = {file.name: importlib.import_module(f"{package}.{file.name}") for file in pkgutil.iter_modules(folder)}
    found = {file: getattr(module, name) for file, module in modules.items() if hasattr(module, name)}
    return dict(sorted(found.items(), key=lambda item: item[1].order))
