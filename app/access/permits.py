"""Permission for each action, where it happens. Every write of the web server to the database needs a permit.

    with permits.allow("delete", store, "Delete", run_ids=ids):
        store.trash.put(ids)

A write outside of ``allow`` is refused by the store itself (``checked_writes``), so that an action that forgets to ask
fails for everyone who signs in instead of working for everyone. The limits are checked in the transaction of the write,
and its line of the audit log is part of it. Where nobody signs in and the app is not read only,
all of this does nothing.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import streamlit as st
from sqlalchemy import Connection

from app.access import limits, people
from app.access.errors import NotAllowed
from app.access.people import EVERYONE, READER, Person
from app.access.roles import TABLE, Action, reach
from app.access.rules import Rules, rules
from app.wording import spans
from storage import RunRecord, StorageError, Store
from storage.audit import insert_audit
from storage.shares import lock_usage, usage

Adds = Literal["nothing", "runs", "files"]  # runs or analyses to compute; files only
READ_ONLY = "This is a read-only demo: look around, turn the dials, download. Nothing can be queued or changed."
SIGNED_OUT = "You are no longer signed in. Reload the page to sign in again."


@dataclass
class Permit:
    """What ``person`` is doing now. ``subject`` names the runs or whatever it is done to."""

    person: Person
    did: str
    subject: str
    adds: Adds
    is_logged: bool = False


_APP = Permit(EVERYONE, "", "", "nothing")
_requester: ContextVar[Person | None] = ContextVar("requester", default=None)
_current: ContextVar[Permit | None] = ContextVar("permit", default=None)


def current() -> Person:
    """Who uses this page. Raises NotAllowed once a sign-in has ended."""
    person = signed_in()
    if person is None:
        raise NotAllowed(SIGNED_OUT)
    return person


def signed_in() -> Person | None:
    """Who uses this page, or sent this request; None if the person must sign in first."""
    if (person := _requester.get()) is not None:
        return person
    now = rules(os.environ)
    return everyone(now) if now.sign_in is None else people.signed_in(st.user.to_dict(), now)


def everyone(now: Rules) -> Person:
    """All who open the app, where nobody signs in."""
    return READER if now.is_read_only else EVERYONE


@contextmanager
def requested_by(person: Person) -> Iterator[None]:
    """Makes ``person`` the one who acts, in a request to one of the app's own routes."""
    token = _requester.set(person)
    try:
        yield
    finally:
        _requester.reset(token)


def refusal(action: Action) -> str | None:
    """Why this person may not do it at all, for the screen; None if they may, even if only with their own runs."""
    person = signed_in()
    if person is None:
        return SIGNED_OUT
    return None if reach(person.role, action) != "none" else _never(person, action, rules(os.environ))


def why_not(action: Action, runs: Collection[RunRecord]) -> str | None:
    """Why this person may not do it with all of these runs, for the screen; None if they may."""
    if reason := refusal(action):
        return reason
    allowed = theirs(action, runs)
    return next((_belongs_to(run.owner) for run in runs if run.id not in allowed), None)


def theirs(action: Action, runs: Collection[RunRecord]) -> set[int]:
    """The ids of those runs with which this person may do it."""
    person = signed_in()
    scope = "none" if person is None else reach(person.role, action)
    return {run.id for run in runs if scope == "all" or (scope == "own" and person and run.owner == person.name)}


def require(action: Action) -> Person:
    """Raises NotAllowed if this person may not do it at all. For what comes before a write, or writes no row."""
    person = current()
    if reach(person.role, action) == "none":
        raise NotAllowed(_never(person, action, rules(os.environ)))
    return person


@contextmanager
def allow(
    action: Action,
    store: Store,
    did: str = "",
    *,
    of: Sequence[str] = (),
    run_ids: Sequence[int] = (),
    experiment_ids: Sequence[int] = (),
    adds: Adds = "nothing",
) -> Iterator[Person]:
    """Permits the writes inside of it. Raises NotAllowed unless the person may do this with all of these.

    ``did`` and ``of`` are for the audit log; a write without ``did`` is not logged. The first of several transactions
    writes the entry; if a later one fails, another entry says so: ``Import failed``. What ``adds`` something is refused
    beyond the person's limits.
    """
    person = require(action)
    if person == EVERYONE:
        yield person
        return
    if reach(person.role, action) == "own" and (run_ids or experiment_ids):
        _refuse_foreign(store, person, run_ids, experiment_ids)
    permit = Permit(person, did, _subject(of, run_ids), adds)
    token = _current.set(permit)
    try:
        yield person
    except BaseException:
        if permit.is_logged:
            _current.set(Permit(person, f"{did} failed", permit.subject, "nothing"))
            with suppress(StorageError), store.audit.entry():
                pass
        raise
    finally:
        _current.reset(token)


@contextmanager
def of_the_app() -> Iterator[None]:
    """Permits what the app itself writes, such as the tables of a new database."""
    token = _current.set(_APP)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def checked_writes() -> Iterator[None]:
    """Around every write of the web server. Raises NotAllowed outside of ``allow`` where rights differ."""
    if _current.get() is None and has_restrictions(rules(os.environ)):
        raise NotAllowed("This cannot be changed here.")
    yield


def before_commit(connection: Connection) -> None:
    """In every transaction that writes: checks the limits, and writes the audit log. Raises NotAllowed."""
    permit = _current.get()
    if permit is None or permit is _APP:
        return
    if permit.adds != "nothing":
        lock_usage(connection)
        used, now = usage(connection, permit.person.name), datetime.now(UTC)
        check = limits.why_not_queue(permit.person, used, now) if permit.adds == "runs" else None
        if reason := check or limits.why_not_store(permit.person, used):
            raise NotAllowed(reason)
    if permit.did and not permit.is_logged:
        insert_audit(connection, permit.person.name, permit.did, permit.subject)
        permit.is_logged = True


def has_restrictions(now: Rules) -> bool:
    """Whether not everyone may do everything."""
    return now.sign_in is not None or now.is_read_only


def _refuse_foreign(store: Store, person: Person, run_ids: Sequence[int], experiment_ids: Sequence[int]) -> None:
    owners = store.experiments.owners(run_ids=run_ids, experiment_ids=experiment_ids)
    if foreign := sorted(owners - {person.name}):
        raise NotAllowed(f"{_belongs_to(foreign[0])} Nothing was changed.")


def _belongs_to(owner: str) -> str:
    whose = f"belongs to {owner}" if owner else "belongs to nobody who signed in"
    return f"This {whose}: only the owner or an admin can change it."


def _subject(of: Sequence[str], run_ids: Sequence[int]) -> str:
    """``runs 3-9, 12`` or the names of experiments, files or views."""
    names = ", ".join(f"“{name}”" for name in of)
    if not run_ids:
        return names
    return (
        f"{'run' if len(run_ids) == 1 else 'runs'} {spans(run_ids).replace(',', ', ')}{f' of {names}' if names else ''}"
    )


def _never(person: Person, action: Action, now: Rules) -> str:
    if now.is_read_only:
        return READ_ONLY
    roles = [role for role in ("admin", "member") if reach(role, action) != "none"]
    who = " and ".join(f"{role}s" for role in reversed(roles))
    return f"Only {who} may {TABLE[action].what}. You are signed in as a {person.role}."
