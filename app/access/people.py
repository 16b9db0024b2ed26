"""A person: name and role, from the claims of the ID token that the provider signed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.access.roles import Role
from app.access.rules import Rules, SignIn


@dataclass(frozen=True)
class Person:
    """``name`` is what experiments store as their owner: an e-mail address, or "" where nobody signs in."""

    name: str
    role: Role


EVERYONE = Person("", "admin")  # where nobody signs in
READER = Person("", "visitor")  # of a read-only demo without sign-in


def signed_in(claims: Mapping[str, Any], rules: Rules) -> Person | None:
    """The person of these claims. None if they are of another provider or app, or expired."""
    sign_in = rules.sign_in
    if sign_in is None or claims.get("is_logged_in") is not True or not _is_for_us(claims, sign_in):
        return None
    if ends_at(claims, sign_in) <= time.time():
        return None
    name, groups = name_of(claims), _groups(claims, sign_in.groups_claim)
    return Person(name, role_of({name.lower(), *groups}, rules)) if name else None


def ends_at(claims: Mapping[str, Any], sign_in: SignIn) -> float:
    """When the person has to sign in again, in seconds since 1970. Claims without a time have ended."""
    if sign_in.session_s is None:
        return _seconds(claims.get("exp"))
    return _seconds(claims.get("iat")) + sign_in.session_s


def role_of(names: set[str], rules: Rules) -> Role:
    """The highest role that one of these e-mail addresses and groups has."""
    if rules.is_read_only:
        return "visitor"
    if names & rules.admins:
        return "admin"
    return "member" if not rules.members or names & rules.members else "visitor"


def name_of(claims: Mapping[str, Any]) -> str:
    """The e-mail address, unless the provider says that it is not verified; then its own id for the person."""
    email, subject = claims.get("email"), claims.get("sub")
    if isinstance(email, str) and "@" in email and claims.get("email_verified") in (True, "true", None):
        return email.strip().lower()
    return f"id {subject}" if isinstance(subject, str) and subject else ""


def _is_for_us(claims: Mapping[str, Any], sign_in: SignIn) -> bool:
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    return str(claims.get("iss", "")).rstrip("/") == sign_in.issuer and sign_in.client_id in audiences


def _groups(claims: Mapping[str, Any], claim: str) -> set[str]:
    """Names with an @ are addresses, which a group cannot claim."""
    found = claims.get(claim)
    names = found if isinstance(found, list) else [found]
    return {name.strip().lower() for name in names if isinstance(name, str) and "@" not in name}


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
