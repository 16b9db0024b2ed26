"""Privacy of samples: epsilon of each client, by its batches and the releases from them."""

import numpy as np
import pytest

from engine.config.privacy import Privacy
from engine.core.errors import Unsupported
from engine.privacy.accounting import epsilon
from engine.privacy.samples import ReleaseCounts, Releases, SampleLevel, sample_level

SIZES = np.array([50, 100, 250, 500, 1000])


def level(sizes=SIZES, batch_size=25, **options) -> SampleLevel:
    return sample_level(Privacy(unit="sample", **options), 0, np.asarray(sizes), batch_size)


def counts(batches: int, most: int = 1, clients: int = len(SIZES)) -> ReleaseCounts:
    return ReleaseCounts(np.full(clients, batches), np.full(clients, most))


@pytest.mark.parametrize(
    ("noise", "expected"), [(1.0, [85.9, 36.0, 12.4, 5.8, 2.8]), (2.0, [28.8, 12.2, 4.2, 1.9, 0.9])]
)
@pytest.mark.slow
def test_epsilon_of_300_steps_falls_with_the_samples_of_a_client(noise, expected):
    assert level(noise=noise, delta=1e-5).epsilon(counts(300)).tolist() == pytest.approx(expected, abs=0.06)


def test_delta_is_by_default_that_of_the_clients_samples():
    assert level().delta.tolist() == pytest.approx([m**-1.1 for m in SIZES])
    assert level([1, 4], delta=0.01).delta.tolist() == [0.01, 0.01]


def test_a_batch_takes_all_samples_of_a_small_client():
    assert level([10, 25, 100]).rate.tolist() == [1, 1, 0.25]


def test_releases_from_one_batch_cost_more_than_from_as_many_batches():
    one = level([100], noise=2.0, delta=1e-3)
    shared, apart = one.epsilon(counts(10, 4, 1))[0], one.epsilon(counts(40, 1, 1))[0]
    assert shared > apart
    assert shared == epsilon(0.25, 1.0, 10, 1e-3)  # together a Gaussian with z / sqrt(4)
    full = level([25], noise=2.0, delta=1e-3)  # where nothing is sampled, both are the same
    assert full.epsilon(counts(10, 4, 1))[0] == pytest.approx(full.epsilon(counts(40, 1, 1))[0], abs=5e-3)


def test_nothing_released_costs_nothing_and_no_noise_costs_everything():
    assert level().epsilon(ReleaseCounts.zero(5)).tolist() == [0] * 5
    assert level(noise=0).epsilon(counts(1)).tolist() == [np.inf] * 5


@pytest.mark.slow
def test_noise_for_an_epsilon_is_larger_for_smaller_clients():
    planned = ReleaseCounts(np.array([30, 30, 0]), np.array([1, 1, 0]))
    found = level([50, 500, 500], epsilon=4.0, delta=1e-3).calibrated(planned)
    assert found.noise[0] > found.noise[1] > found.noise[2] == 0
    reached = found.epsilon(planned)
    assert reached[:2] == pytest.approx([4, 4], abs=0.01) and (reached <= 4).all() and reached[2] == 0


def test_an_epsilon_that_no_noise_reaches_is_refused():
    with pytest.raises(Unsupported, match=r"privacy.epsilon=1e-09: no noise .* give a larger epsilon or delta"):
        level([25], epsilon=1e-9, delta=1e-12).calibrated(counts(10, 1, 1))


def test_a_round_counts_batches_once_and_remembers_the_most_releases_of_one():
    made = Releases(0, 1, np.ones(4))
    for step, clients in enumerate([(2, 0), (2, 0), (2,)]):
        made.count(clients, "batches", 1, step)
    made.count((2, 0), "batches", 1, 0)  # a second model on the first batch
    made.count((2,), "head", 1, 0)
    total = made.after(ReleaseCounts(np.array([5, 1, 1, 0]), np.array([1, 3, 1, 0])))
    assert total.batches.tolist() == [7, 1, 5, 0] and total.most.tolist() == [2, 3, 2, 0]
    assert ReleaseCounts.from_dict(total.to_dict()).to_dict() == total.to_dict()


def test_each_release_of_a_client_has_a_number_of_its_own():
    made = Releases(0, 1, np.ones(4))
    numbers = [made.count(clients, "batches", 1, 0).tolist() for clients in [(3, 1), (1, 1), (3,)]]
    assert len({n for found in numbers for n in found}) == 5
