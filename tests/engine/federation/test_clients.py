"""The counts that a federation keeps of its clients' samples."""

import torch

from tests.support.builders import federation


def test_class_counts_are_of_training_samples_alone():
    data = federation()
    for i, counts in enumerate(data.class_counts):
        assert counts.tolist() == torch.bincount(data.train.of_client(i)[1], minlength=3).tolist()
