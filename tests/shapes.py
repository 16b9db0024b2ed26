"""The run-time type checker of the engine's signatures in tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.roar import BeartypeDecorHintException

F = TypeVar("F", bound=Callable[..., Any])
CONF = BeartypeConf(is_pep484_tower=True)  # an int is a float, as for type checkers


def modules() -> list[str]:
    """The modules of the engine that state shapes. mypy checks the types of all others."""
    engine = Path(__file__).parents[1] / "engine"
    found = (file for file in sorted(engine.rglob("*.py")) if "from jaxtyping import" in file.read_text("utf-8"))
    return [".".join(file.relative_to(engine.parent).with_suffix("").parts) for file in found]


def checked(function: F) -> F:
    """beartype on one function, hint by hint, so that an unsupported hint does not disable the others."""
    function.__annotations__ = {name: _checkable(hint) for name, hint in function.__annotations__.items()}
    return beartype(conf=CONF)(function)


def _checkable(hint: Any) -> Any:
    """``hint``, or Any if it cannot be checked at run time, such as ``Self`` and some protocols."""
    if isinstance(hint, str):
        return hint
    try:
        is_bearable(None, hint, conf=CONF)
    except BeartypeDecorHintException:
        return Any
    return hint
