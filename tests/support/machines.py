"""Several machines on this one: Linux namespaces with a network interface, process ids and a host name each.

Only inside a network namespace without a network, as that of .ci/ray. Files are shared.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

BRIDGE, PREFIX, SUBNET = "fsbridge", "fs", "10.77.0"
# In the environment of all processes of a machine, and of those of a part of it.
MACHINE, PART = "FEDSCAPE_TEST_MACHINE", "FEDSCAPE_TEST_PART"
# Ignored, SIGCHLD makes the kernel reap the orphans of the machine, as its init would.
HOLD = 'hostname "$1" && ip link set lo up && trap "" CHLD && echo ready && exec sleep infinity'


def missing() -> str | None:
    """What keeps machines from being started here, or None."""
    if others := [name for _, name in socket.if_nameindex() if name != "lo" and not name.startswith(PREFIX)]:
        return f"this is no network namespace of our own: there is {', '.join(others)}"
    return None


class Machine:
    """A machine; ``plug`` and ``unplug`` its network cable."""

    def __init__(self, number: int) -> None:
        self.number, self.host, self.address = number, f"node{number}", f"{SUBNET}.{number}"
        self._cable = f"{PREFIX}{number}"
        namespaces = ("--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
        self._holder = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", HOLD, "sh", self.host], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            raise RuntimeError("no namespaces here")
        if BRIDGE not in [name for _, name in socket.if_nameindex()]:
            _ip("link", "add", BRIDGE, "type", "bridge")
            _ip("link", "set", BRIDGE, "up")
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", str(self._holder.pid))
        _ip("link", "set", self._cable, "master", BRIDGE, "up")
        inside = ["nsenter", f"--target={self._holder.pid}", "--net", "ip"]
        subprocess.run([*inside, "address", "add", f"{self.address}/24", "dev", "eth0"], check=True)
        subprocess.run([*inside, "link", "set", "eth0", "up"], check=True)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], part: str = "", **options: Any
    ) -> "Program":
        """Starts a program on this machine, with the options of ``Popen``."""
        pid = self._holder.pid
        enter = [f"--target={pid}", "--net", "--uts", "--mount", f"--pid=/proc/{pid}/ns/pid_for_children"]
        mark = {MACHINE: str(self.number), PART: part}
        words = ["nsenter", *enter, f"--wd={options.pop('cwd', os.getcwd())}", "--", *command]
        return Program(subprocess.Popen(words, env={**environment, **mark}, start_new_session=True, **options))

    def plug(self) -> None:
        _ip("link", "set", self._cable, "up")

    def unplug(self) -> None:
        _ip("link", "set", self._cable, "down")

    def processes(self, part: str | None = None) -> dict[int, int]:
        """All processes of this machine, or of a part of it: their ids there, and here."""
        marks = [f"{MACHINE}={self.number}\0".encode()]
        marks += [] if part is None else [f"{PART}={part}\0".encode()]
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                environment, status = (folder / "environ").read_bytes(), (folder / "status").read_text()
                ids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
                if len(ids) > 1 and all(mark in environment for mark in marks):  # 1: nsenter, which is outside
                    found[int(ids[-1])] = int(folder.name)
        return found

    def kill_processes(self, part: str | None = None) -> None:
        """As a power cut: all at once, so that none reports the death of another."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self.processes(part).values():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def kill_process(self, pid: int) -> None:
        """Kills the process with this id on the machine, if it is still there."""
        with suppress(KeyError, ProcessLookupError):
            os.kill(self.processes()[pid], signal.SIGKILL)

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()


class Program:
    """A program on a machine, which ``nsenter`` has started as its child."""

    def __init__(self, enter: "subprocess.Popen[bytes]") -> None:
        self._enter = enter

    def poll(self) -> int | None:
        self._enter.send_signal(signal.SIGCONT)  # nsenter stops itself when the program is stopped, to be killed
        return self._enter.poll()

    def send_signal(self, number: int) -> None:
        for pid in _children(self._enter.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait(self, timeout: float | None = None) -> int:
        return self._enter.wait(timeout)

    def kill(self) -> None:
        """Kills the program, and ``nsenter`` if it has not started it yet."""
        self.send_signal(signal.SIGKILL)
        self._enter.kill()
        self._enter.wait()


def _children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(folder.name))
    return found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
