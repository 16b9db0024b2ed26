"""Limits from environment variables: disk for models, and what each owner of experiments may use."""

from engine.core.environment import nonnegative_number, state_bytes, whole_number
from storage import Limits, Store

MODELS_MB, KEEP_GB = "FEDSCAPE_MODELS_MB", "FEDSCAPE_KEEP_GB"  # for the models of one round, and of all runs
MAX_QUEUED, MAX_RUNNING = "FEDSCAPE_MAX_QUEUED", "FEDSCAPE_MAX_RUNNING"
MAX_MINUTES, MAX_DISK_GB = "FEDSCAPE_MAX_MINUTES", "FEDSCAPE_MAX_DISK_GB"
MIB, GIB = 2**20, 2**30
DEFAULT_MODELS_MB = 256


def max_models_bytes() -> int:
    """The limit for the models of one round, the last or the best; 0 stores none."""
    limit = nonnegative_number(MODELS_MB)
    return round(MIB * (DEFAULT_MODELS_MB if limit is None else limit))


def enforce_model_limit(store: Store) -> None:
    """Deletes the models of the oldest finished runs while all models exceed the limit; the runs' logs record it."""
    max_models_bytes(), state_bytes()  # validates all when the dispatcher starts, not in a long run
    limit = nonnegative_number(KEEP_GB)
    if limit is not None:
        store.artifacts.trim_models(round(GIB * limit), f"since the models of all runs exceeded {KEEP_GB}={limit:g}")


def owner_limits() -> Limits:
    """What each owner may use. Raises InvalidConfig."""
    minutes, gigabytes = nonnegative_number(MAX_MINUTES), nonnegative_number(MAX_DISK_GB)
    return Limits(
        queued=whole_number(MAX_QUEUED),
        running=whole_number(MAX_RUNNING),
        day_s=None if minutes is None else 60 * minutes,
        disk_bytes=None if gigabytes is None else GIB * gigabytes,
    )
