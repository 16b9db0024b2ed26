"""Simulated devices: who is slow, who can be sampled, and what a tie changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.config.system import System
from engine.core.errors import Unsupported
from engine.core.streams import cohort_of_round
from engine.federation.clients import ClientData
from engine.federation.systems import systems_of
from tests.support.builders import federation

N = 40
DATA = federation(tuple(3 + i % 7 for i in range(N)))


def devices(seed=0, data=DATA, **options):
    return systems_of(System(**options), data, seed)


def test_without_a_spread_all_devices_are_the_median():
    found = devices(compute_s=0.0136, compute_spread=0, link_spread=0, up_mbit=8, down_mbit=40)
    everyone = np.arange(N)
    np.testing.assert_allclose(found.compute_s(everyone, np.full(N, 100.0)), 1.36)
    np.testing.assert_allclose(found.send_s(everyone, np.zeros(N), np.full(N, 31_400.0)), 0.0314)
    np.testing.assert_allclose(found.send_s(everyone, np.full(N, 31_400.0), np.zeros(N)), 0.00628)


def test_sending_takes_no_time_unless_a_rate_is_given():
    assert not devices(compute_s=1).send_s(np.arange(N), np.full(N, 1e9), np.full(N, 1e9)).any()


def test_speeds_and_links_are_log_normal_and_drawn_by_the_seed_alone():
    many = federation((2,) * 4000)
    found = devices(data=many, compute_s=1, compute_spread=0.6, link_spread=1.0)
    for values, spread in ((found.speed, 0.6), (found.link, 1.0)):
        assert np.log(values).mean() == pytest.approx(0, abs=0.05)
        assert np.log(values).std() == pytest.approx(spread, rel=0.05)
    assert abs(np.corrcoef(np.log(found.speed), np.log(found.link))[0, 1]) < 0.05
    again = devices(data=many, compute_s=5, drop_out=0.5, deadline_s=1)
    assert np.array_equal(again.speed, found.speed) and np.array_equal(again.link, found.link)
    assert not np.array_equal(devices(seed=1, data=many).speed, found.speed)


def test_a_full_tie_gives_the_quantiles_of_the_distribution_to_the_ranks():
    found = devices(tie="size", compute_spread=0.6)
    sizes = DATA.train.sizes.numpy()
    assert (np.diff(found.speed[np.argsort(sizes, kind="stable")]) < 0).all()  # more samples, slower
    log = np.sort(np.log(found.speed))
    np.testing.assert_allclose(log, -log[::-1], atol=1e-12)
    assert log[-1] == pytest.approx(0.6 * 2.2414, rel=1e-4)  # Phi^-1(1 - 1/80)


def test_clients_with_equal_values_are_ranked_by_their_numbers():
    assert (np.diff(devices(data=federation((3,) * 5), tie="size").speed) < 0).all()


def test_a_tie_without_strength_leaves_everything_to_chance():
    plain, tied = devices(availability=0.5), devices(availability=0.5, tie="labels", tie_strength=0)
    np.testing.assert_allclose(tied.speed, plain.speed)
    np.testing.assert_allclose(tied.available, 0.5)


def test_half_a_tie_mixes_rank_and_chance():
    plain, full = np.log(devices(tie_strength=0).speed), np.log(devices(tie="labels").speed)
    mixed = np.log(devices(tie="labels", tie_strength=0.6).speed)
    np.testing.assert_allclose(mixed, 0.6 * full + 0.8 * plain, atol=1e-12)


def test_a_tie_to_labels_uses_those_before_an_attack():
    train: ClientData = DATA.train
    poisoned = replace(DATA, train=replace(train, relabeled=2 - train.all_labels))
    assert np.array_equal(devices(tie="labels").speed, devices(tie="labels", data=poisoned).speed)
    means = [train.of_client(i)[1].double().mean() for i in range(N)]
    slowest_first = np.argsort(devices(tie="labels").speed)
    assert (np.diff(torch.stack(means).numpy()[slowest_first]) <= 0).all()


def test_a_tie_to_contexts_needs_contexts():
    with pytest.raises(Unsupported, match="tie: 'context', but these data have no contexts; use tie: labels"):
        devices(tie="context")
    contexts = np.arange(N) % 4
    found = devices(tie="context", data=replace(DATA, contexts=contexts))
    assert found.speed[contexts == 3].max() < found.speed[contexts == 0].min()


@pytest.mark.parametrize(("a", "ends"), [(0.5, (0.98, 0.02)), (0.8, (0.995, 0.605)), (1.0, (1.0, 1.0))])
def test_a_tie_moves_availability_around_its_mean(a, ends):
    found = devices(availability=a, tie="size").available[np.argsort(DATA.train.sizes.numpy(), kind="stable")]
    assert (found[0], found[-1]) == pytest.approx(ends)
    assert found.mean() == pytest.approx(a)


@pytest.mark.parametrize("a", [0.01, 0.02, 0.03, 0.3])
def test_a_tie_keeps_the_mean_of_a_small_availability_and_nobody_is_below_the_least(a):
    found = devices(availability=a, tie="size").available
    assert found.mean() == pytest.approx(a) and found.min() == pytest.approx(min(a, 0.02))
    assert devices(availability=a, tie="size", data=federation((3,))).available.tolist() == [pytest.approx(a)]


def test_availability_of_one_samples_as_without_devices():
    found = devices()
    for round in (1, 2):
        assert np.array_equal(found.sampled(round, 0.3), cohort_of_round(0, round, N, 0.3))


def test_only_available_clients_are_sampled():
    found = devices(availability=0.5)
    counts = [len(found.sampled(round, 1.0)) for round in range(200)]
    assert np.mean(counts) == pytest.approx(N / 2, rel=0.05)
    for round in range(20):
        assert set(found.sampled(round, 0.1)) <= set(found.sampled(round, 1.0))
        assert len(found.sampled(round, 0.1)) == 4


def test_one_client_is_drawn_where_none_is_available():
    drawn = [devices(data=federation((3, 3)), availability=0.01).sampled(round, 1.0) for round in range(50)]
    assert {len(found) for found in drawn} == {1} and {int(found[0]) for found in drawn} == {0, 1}


def test_nobody_is_drawn_on_its_own_where_none_is_available():
    found = devices(data=federation((3, 3)), availability=0.01)
    assert {len(found.sampled(round, 1.0, is_poisson=True)) for round in range(50)} == {0}


def test_over_selection_samples_more_clients_and_keeps_as_many():
    found = devices(over_select=1.5)
    assert len(found.sampled(1, 0.1)) == 6 and found.kept(6, 6, 0.1) == 4
    assert len(found.sampled(1, 0.9)) == N and found.kept(N, N, 0.9) == 36
    assert found.kept(N, 6, 0.1) == N  # a method that asks everyone
    assert found.kept(3, 3, 0.1) == 3  # fewer are available


def test_over_selection_keeps_as_many_where_each_client_is_drawn_on_its_own():
    found = devices(over_select=1.5)
    drawn = [len(found.sampled(round, 0.1, is_poisson=True)) for round in range(50)]
    assert min(drawn) < 4 and max(drawn) > 6
    assert [found.kept(count, count, 0.1) for count in drawn] == [min(4, count) for count in drawn]
    assert devices().kept(9, 9, 0.1) == 9  # nobody is over-selected
