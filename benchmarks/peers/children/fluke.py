"""fluke's rounds: its ``run`` as it is, which waits for its turn when it chooses the clients. Everything in memory."""

import numpy as np
import torch
from fluke import DDict, FlukeENV
from fluke.algorithms import CentralizedFL
from fluke.algorithms.apfl import APFL
from fluke.algorithms.ditto import Ditto
from fluke.algorithms.pfedme import PFedMe, PFedMeOptimizer
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader

from benchmarks.peers.children.networks import Counter, network, tensors, weights
from benchmarks.peers.turns import Job, Turns

METHODS = {"fedavg": CentralizedFL, "ditto": Ditto, "pfedme": PFedMe, "apfl": APFL}
NEVER = 1_000_000_000


def algorithm(job: Job) -> CentralizedFL:
    x, y = tensors(job)

    def loader(client: int) -> FastDataLoader:
        return FastDataLoader(x[client], y[client], num_labels=job.num_classes, batch_size=job.batch_size, shuffle=True)

    data = DummyDataContainer([loader(i) for i in range(job.clients)], [None] * job.clients, None, job.num_classes)
    model = network(job, tuple(x.shape[2:]))
    client = {"batch_size": job.batch_size, "local_epochs": job.local_epochs, "loss": "CrossEntropyLoss"}
    optimizer = {"name": "SGD", "lr": job.lr}
    server = {"weighted": True}
    if job.method == "pfedme":
        options = job.options
        optimizer = {"name": PFedMeOptimizer, "lr": options["personal_lr"], "lamda": options["lam"]}
        client["k"], server["beta"] = options["inner_steps"], 1.0
    elif job.method == "ditto":
        client |= {"model": model, "tau": job.local_epochs, "lam": job.options["lam"]}
    elif job.method == "apfl":
        client |= {"model": model, "lam": 0.5}
        server["tau"] = 1
    client |= {"optimizer": DDict(optimizer), "scheduler": DDict(name="StepLR", step_size=1, gamma=1)}
    FlukeENV().set_seed(0)
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    given = DDict(client=DDict(client), server=DDict(server), model=model)
    return METHODS[job.method](job.clients, DataSplitter(data), given)


def main() -> None:
    turns = Turns()
    torch.set_num_threads(1)
    job = turns.job
    its = algorithm(job)
    counter, select = Counter(turns), its.server.get_eligible_clients

    def wait_and_select(share: float) -> list[object] | np.ndarray:
        turns.next(lambda: weights(its.server.model))
        counter.begin()
        return select(share)

    its.server.get_eligible_clients = wait_and_select
    its.run(NEVER, 1 if job.cohort == job.clients else (job.cohort + 0.5) / job.clients)  # it rounds down


if __name__ == "__main__":
    main()
