"""PFLlib's rounds: its ``Server.train`` as it is, which waits for its turn at the begin of each round.

Only its evaluation is off: it evaluates in the first round and then every ``eval_gap``, and the first is not measured.
Its DNN and CNN apply log-softmax to the features of split models; it gets our networks instead, so that both compute
the same.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers.children.networks import Counter, network, weights
from benchmarks.peers.turns import Job, Turns

# Our names: its module and class, and whether main.py splits the model.
SERVERS = {
    "fedavg": ("serveravg", "FedAvg", True),
    "fedprox": ("serverprox", "FedProx", False),
    "scaffold": ("serverscaffold", "SCAFFOLD", False),
    "local_train": ("serverlocal", "Local", False),
    "ditto": ("serverditto", "Ditto", False),
    "apfl": ("serverapfl", "APFL", False),
    "pfedme": ("serverpFedMe", "pFedMe", False),
    "per_fedavg": ("serverperavg", "PerAvg", False),
    "fedper": ("serverper", "FedPer", True),
    "fedrep": ("serverrep", "FedRep", True),
    "fedbabu": ("serverbabu", "FedBABU", True),
    "fedrod": ("serverrod", "FedROD", True),
    "lg_fedavg": ("serverlg", "LG_FedAvg", True),
    "fedproto": ("serverproto", "FedProto", True),
    "fedphp": ("serverphp", "FedPHP", True),
    "gpfl": ("servergpfl", "GPFL", True),
}
DATASET = "MNIST"  # the name of its folder
TEST_SAMPLES = 2  # it evaluates once, in the first round
NEVER = 1_000_000_000


def options(job: Job) -> Namespace:
    """What main.py parses. λ, μ and the inner steps are those of our method."""
    ours = job.options
    return Namespace(
        algorithm=job.method,
        dataset=DATASET,
        device=job.device,
        num_classes=job.num_classes,
        num_clients=job.clients,
        join_ratio=(job.cohort + 0.5) / job.clients,  # it rounds down
        random_join_ratio=False,
        batch_size=job.batch_size,
        local_learning_rate=job.lr,
        local_epochs=job.local_epochs,
        learning_rate_decay=False,
        learning_rate_decay_gamma=1.0,
        global_rounds=NEVER,
        eval_gap=NEVER,
        few_shot=0,
        time_select=False,
        time_threthold=NEVER,
        goal="peers",
        save_folder_name=job.scratch,
        top_cnt=NEVER,
        auto_break=False,
        client_drop_rate=0.0,
        train_slow_rate=0.0,
        send_slow_rate=0.0,
        dlg_eval=False,
        dlg_gap=NEVER,
        batch_num_per_client=1,
        num_new_clients=0,
        fine_tuning_epoch_new=0,
        fine_tuning_epochs=0,
        feature_dim=128,
        lamda=ours.get("lam", 0.0),
        mu=ours.get("mu", ours.get("lam", 0.0)),  # Ditto's λ is its mu
        beta=1.0,  # pFedMe takes the mean
        alpha=ours.get("alpha", 0.5),
        K=ours.get("inner_steps", 1),
        p_learning_rate=ours.get("personal_lr", job.lr),
        plocal_epochs=job.local_epochs,
        server_learning_rate=1.0,
    )


def write_data(job: Job, folder: Path) -> tuple[int, ...]:
    """The files that its generators write, of the same layout, once for all methods. Returns the shape of an image."""
    x, y = job.load()
    for part, last in (("train", job.samples), ("test", TEST_SAMPLES)):
        if (folder / part).exists():
            continue
        (folder / part).mkdir(parents=True)
        for client in range(job.clients):
            features = x[client, :last].astype(np.float32) / 255
            with open(folder / part / f"{client}.npz", "wb") as file:
                np.savez_compressed(file, data={"x": features, "y": y[client, :last]})
    return tuple(x.shape[2:])


def server(job: Job) -> Any:
    """Its server, in a working folder that has the data where it looks for them."""
    root = Path(job.data).parent / "pfllib"
    shape = write_data(job, root / "dataset" / DATASET)
    (root / "system").mkdir(exist_ok=True)
    os.chdir(root / "system")
    sys.path.insert(0, str(Path(job.path) / "system"))
    if job.in_memory:
        data_utils = import_module("utils.data_utils")
        data_utils.read_client_data = cache(data_utils.read_client_data)  # before the clients import it
    module, name, is_split = SERVERS[job.method]
    given = options(job)
    given.model = network(job, shape)
    if is_split:
        head, given.model.fc = given.model.fc, nn.Identity()
        split = import_module("flcore.trainmodel.models").BaseHeadSplit
        given.model = split(given.model, head)
    return getattr(import_module(f"flcore.servers.{module}"), name)(given, 0)


def wait_for_turns(its: Any, turns: Turns, counter: Counter) -> None:
    """Each round of its loop begins with ``select_clients``; Local's has a second one."""
    select: Callable[[], list[Any]] = its.select_clients
    calls_per_round = 2 if turns.job.method == "local_train" else 1
    calls = 0

    def wait_and_select() -> list[Any]:
        nonlocal calls
        if calls % calls_per_round == 0:
            turns.next(lambda: weights(its.global_model))
            counter.begin()
        calls += 1
        return select()

    its.select_clients = wait_and_select


def main() -> None:
    turns = Turns()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as ours: float32 in convolutions, too
    its = server(turns.job)
    wait_for_turns(its, turns, Counter(turns))
    its.train()


if __name__ == "__main__":
    main()
