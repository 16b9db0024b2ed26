"""Set up opened by a link with a damaged configuration: problems are listed in short lines."""

import json
import zlib
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from app.setup.draft import MAX_DRAWN, drawable, problems_of
from app.state.links import unpack_config
from engine.config.schema import parse_experiment
from engine.core.errors import MAX_MESSAGE, MAX_PROBLEMS, InvalidConfig
from storage import Store
from tests.app.pages import open_page
from tests.support.damaged import GOOD, VALUES, WHOLE

ON_THE_PAGE = (
    "a name of 5,000 characters",
    "half a character as name",
    "a deep value",
    "many unknown keys",
    "10,001 seeds",
    "a sweep of a million runs",
    "ten thousand mistakes",
    "more clients than samples",
    "a path with a null",
    "a path of 5,000 characters",
    "a seed of 300 digits",
    "an unknown name of 5,000 characters",
)


def packed(config: Any) -> str:
    """Like ``pack_config``, but without validation."""
    return urlsafe_b64encode(zlib.compress(json.dumps(config).encode(), 9)).decode().rstrip("=")


def problems_in(config: dict[str, Any]) -> list[str]:
    """The problems that Set up shows for a link."""
    try:
        draft, dropped = drawable(unpack_config(packed(config)))
    except InvalidConfig as error:
        return list(error.problems)
    return dropped + problems_of({"name": "untitled", **draft})


def is_valid(config: dict[str, Any]) -> bool:
    """Whether the configuration is valid by itself, apart from data and machine."""
    try:
        parse_experiment(config)
    except InvalidConfig:
        return False
    return True


@pytest.mark.slow
def test_problems_of_a_damaged_link_are_short_lines() -> None:
    for part, damaged in (VALUES | {"whole": WHOLE}).items():
        for name, changes in damaged.items():
            lines = problems_in(GOOD | changes)
            assert bool(lines) != is_valid(GOOD | changes), (part, name)
            assert len(lines) <= 2 * MAX_PROBLEMS and all(len(line) <= MAX_MESSAGE for line in lines), (part, name)


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_a_damaged_link_opens_a_page_with_the_problems(empty_store: Store, name: str) -> None:
    page = open_page("setup", config=packed(GOOD | WHOLE[name]))
    is_whole = page.warning and not (page.error or page.info)
    assert (page.warning or page.error) and page.button(key="queue").disabled != bool(is_whole)


def test_a_link_with_thousands_of_methods_fills_one_page() -> None:
    draft, dropped = drawable(GOOD | {"algorithms": [{"name": "fedavg", "label": str(i)} for i in range(3000)]})
    assert len(draft["algorithms"]) == MAX_DRAWN
    assert dropped == [f"algorithms: only the first {MAX_DRAWN} of 3,000 methods were loaded"]


def test_unknown_keys_of_a_link_are_named() -> None:
    changes = {
        "training": {"lrr": 0.5},
        "partition": {"name": "iid", "num_clients": 4, "alpha": 1},
        "algorithms": [{"name": "ditto", "lambda": 3, "training": {"momentun": 0.9}}],
    }
    draft, dropped = drawable(GOOD | changes)
    keys = ("algorithms.0.training.momentun", "algorithms.0.lambda", "partition.alpha", "training.lrr")
    assert sorted(dropped) == sorted(f"{key} is unknown and was ignored" for key in keys)
    assert draft["algorithms"] == [{"name": "ditto", "training": {}}]


def test_a_link_with_thousands_of_options_in_a_sweep_fills_one_page() -> None:
    sweep = {f"training.{i}": [1] for i in range(3000)}
    draft, dropped = drawable(GOOD | {"algorithms": [{"name": "ditto", "sweep": sweep}]})
    assert draft["algorithms"] == [{"name": "ditto"}] and "3,000 options" in dropped[0]
