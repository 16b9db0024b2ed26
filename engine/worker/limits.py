"""Disk limits for models: FEDSCAPE_MODELS_MB for those of one round, FEDSCAPE_KEEP_GB for those of all runs."""

from engine.core.environment import nonnegative_number
from storage import Store

MODELS_MB, KEEP_GB = "FEDSCAPE_MODELS_MB", "FEDSCAPE_KEEP_GB"
MIB, GIB = 2**20, 2**30
DEFAULT_MODELS_MB = 256


def max_models_bytes() -> int:
    """The limit for the models of one round, the last or the best; 0 stores none."""
    limit = nonnegative_number(MODELS_MB)
    return round(MIB * (DEFAULT_MODELS_MB if limit is None else limit))


def enforce_model_limit(store: Store) -> None:
    """Deletes the models of the oldest finished runs while all models exceed the limit; the runs' logs record it."""
    max_models_bytes()  # validates both when the dispatcher starts, not when a long run ends
    limit = nonnegative_number(KEEP_GB)
    if limit is not None:
        store.artifacts.trim_models(round(GIB * limit), f"since the models of all runs exceeded {KEEP_GB}={limit:g}")
