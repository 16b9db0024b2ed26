"""Data in the web process: estimated first, refused if too large, and released when unused."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.actions import launch
from app.data import memory_limit, pools
from app.data.memory_limit import DATA_MB, KeptData, most_bytes, require_room
from app.setup import cost
from app.stories import stories
from app.stories.story import Story, place_of
from engine.config.schema import RunConfig, parse_experiment
from engine.core.errors import InvalidConfig, TooLarge
from engine.federation.clients import pool_bytes
from storage import Store
from tests.app.samples import DIGITS
from tests.app.test_setup import messages, opened, queue_button

LARGE = {"dataset": {"name": "synthetic", "num_clients": 1000, "samples_per_client": 1000, "dim": 200}}


def a_run(**changes: object) -> RunConfig:
    return parse_experiment(DIGITS | {"algorithms": ["fedavg"], "seeds": [0]} | changes).runs()[0]


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    pools.KEPT.clear()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_data_is_released_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_MB, "10")
    clock = Clock()
    kept, made = KeptData(clock=clock), list[str]()

    def get(key: str) -> None:
        clock.now += 1
        kept.get(key, lambda: 4e6, lambda: made.append(key), lambda _: 4e6)

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"]
    assert kept.num_bytes == 8e6


def test_a_press_ends_the_wait_for_data_that_another_reader_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, is_making, may_end = KeptData(), threading.Event(), threading.Event()
    kept.get("kept", lambda: 1.0, lambda: "kept", lambda _: 1.0)

    def make() -> str:
        is_making.set()
        assert may_end.wait(60)
        return "made"

    def leave() -> None:
        raise KeyboardInterrupt  # like Streamlit's exceptions, not an Exception

    def get(key: str) -> str:
        return kept.get(key, lambda: 1.0, make, lambda _: 1.0)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(get, "other")
        assert is_making.wait(60)
        try:
            assert get("kept") == "kept"  # without a wait
            monkeypatch.setattr(memory_limit, "leave_if_outdated", leave)
            with pytest.raises(KeyboardInterrupt):
                get("another")
        finally:
            may_end.set()
        assert other.result(60) == get("other") == "made"


def test_unused_data_is_released() -> None:
    clock = Clock()
    kept = KeptData(idle_s=60, clock=clock)
    for key, clock.now in (("old", 0.0), ("new", 50.0)):
        kept.get(key, lambda: 1.0, object, lambda _: 1.0)
    clock.now = 61.0
    kept.release_idle()
    assert kept.num_bytes == 1.0
    clock.now = 111.0
    kept.release_idle()
    assert kept.num_bytes == 0.0


def test_data_is_released_without_another_visit() -> None:
    kept = KeptData(idle_s=0.01)
    kept.get("once", lambda: 1.0, object, lambda _: 1.0)
    timer = kept._timer
    while timer is not None:
        timer.join()
        timer = kept._timer
    assert kept.num_bytes == 0.0


def test_the_limit_is_set_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_MB, raising=False)
    assert 0 < most_bytes() <= 3e9
    monkeypatch.setenv(DATA_MB, "1.5")
    require_room(1.5e6)
    with pytest.raises(TooLarge, match=r"about 1.6 MB .*limit is 1.5 MB.*python -m engine run.*FEDSCAPE_DATA_MB=2$"):
        require_room(1.6e6)


def test_web_servers_divide_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "web_servers", 3)
    monkeypatch.setenv(DATA_MB, "6")
    require_room(2e6)
    with pytest.raises(TooLarge, match=r"about 3 MB .*limit is 2 MB.*FEDSCAPE_DATA_MB=9$"):
        require_room(3e6)


def test_a_link_to_data_too_large_for_memory_is_refused_first(
    monkeypatch: pytest.MonkeyPatch, empty_store: Store
) -> None:
    monkeypatch.setattr("engine.datasets.synthetic.Synthetic.load", lambda *_: pytest.fail("it was made"))
    page = opened(DIGITS | LARGE | {"partition": "natural"})
    assert queue_button(page).disabled
    assert any("this data takes about 3.26 GB" in message for message in messages(page))


def test_data_too_large_to_show_is_not_queued(monkeypatch: pytest.MonkeyPatch, empty_store: Store) -> None:
    monkeypatch.setattr("engine.datasets.synthetic.Synthetic.load", lambda *_: pytest.fail("it was made"))
    experiment = parse_experiment(DIGITS | LARGE | {"partition": "natural"})
    with pytest.raises(InvalidConfig, match="dataset: this data takes about"):
        launch.queue_experiment(experiment)
    assert not empty_store.experiments.list()


def test_many_clients_need_memory_like_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.partitioners.natural.Natural.split", lambda *_: pytest.fail("it was split"))
    monkeypatch.setenv(DATA_MB, "5")
    few = {"name": "synthetic", "num_clients": 10_000, "samples_per_client": 2, "dim": 1}
    assert pools.pool_of(a_run(dataset=few, partition="natural")).y.size == 20_000
    with pytest.raises(TooLarge):
        pools.split_of(a_run(dataset=few, partition="natural"))


def test_data_that_fits_once_but_not_twice_is_shown_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(training={"lr": 0.0321})
    pool = pools.pool_of(run)
    monkeypatch.setenv(DATA_MB, str((pool.x.nbytes + pool.y.nbytes + 50_000) / 1e6))
    assert len(pools.split_of(run)["train_sizes"]) == 10
    assert cost.cost_of(run).seconds is None


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    run = a_run(dataset={"name": "custom", "path": "own.csv"}, partition={"name": "iid", "num_clients": 2})
    (tmp_path / "own.csv").write_text("a,label\n" + "1,0\n2,1\n" * 5)
    assert pools.pool_of(run).y.size == 10
    (tmp_path / "own.csv").write_text("a,label\n" + "1,0\n2,1\n" * 6)
    assert pools.pool_of(run).y.size == 12


def test_an_image_that_was_added_to_a_class_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    run = a_run(dataset={"name": "custom", "path": "own [1]"}, partition={"name": "iid", "num_clients": 2})
    for name in ("ant", "cat"):
        (tmp_path / "own [1]" / name).mkdir(parents=True)
        Image.new("L", (2, 2)).save(tmp_path / "own [1]" / name / "1.png")
        os.utime(tmp_path / "own [1]" / name, (0, 0))
    assert pools.pool_of(run).y.size == 2
    Image.new("L", (2, 2)).save(tmp_path / "own [1]" / "cat" / "2.png")
    assert pools.pool_of(run).y.size == 3


def test_a_replaced_file_of_a_data_set_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    run = a_run(dataset="usps", partition={"name": "iid", "num_clients": 2})
    (tmp_path / "usps").mkdir()
    for num_samples in (20, 30):
        x, y = np.zeros((num_samples, 16, 16), np.uint8), np.arange(num_samples) % 10
        np.savez(tmp_path / "usps" / "usps.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        assert pools.pool_of(run).y.size == 2 * num_samples


@pytest.mark.parametrize("story", stories().values(), ids=lambda story: story.slug)
def test_the_data_of_every_story_is_small(story: Story[Any], tmp_path: Path) -> None:
    for place in [{dial.name: stop} for dial in story.dials({}) for stop in dial.stops]:
        for run in parse_experiment(story.config(place_of(story, place))).runs():
            assert pool_bytes(run, tmp_path) < 50e6
