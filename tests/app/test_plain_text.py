"""Names come with links and imported files: wherever the pages show one, it is text and nothing else."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.links import pack_config
from engine.config import parse_experiment
from engine.worker.records import new_run
from storage import Store
from tests.app.pages import open_page
from tests.app.samples import DIGITS, store_experiment

PICTURE, FORMULA = "![](http://evil/x.png)", "$x$ *y*"
NAMED: dict[str, Any] = DIGITS | {
    "name": PICTURE, "seeds": [0], "training": {"rounds": 2},
    "algorithms": [{"name": "fedavg", "label": PICTURE}, {"name": "cgpfl", "K": 2, "lam": 12, "label": FORMULA}],
}  # fmt: skip


def markdown(page: AppTest) -> str:
    """Everything that the browser reads as Markdown."""
    elements = [*page.markdown, *page.caption, *page.warning, *page.info, *page.error, *page.success, *page.header,
                *page.subheader, *page.title]  # fmt: skip
    labels = [*page.expander, *page.button, *page.text_input, *page.get("popover")]
    return "\n".join([*(e.value for e in elements), *(getattr(e, "label", "") for e in labels)])


def assert_is_text(page: AppTest) -> None:
    said = markdown(page)
    assert "![" not in said and "$x$" not in said and " *y*" not in said


def test_compare_shows_labels_as_text(empty_store: Store) -> None:
    store_experiment(empty_store, NAMED)
    page = open_page("compare")
    assert_is_text(page)
    assert r"\!\[\](http\://evil/x.png)" in markdown(page)


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_live_and_compare_show_errors_as_text(empty_store: Store, status: Any) -> None:
    empty_store.experiments.create(PICTURE, NAMED, [new_run(run) for run in parse_experiment(NAMED).runs()])
    run = empty_store.queue.claim()
    assert run is not None
    empty_store.queue.finish(run.id, run.epoch, status, f"{PICTURE} {FORMULA}")
    assert_is_text(open_page("live"))
    assert_is_text(open_page("compare", experiment="1"))


def test_set_up_shows_names_as_text(empty_store: Store) -> None:
    sweep = {"name": "ditto", "label": PICTURE, "sweep": {FORMULA: [1]}, "training": {"lr": PICTURE}}
    page = open_page("setup", config=pack_config(NAMED | {"algorithms": [sweep, {"name": PICTURE}], PICTURE: 1}))
    assert page.warning
    assert_is_text(page)


def test_library_shows_names_as_text(empty_store: Store) -> None:
    store_experiment(empty_store, NAMED)
    assert_is_text(open_page("library", runs="1,2"))
