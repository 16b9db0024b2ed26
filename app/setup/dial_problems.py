"""Dials that the chosen methods refuse, and dials without effect, with the engine's messages."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.setup import sweeps
from engine.config.schema import DIAL_KEYS, RunConfig
from engine.core.errors import Unsupported
from engine.simulation.refusals import refuse


def refused(raw: Mapping[str, Any], runs: Iterable[RunConfig]) -> list[str]:
    """The refusals as ``path: message``, at the dial or at the method that sets it.

    ``runs`` has one run of each method and point of its sweep, in the order of the valid configuration ``raw``.
    """
    entries = raw["algorithms"]
    places = [place for place, entry in enumerate(entries) for _ in range(sweeps.num_points(entry))]
    found = dict[str, None]()
    for place, run in zip(places, runs, strict=True):
        for dial, message in _refusals(run).items():
            is_own = dial not in raw or sweeps.has_own_dial(entries[place], dial)
            found[f"{f'algorithms.{place}.' if is_own else ''}{dial}: {message}"] = None
    return list(found)


def dial_of(note: str, raw: Mapping[str, Any]) -> str | None:
    """The dial of ``raw`` that a note names: ``system.tie=size: ...``, ``nothing is sent; attack has no effect``."""
    return next((dial for dial in DIAL_KEYS if dial in raw and re.search(rf"\b{dial}\b", note)), None)


def at_dial(error: str, raw: Mapping[str, Any]) -> str | None:
    """An error that names a dial as ``path: message``: ``privacy.clip=2, but ...`` is one at ``privacy.clip``."""
    dial = dial_of(error, raw)
    if dial is None:
        return None
    named = re.match(rf"{dial}\.\w+", error)
    path = named[0] if named else dial
    return error if error.startswith(f"{path}: ") else f"{path}: {error}"


def _refusals(run: RunConfig) -> dict[str, str]:
    """Dial -> why it is refused: by itself, or in combination with others, each of which is then listed."""
    dials = [dial for dial in DIAL_KEYS if getattr(run, dial) is not None]
    all_off: dict[str, Any] = dict.fromkeys(dials)
    alone = {dial: _refusal(replace(run, **{**all_off, dial: getattr(run, dial)})) for dial in dials}
    found = {dial: message for dial, message in alone.items() if message is not None}
    whole = _refusal(run)
    if whole is not None and whole not in found.values():
        without = {dial: _refusal(_without(run, dial)) for dial in dials}
        found |= {dial: whole for dial, message in without.items() if message != whole}
    return found


def _without(run: RunConfig, dial: str) -> RunConfig:
    off: dict[str, Any] = {dial: None}
    return replace(run, **off)


def _refusal(run: RunConfig) -> str | None:
    try:
        refuse(run)
    except Unsupported as error:
        return str(error)
    return None
