"""The sample counts of a federation."""

import torch

from tests.support.builders import federation


def test_class_counts_only_cover_training_samples():
    data = federation()
    for i, counts in enumerate(data.class_counts):
        assert counts.tolist() == torch.bincount(data.train.of_client(i)[1], minlength=3).tolist()
