"""Errors of this package."""

from storage import StorageError


class InvalidSetting(ValueError):
    """An environment variable with an invalid value; the message names valid ones."""


class NotAllowed(StorageError):
    """A write that this person may not make now. Pages show the reason like that of any other refused write."""
