"""Two users press buttons at the same time: the result is that of one after the other."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest

from storage import RunNotFound, RunsActive, Store
from tests.storage.samples import new_run

ROOT = Path(__file__).parents[2]
Press = Callable[[Store, int], object]

PRESSES: dict[str, Press] = {
    "cancel": lambda store, run_id: store.queue.request([run_id], "cancel"),
    "pause": lambda store, run_id: store.queue.request([run_id], "pause"),
    "resume": lambda store, run_id: store.queue.resume([run_id]),
    "retry": lambda store, run_id: store.queue.retry([run_id]),
    "archive": lambda store, run_id: store.queue.archive([run_id]),
    "unarchive": lambda store, run_id: store.queue.archive([run_id], False),
    "delete": lambda store, run_id: store.trash.put([run_id]),
    "undo": lambda store, run_id: store.trash.restore([run_id]),
    "for good": lambda store, run_id: store.queue.delete([run_id]),
    "claim": lambda store, run_id: store.queue.claim([run_id]),
}
PAIRS = [
    ("cancel", "pause"),
    ("resume", "cancel"),
    ("resume", "pause"),
    ("delete", "retry"),
    ("delete", "undo"),
    ("archive", "unarchive"),
    ("delete", "claim"),
    ("cancel", "claim"),
    ("pause", "claim"),
    ("for good", "retry"),
    ("for good", "claim"),
    ("delete", "resume"),
    ("cancel", "cancel"),
    ("delete", "delete"),
]
STATUSES = ("queued", "running", "paused", "failed")
REFUSALS = (RunNotFound, RunsActive)


def a_run(store: Store, status: str) -> int:
    store.experiments.create("x", {}, [new_run()])
    (run,) = store.queue.runs(limit=1)
    if status in ("running", "failed"):
        store.queue.claim([run.id])
    if status == "failed":
        store.queue.finish(run.id, 1, "failed")
    if status == "paused":
        store.queue.request([run.id], "pause")
    return run.id


def outcome(store: Store, run_id: int) -> tuple:
    """The states of the run and of its reruns."""
    everything = [*store.queue.runs(include_archived=True, newest_first=False), *store.trash.list()]
    related = sorted((run for run in everything if run.id >= run_id), key=lambda run: run.id)
    return tuple(
        (run.id - run_id, run.status, run.control, run.epoch, run.archived, run.deleted_at is None) for run in related
    )


def press(store: Store, name: str, run_id: int) -> str:
    """Presses the button and returns what the user sees."""
    try:
        PRESSES[name](store, run_id)
    except REFUSALS as refusal:
        return type(refusal).__name__
    return "done"


def one_after_the_other(store: Store, status: str, names: tuple[str, str]) -> tuple:
    run_id = a_run(store, status)
    answers = {name: press(store, name, run_id) for name in names}
    return outcome(store, run_id), sorted(answers.items())


def test_a_retry_pressed_twice_at_once_queues_one_run(store: Store):
    run_id = a_run(store, "failed")
    (first,), (second,) = store.queue.retry([run_id]), store.queue.retry([run_id])
    assert first.id == second.id
    store.queue.request([first.id], "cancel")
    assert store.queue.retry([run_id])[0].id > first.id


def at_once(store: Store, status: str, names: tuple[str, str]) -> tuple:
    run_id, answers = a_run(store, status), {}
    start = threading.Barrier(2)

    def user(name: str) -> None:
        start.wait()
        answers[name] = press(store, name, run_id)

    people = [threading.Thread(target=user, args=(name,)) for name in names]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join()
    return outcome(store, run_id), sorted(answers.items())


@pytest.mark.parametrize("names", PAIRS, ids=" + ".join)
@pytest.mark.slow
def test_two_buttons_at_once_equal_one_after_the_other(store: Store, names: tuple[str, str]):
    for status in STATUSES:
        allowed = [one_after_the_other(store, status, order) for order in itertools.permutations(names)]
        for _ in range(3):
            assert at_once(store, status, names) in allowed, status


PRESS_OFTEN = """
import sys
from storage import Store
from tests.faults.test_races import press
store, names = Store(sys.argv[1]), sys.argv[2].split("+")
sys.stdin.readline()
for run_id in range(1, 41):
    for name in names:
        press(store, name, run_id)
"""


@pytest.mark.slow
def test_concurrent_servers_leave_every_run_in_an_allowed_state(store: Store):
    ids = [a_run(store, STATUSES[i % 4]) for i in range(40)]
    assert ids == list(range(1, 41))
    command = [sys.executable, "-W", "error", "-c", PRESS_OFTEN, store.url]
    people = [
        subprocess.Popen([*command, "+".join(names)], cwd=ROOT, text=True, stdin=PIPE, stderr=PIPE)
        for names in (("pause", "resume", "delete"), ("cancel", "undo", "archive"), ("delete", "retry", "claim"))
    ]
    for user in people:
        user.stdin.write("go\n")
        user.stdin.flush()
    assert [user.communicate()[1] for user in people] == [""] * 3
    runs = [*store.queue.runs(include_archived=True), *store.trash.list()]
    assert {run.id for run in runs} >= set(ids)
    assert all(run.control == "" for run in runs if run.status != "running")
    assert not [run for run in runs if run.status == "running" and run.deleted_at is not None]
