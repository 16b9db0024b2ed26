"""Modules that take long to import.

They are imported where they are used, so that commands and pages start sooner. Workers and web servers load them in
advance.
"""

from importlib import import_module

SLOW_IMPORTS = ("scipy.ndimage", "scipy.optimize", "sklearn.cluster")


def load() -> None:
    for name in SLOW_IMPORTS:
        import_module(name)
