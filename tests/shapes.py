"""The run-time type checker of the engine's signatures in tests."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.roar import BeartypeDecorHintException

T = TypeVar("T", bound=Callable[..., Any])
CONF = BeartypeConf(is_pep484_tower=True)  # an int is a float, as for type checkers
MOST_CALLS = 5  # of a function that are checked in a test: later ones hardly differ, and a check often takes longer
calls = Counter[Callable[..., Any]]()  # that were checked in the current test
scope = jaxtyping.jaxtyped  # scope("context"): within it, a letter of a shape has one value


def install() -> None:
    """From here on, modules of the engine are imported with ``checked`` around their functions and dataclasses.

    jaxtyping's own decorator checks every argument twice and binds it to the signature twice, so that its message names
    the wrong one: a round takes twice as long. beartype's message names it, too.
    """
    jaxtyping.jaxtyped = lambda *, typechecker: checked
    jaxtyping.install_import_hook(modules(), "tests.shapes.checked")


def modules() -> list[str]:
    """The modules of the engine that state shapes. mypy checks the types of all others."""
    engine = Path(__file__).parents[1] / "engine"
    found = (file for file in sorted(engine.rglob("*.py")) if "from jaxtyping import" in file.read_text("utf-8"))
    return [".".join(file.relative_to(engine.parent).with_suffix("").parts) for file in found]


def checked(target: T) -> T:
    """A function whose arguments and result are checked in its first calls in a test, or a dataclass whose
    ``__init__`` is.

    A function within a function is made anew in each call, which takes a millisecond if it is checked. So it is only
    if it states a shape itself.
    """
    if inspect.isclass(target):
        if is_dataclass(target) and "__init__" in vars(target):
            target.__init__ = checked(target.__init__)
        return target
    hints = {name: _checkable(hint, target.__globals__) for name, hint in target.__annotations__.items()}
    if not hints or ("<locals>" in target.__qualname__ and not any(map(_is_shape, hints.values()))):
        return target
    target.__annotations__ = hints
    typed = beartype(conf=CONF)(target)
    states_shape = any(map(_states_shape, hints.values()))

    @functools.wraps(target)
    def first_calls(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if calls[target] == MOST_CALLS:
            return target(*args, **kwargs)
        calls[target] += 1
        if not states_shape:
            return typed(*args, **kwargs)
        with scope("context"):
            return typed(*args, **kwargs)

    return first_calls


def _checkable(hint: Any, names: dict[str, Any]) -> Any:
    """``hint``, or Any if it cannot be checked at run time, such as ``Self``, some protocols and later definitions."""
    try:
        hint = eval(hint, names) if isinstance(hint, str) else hint
        is_bearable(None, hint, conf=CONF)
    except (NameError, BeartypeDecorHintException):
        return Any
    return hint


def _is_shape(hint: Any) -> bool:
    """Whether it is like ``Float[Tensor, "S M"]``."""
    return isinstance(getattr(hint, "dim_str", None), str)


def _states_shape(hint: Any) -> bool:
    """Whether it is or contains a shape."""
    return _is_shape(hint) or any(map(_states_shape, get_args(hint)))
