"""Everything that a run needs, for the fork server, which imports this module before it forks workers.

Meanwhile no garbage is collected, which would take a fifth of the time and find nothing. Afterwards collections skip
what is loaded here.
"""

import gc
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from engine.core.slow_imports import SLOW_IMPORTS
from engine.worker.process import REGISTRIES, SESSIONS


def modules() -> Iterator[str]:
    yield from (*SESSIONS, *SLOW_IMPORTS)
    for registry in REGISTRIES:
        folder = import_module(registry.package).__path__
        yield from (module.name for module in pkgutil.iter_modules(folder, f"{registry.package}."))


gc.disable()
for name in modules():
    with suppress(ImportError):  # the worker that needs it reports it
        import_module(name)
gc.freeze()
gc.enable()
