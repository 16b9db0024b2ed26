"""The tabs of Inside a run: each is a file of this folder that declares a ``TAB``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from app.discovery import declared
from app.inside.view import RunView


def every_run(view: RunView) -> bool:
    return True


@dataclass(frozen=True)
class Tab:
    """A tab of the page. The name of its file is its name in the address."""

    title: str
    order: int  # among the tabs
    panel: Callable[[RunView], None]  # draws it
    needs_rounds: bool = True  # whether it is empty before the first round
    moves_with_rounds: bool = False  # whether it shows the slider over rounds
    of_one_model: bool = False  # whether it shows the switch between personalized and global model
    applies: Callable[[RunView], bool] = every_run  # whether it is shown for a run with rounds


@cache
def tabs() -> dict[str, Tab]:
    """All tabs in order, by the names of their files."""
    return declared("app.inside", "TAB")
