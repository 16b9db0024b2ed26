"""Random numbers, and with them cohorts, batches and initial models, are the same on every device."""

import pytest
import torch

from engine.core.devices import sent
from engine.core.streams import integers
from engine.federation.augmentation import CropFlip
from tests.support.builders import assert_equal
from tests.support.on_devices import reference, simulation

pytestmark = pytest.mark.slow


def test_known_numbers(device: str) -> None:
    assert integers(5, torch.tensor([0, 3], device=device), 2).tolist() == integers(5, torch.tensor([0, 3]), 2).tolist()
    assert integers(0, torch.tensor([0], device=device), 1).tolist() == [[0]]  # SplitMix64 maps 0 to 0


def test_cohorts_and_batches(device: str) -> None:
    found, expected = (run.task for run in (simulation("fedavg", "mlr", device), reference("fedavg", "mlr")))
    for number in (1, 2, 3):
        ours, theirs = found.cohort(number), expected.cohort(number)
        assert ours.clients.tolist() == list(ours.client_ids) == theirs.clients.tolist()
        assert ours.plan.rows.tolist() == theirs.plan.rows.tolist() and ours.plan.counts == theirs.plan.counts
        assert torch.equal(ours.weights.cpu(), theirs.weights)
        for a, b in zip(ours.plan.batches(found.data.train), theirs.plan.batches(expected.data.train), strict=True):
            assert torch.equal(a.x.cpu(), b.x) and torch.equal(a.y.cpu(), b.y) and a.counts == b.counts


def test_crops_and_flips(device: str) -> None:
    x = torch.arange(2 * 3 * 64.0).view(2, 3, 1, 8, 8)
    found, expected = (
        CropFlip(0, "batches", 1, torch.tensor([4, 2], device=d))(x.to(d), 3).cpu() for d in (device, "cpu")
    )
    assert torch.equal(found, expected) and not torch.equal(found, x)


def test_initial_models(device: str) -> None:
    for model in ("mlr", "cnn"):
        found, expected = simulation("fedavg", model, device), reference("fedavg", model)
        assert_equal({n: p.cpu() for n, p in found.task.initial_model().items()}, expected.task.initial_model())


def test_numbers_that_are_sent_arrive(device: str) -> None:
    found = sent((3, 1, 2), torch.device(device))
    assert found.device.type == device and found.dtype == torch.int64 and found.tolist() == [3, 1, 2]
    assert sent([0.5], torch.device(device), torch.float32).tolist() == [0.5]
