"""pfl-research's rounds: ``FederatedAveraging.run`` on its simulated backend, which waits for its turn in a callback.

Its users' data are tensors in memory, as in its benchmarks. It takes them in their order, without shuffling.
"""

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peers.children.networks import Counter, Network, network, tensors, weights
from benchmarks.peers.turns import Job, Turns

NEVER = 1_000_000_000


class Waits(TrainingProcessCallback):
    """Each round begins where the one before it ends."""

    def __init__(self, turns: Turns, counter: Counter, model: nn.Module) -> None:
        self._turns, self._counter, self._model = turns, counter, model

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self._wait()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self._wait()
        return False, Metrics()

    def _wait(self) -> None:
        self._turns.next(lambda: weights(self._model))
        self._counter.begin()


class WithLoss(Network):
    """What pfl-research asks of a network. It evaluates in the first round, which is not measured."""

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        return functional.cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Weighted]:
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def run(job: Job, turns: Turns) -> None:
    x, y = tensors(job)
    its_network = network(job, tuple(x.shape[2:]), WithLoss)
    users = list(range(job.clients))
    sampler = get_user_sampler("minimize_reuse", users)  # everybody once, where everybody takes part
    data = FederatedDataset(lambda user: Dataset((x[user], y[user])), sampler)
    backend = SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()])
    model = PyTorchModel(its_network, torch.optim.SGD, torch.optim.SGD(its_network.parameters(), 1.0))
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=NEVER,
            evaluation_frequency=NEVER,
            train_cohort_size=job.cohort,
            val_cohort_size=0,
        ),
        backend,
        model,
        NNTrainHyperParams(
            local_num_epochs=job.local_epochs, local_learning_rate=job.lr, local_batch_size=job.batch_size
        ),
        callbacks=[Waits(turns, Counter(turns), its_network)],
    )


def main() -> None:
    turns = Turns()
    torch.set_num_threads(1)
    run(turns.job, turns)


if __name__ == "__main__":
    main()
