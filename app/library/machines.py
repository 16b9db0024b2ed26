"""The machines that compute: what each has and runs, when it was last seen, and why it gets no work."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from app import wording
from app.components import page
from storage import FRESH_S, EngineRecord

GONE_S = 3600.0  # for how long a machine without heartbeats is listed


def expander(found: Sequence[EngineRecord]) -> None:
    """``found`` are those with a heartbeat within the last GONE_S seconds."""
    now = datetime.now(UTC)
    machines = known(found, now)
    if machines:
        with st.expander(title([machine for machine in machines if is_alive(machine, now)]), key="library_machines"):
            shown, height = table(machines, now), page.table_height(len(machines))
            st.dataframe(shown, hide_index=True, key="machines", alt="Machines", height=height)


def known(found: Sequence[EngineRecord], now: datetime) -> list[EngineRecord]:
    """Machines to list, by host: those with a heartbeat, a current outage, and hosts without a heartbeat since."""
    shown = [machine for machine in found if is_alive(machine, now)]
    back = {machine.host for machine in shown if not machine.is_outage}
    lost = [m for m in sorted(found, key=lambda m: m.heartbeat_at) if m not in shown and not m.is_outage]
    shown += {machine.host: machine for machine in lost if machine.host not in back}.values()  # the latest of each
    return sorted(shown, key=lambda machine: (machine.host, machine.id))


def is_alive(machine: EngineRecord, now: datetime) -> bool:
    """Whether the last heartbeat is recent. One of the near future counts, since a clock may have been set back."""
    return abs(_silent_s(machine, now)) <= FRESH_S


def title(alive: Sequence[EngineRecord]) -> str:
    """``Machines: 3 with 12 CPUs and 2 GPUs, 5 runs in progress``."""
    alive = [machine for machine in alive if not machine.is_outage]
    if not alive:
        return "Machines: none"
    gpus = sum(machine.gpus for machine in alive)
    parts = [wording.plural(sum(machine.cpus for machine in alive), "CPU")]
    parts += [wording.plural(gpus, "GPU")] if gpus else []
    running = wording.plural(sum(machine.running for machine in alive), "run")
    return f"Machines: {len(alive)} with {wording.names(parts)}, {running} in progress"


def table(machines: Sequence[EngineRecord], now: datetime) -> pd.DataFrame:
    rows = [
        {
            "Host": machine.host,
            "Device": machine.device,
            "CPUs": machine.cpus,
            "GPUs": machine.gpus,
            "Slots": machine.slots if is_alive(machine, now) else 0,
            "Running": machine.running if is_alive(machine, now) else 0,
            "Last seen": f"{wording.duration(max(0.0, _silent_s(machine, now)))} ago",
            "State": _state(machine, now),
        }
        for machine in machines
    ]
    return pd.DataFrame(rows)


def _state(machine: EngineRecord, now: datetime) -> str:
    if not is_alive(machine, now):
        return "not responding"
    if machine.is_outage:
        return machine.problem
    if machine.problem:
        return f"gets no work: {machine.problem}"
    return "computing" if machine.running else "free"


def _silent_s(machine: EngineRecord, now: datetime) -> float:
    return (now - machine.heartbeat_at).total_seconds()
