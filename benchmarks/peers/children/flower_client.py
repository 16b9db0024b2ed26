"""A client of Flower, which has no local training of its own: a plain loop over tensors in memory.

A module of its own, since Ray's worker imports it, and then keeps data and network between its clients.
"""

import json
import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from torch import Tensor
from torch.nn import functional

from benchmarks.peers.children.networks import Network, network, tensors
from benchmarks.peers.turns import Job

JOB = "PEERS_JOB"  # in the environment of Ray's worker


@cache
def kept() -> tuple[Job, Network, Tensor, Tensor]:
    torch.set_num_threads(1)
    job = Job(**json.loads(os.environ[JOB]))
    x, y = tensors(job)
    return job, network(job, tuple(x.shape[2:])), x, y


def train(message: Message, context: Context) -> Message:
    """The received weights, an epoch, and the trained weights."""
    job, model, x, y = kept()
    client = int(context.node_config["partition-id"])
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), job.lr)
    for _ in range(job.local_epochs):
        for rows in torch.randperm(job.samples).split(job.batch_size):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[client, rows]), y[client, rows]).backward()
            optimizer.step()
    metrics = MetricRecord({"num-examples": job.samples})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
