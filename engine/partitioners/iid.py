"""IID: every client draws from the same distribution and gets the same number of samples.

Where the data come with test samples, every client gets the same number of training and of test samples.
"""

from dataclasses import dataclass

import numpy as np

from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, PartitionOptions, check_enough, share_evenly, split_clients


class IidOptions(PartitionOptions):
    def in_words(self) -> str:
        return "IID"


@PARTITIONERS.register(
    "iid",
    title="IID",
    paper="McMahan et al. Communication-Efficient Learning of Deep Networks from Decentralized "
    "Data. AISTATS 2017. https://arxiv.org/abs/1602.05629",
)
@dataclass(frozen=True)
class Iid:
    options: IidOptions

    def split(self, pool: Pool, rng: np.random.Generator) -> Partition:
        check_enough(pool, self.options)
        assigned = share_evenly(pool, np.arange(pool.y.size), self.options.num_clients, rng)
        return split_clients(assigned, pool, self.options, rng)
