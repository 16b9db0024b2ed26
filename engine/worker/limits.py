"""How much of the disk models may take: those of one round FEDSCAPE_MODELS_MB, those of all runs FEDSCAPE_KEEP_GB."""

from engine.core.environment import amount
from storage import Store

MODELS_MB, KEEP_GB = "FEDSCAPE_MODELS_MB", "FEDSCAPE_KEEP_GB"
MIB, GIB = 2**20, 2**30
DEFAULT_MODELS_MB = 256


def max_models_bytes() -> int:
    """Of the models of one round, the last or the best; 0 keeps none."""
    limit = amount(MODELS_MB)
    return round(MIB * (DEFAULT_MODELS_MB if limit is None else limit))


def keep_within(store: Store) -> None:
    """Where the models of all runs exceed the limit, those of the oldest finished runs go; their logs say so."""
    max_models_bytes()  # a mistake in either is told when the dispatcher starts, not when a long run ends
    limit = amount(KEEP_GB)
    if limit is not None:
        store.artifacts.trim_models(round(GIB * limit), f"for those of all runs exceeded {KEEP_GB}={limit:g}")
