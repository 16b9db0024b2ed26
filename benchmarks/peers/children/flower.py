"""Flower's rounds: its ``FedAvg`` in its simulation on Ray, one client at a time, which waits for its turn.

Only inside a network namespace (`known.py`): Ray listens on every interface.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.children.flower_client import JOB, train
from benchmarks.peers.children.networks import network
from benchmarks.peers.turns import Turns

NEVER = 1_000_000_000
SET = {  # of Flower and Ray
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # it kills its workers where other programs fill the memory
    "RAY_worker_niceness": "0",  # by default its workers yield to every other program
}
PATIENCE_S = 300  # for the replies of a round, when a worker of Ray has died


class Waits(FedAvg):
    """Each round begins with the choice of its clients."""

    turns: Turns

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Flower continues without clients that failed, which would be less work."""
        received = list(replies)
        if len(received) != self.turns.job.cohort or any(reply.has_error() for reply in received):
            print(f"{len(received)} replies:", *(reply.error for reply in received if reply.has_error()), flush=True)
            os._exit(1)  # from the server's thread
        aggregated: tuple[ArrayRecord | None, MetricRecord | None] = super().aggregate_train(server_round, received)
        return aggregated

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self.turns.next(arrays.to_numpy_ndarrays)
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages


def main() -> None:
    turns = Turns()
    torch.set_num_threads(1)
    job = turns.job
    os.environ |= {JOB: json.dumps(asdict(job)), **SET}
    server, client = ServerApp(), ClientApp()
    client.train()(train)

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        x, _ = job.load()
        strategy = Waits(
            fraction_train=(job.cohort + 0.5) / job.clients,  # it rounds down
            min_train_nodes=job.cohort,  # the fraction is of the clients that have connected: none yet, at the begin
            fraction_evaluate=0.0,
            min_available_nodes=job.clients,
        )
        strategy.turns = turns
        initial = network(job, tuple(x.shape[2:])).state_dict()
        strategy.start(grid, ArrayRecord(initial), num_rounds=NEVER, timeout=PATIENCE_S)

    own = {"address": "local", "_temp_dir": job.scratch, "num_cpus": 1}  # no cluster that others have started
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": own}
    run_simulation(server, client, num_supernodes=job.clients, backend_config=backend)


if __name__ == "__main__":
    main()
