"""The checker behind every signature of the engine while tests run."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from beartype import BeartypeConf, beartype

F = TypeVar("F", bound=Callable[..., Any])
check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as type checkers have it


def checked(function: F) -> F:
    """beartype on one function. It knows ``Self`` only in classes it decorates itself, so there it asks for nothing."""
    hints = function.__annotations__
    function.__annotations__ = {name: Any if hint is Self else hint for name, hint in hints.items()}
    return check(function)
