"""The processes of the app."""

import os
import sys

import pytest

from benchmarks.processes import DISPATCHER, WEB, WORKER, parts_of_app, process_tree
from tests.browser.conftest import Server, Trained


@pytest.mark.skipif(sys.platform != "linux", reason="reads the tree of processes from /proc")
def test_the_niceness_of_workers_counts_beside_the_web_server_and_ctrl_c_reaches_neither(
    server: Server, trained: Trained
) -> None:
    parts = parts_of_app(process_tree(server.process.pid))
    (web,), (dispatcher,), workers = ([process.pid for process in parts[name]] for name in (WEB, DISPATCHER, WORKER))
    assert workers
    # Linux compares the niceness of processes of one session only.
    assert {os.getsid(pid) for pid in (web, dispatcher, *workers)} == {os.getsid(server.process.pid)}
    groups = [os.getpgid(pid) for pid in (server.process.pid, web, dispatcher)]
    assert len(set(groups)) == 3
    assert {os.getpgid(pid) for pid in workers} == {os.getpgid(dispatcher)}
