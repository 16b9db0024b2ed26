"""The Library's list of machines."""

from datetime import UTC, datetime, timedelta

from app.library import machines
from storage import EngineRecord, Store
from tests.app.pages import open_page

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def machine(host: str, silent_s: float = 1.0, **changes: object) -> EngineRecord:
    values = {"id": f"id of {host}", "host": host, "pid": 1, "device": "cpu", "slots": 4, "running": 3}
    values |= {"started_at": NOW, "heartbeat_at": NOW - timedelta(seconds=silent_s), "cpus": 4, "gpus": 0}
    return EngineRecord(**values | {"problem": ""} | changes)


def test_the_title_counts_machines_and_what_they_have() -> None:
    assert machines.title([machine("a")]) == "Machines: 1 with 4 CPUs, 3 runs in progress"
    both = [machine("a", running=1), machine("b", running=0, gpus=2, cpus=12)]
    assert machines.title(both) == "Machines: 2 with 16 CPUs and 2 GPUs, 1 run in progress"
    assert machines.title([]) == "Machines: none"


def test_each_machine_says_when_it_was_seen_and_why_it_gets_no_work() -> None:
    lab = [machine("a"), machine("b", running=0), machine("c", 600.0), machine("d", slots=0, problem="no torch")]
    table = machines.table(lab, NOW)
    assert list(table["State"]) == ["computing", "free", "not responding", "gets no work: no torch"]
    assert list(table["Last seen"]) == ["1 s ago", "1 s ago", "10 min ago", "1 s ago"]
    assert list(table["Running"]) == [3, 0, 0, 3]
    assert list(table["Slots"]) == [4, 4, 0, 0]


def test_a_host_that_is_back_is_not_listed_as_gone() -> None:
    gone, back, lost = machine("a", 600.0, id="old"), machine("a", id="new"), machine("b", 60.0)
    earlier = machine("b", 300.0, id="earlier")
    assert machines.known([gone, lost, earlier, back], NOW) == [back, lost]


def test_an_outage_is_listed_while_it_lasts_and_counts_as_no_machine() -> None:
    none = {"device": "", "cpus": 0, "slots": 0, "running": 0, "problem": "Can't reach the Ray cluster"}
    node, outage, past = machine("a", 60.0), machine("a", id="now", **none), machine("b", 60.0, **none)
    assert machines.known([node, outage, past], NOW) == [node, outage]
    assert list(machines.table([node, outage], NOW)["State"]) == ["not responding", "Can't reach the Ray cluster"]
    assert machines.title([outage]) == "Machines: none"


def test_the_library_lists_the_machines(filled_store: Store) -> None:
    filled_store.engines.heartbeat(host="lab1", pid=1, device="cpu", slots=2, running=0, cpus=2)
    filled_store.engines.heartbeat(host="lab2", pid=1, device="H100", slots=2, running=1, name="x", cpus=8, gpus=1)
    page = open_page("library")
    assert "Machines: 2 with 10 CPUs and 1 GPU, 1 run in progress" in [expander.label for expander in page.expander]
