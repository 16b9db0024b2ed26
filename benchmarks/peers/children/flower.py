"""Flower's rounds: its ``FedAvg`` in its simulation on Ray, one client at a time, which waits for its turn.

Only inside a network namespace (`known.py`): Ray listens on every interface.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from benchmarks.peers.children.flower_client import JOB, train
from benchmarks.peers.children.networks import network
from benchmarks.peers.turns import Turns

NEVER = 1_000_000_000


class Waits(FedAvg):
    """Each round begins with the choice of its clients."""

    turns: Turns

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
    os.environ |= {JOB: json.dumps(asdict(job)), "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    server, client = ServerApp(), ClientApp()
    client.train()(train)

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        x, _ = job.load()
        strategy = Waits(
            fraction_train=(job.cohort + 0.5) / job.clients,  # it rounds down
            fraction_evaluate=0.0,
            min_available_nodes=job.clients,
        )
        strategy.turns = turns
        initial = network(job, tuple(x.shape[2:])).state_dict()
        strategy.start(grid, ArrayRecord(initial), num_rounds=NEVER)

    one = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=job.clients, backend_config=one)


if __name__ == "__main__":
    main()
