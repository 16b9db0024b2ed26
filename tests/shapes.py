"""The checker behind every signature of the engine while tests run."""

from collections.abc import Callable
from typing import Any, TypeVar

from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.roar import BeartypeDecorHintException

F = TypeVar("F", bound=Callable[..., Any])
CONF = BeartypeConf(is_pep484_tower=True)  # an int is a float, as type checkers have it


def checked(function: F) -> F:
    """beartype on one function, hint by hint: one it cannot check does not switch off the others."""
    function.__annotations__ = {name: _checkable(hint) for name, hint in function.__annotations__.items()}
    return beartype(conf=CONF)(function)


def _checkable(hint: Any) -> Any:
    """``hint``, or Any where a running program cannot tell: ``Self``, protocols that ``isinstance`` does not know."""
    if isinstance(hint, str):
        return hint
    try:
        is_bearable(None, hint, conf=CONF)
    except BeartypeDecorHintException:
        return Any
    return hint
