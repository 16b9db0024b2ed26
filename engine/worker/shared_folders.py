"""Folders that all machines must see: the dispatcher leaves a marker in each, and a worker looks for it."""

import uuid
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import InvalidConfig

MARKER = ".fedscape-dispatcher"

Folders = Mapping[str, Path]  # by the variable that names the folder


def mark(folders: Folders) -> str:
    """Leaves a new marker in every folder and returns its text."""
    text = uuid.uuid4().hex
    for variable, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / MARKER).write_text(text, encoding="ascii")
        except OSError as error:
            problem = f"{variable}: cannot write to {folder} ({error.strerror})"
            raise InvalidConfig([f"{problem}; the dispatcher writes to it, and all machines read it"]) from error
    return text


def unseen(folders: Folders, text: str) -> str:
    """The problem with the first folder that differs from the dispatcher's as seen from this machine, else ""."""
    for variable, folder in folders.items():
        try:
            found = (folder / MARKER).read_text(encoding="ascii")
        except (OSError, ValueError):
            found = ""
        if found != text:
            return f"it does not see the dispatcher's {variable} ({folder}): mount the same folder there"
    return ""
