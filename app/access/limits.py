"""The limits of members, and the message that names the one reached, and says what to do or when it resets."""

from datetime import UTC, datetime

from app import wording
from app.access.people import Person
from app.access.uploads import files_of
from storage import Limits, Usage
from storage.shares import DAY


def why_not_queue(person: Person, usage: Usage, now: datetime) -> str | None:
    """Why the runs or analyses that were just added, and counted in ``usage``, are too many; None if they are not."""
    limits = limits_of(person)
    queued = usage.queued + usage.analyses
    if limits.queued is not None and queued > limits.queued:
        return (
            f"Limit reached: {limits.queued} queued runs and analyses per person, and this would make "
            f"{queued}. Wait until one of yours starts, or cancel one."
        )
    return why_not_today(limits, usage, now) or why_not_store(person, usage)


def why_not_today(limits: Limits, usage: Usage, now: datetime) -> str | None:
    """Why no more may be computed at the moment."""
    if limits.day_s is None or (used := sum(seconds for _, seconds in usage.computed)) < limits.day_s:
        return None
    return (
        f"Limit reached: {wording.duration(limits.day_s)} of computing per person in 24 hours; you have used "
        f"{wording.duration(used)}. More is available {_moment(available_at(usage, limits.day_s), now)}."
    )


def why_not_store(person: Person, usage: Usage, more_bytes: int = 0) -> str | None:
    """Why ``more_bytes`` may not be stored."""
    limit, uploaded = limits_of(person).disk_bytes, _uploaded_bytes(person)
    if limit is None or (used := usage.artifact_bytes + uploaded) + more_bytes < limit:
        return None
    of_uploads = (
        f" The files that you uploaded take {wording.size_bytes(uploaded)}; delete them under Disk in the Library."
    )
    return (
        f"Limit reached: {wording.size_bytes(limit)} of disk per person; you use {wording.size_bytes(used)}. To "
        f"free space, drop models in the Library, or delete runs permanently.{of_uploads if uploaded else ''}"
    )


def why_waiting(person: Person, usage: Usage, now: datetime) -> str | None:
    """Why queued runs of this person do not start, though slots are free. Holds for admins too."""
    limits = owner_limits()
    if not person.name or not usage.queued:
        return None
    if reason := why_not_today(limits, usage, now):
        return reason
    if limits.running is None or usage.running < limits.running:
        return None
    several = wording.plural(limits.running, "run")
    return f"At most {several} per person at a time: your next run starts when one of yours finishes."


def can_hold_runs() -> bool:
    """Whether there is a limit that keeps queued runs waiting."""
    limits = owner_limits()
    return limits.running is not None or limits.day_s is not None


def limits_of(person: Person) -> Limits:
    return owner_limits() if person.role == "member" else Limits()


def owner_limits() -> Limits:
    from engine.worker import limits  # here, since it loads the worker, which only sign-in needs

    return limits.owner_limits()


def available_at(usage: Usage, day_s: float) -> datetime:
    """When enough of the computing of the last 24 hours is more than 24 hours ago."""
    left = sum(seconds for _, seconds in usage.computed)
    for end, seconds in usage.computed:
        left -= seconds
        if left < day_s:
            return end + DAY
    return datetime.now(UTC) + DAY  # a limit of 0


def _moment(at: datetime, now: datetime) -> str:
    """``in 2 h 05 min (at 14:32 UTC)``."""
    return f"in {wording.duration(max((at - now).total_seconds(), 60.0))} (at {at:%H:%M} UTC)"


def _uploaded_bytes(person: Person) -> int:
    return sum(file.size_bytes for file in files_of(person)) if person.name else 0
