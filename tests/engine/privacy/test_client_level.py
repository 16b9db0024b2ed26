"""One noisy mean: clipping, noise, the adaptive norm."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.privacy import Privacy
from engine.core.errors import Unsupported
from engine.privacy.client_level import client_level


def mechanism(num_clients=2, participation=1.0, rounds=5, is_sampling_known=True, makes_room=False, **options):
    known = {"is_sampling_known": is_sampling_known, "makes_room": makes_room}
    return client_level(Privacy(**options), 0, num_clients, participation, rounds, **known)


def updates(*rows) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_an_update_is_scaled_to_the_norm_and_a_zero_one_stays():
    found = mechanism(noise=0).release(updates((3.0, 4.0), (0.0, 0.0)), 1.0, 1)
    assert torch.allclose(found.update, torch.tensor([0.3, 0.4], dtype=torch.float64))
    assert found.values["privacy.clipped"] == 0.5 and found.values["privacy.signal_norm"] == pytest.approx(0.5)


def test_noise_has_the_standard_deviation_z_C_over_the_expected_participants():
    nothing = torch.zeros(1, 20_000, dtype=torch.float64)
    found = mechanism(100, 0.1, noise=1.0, clip=2.0).release(nothing, 2.0, 1)
    assert found.update.std() == pytest.approx(0.2, rel=0.02)
    many = mechanism(100, 0.1, noise=1.0, clip=2.0, population=1000).release(nothing, 2.0, 1)
    assert torch.allclose(many.update, found.update / 10)


def test_noise_differs_by_round_and_seed_and_repeats():
    one = mechanism(noise=1.0)
    drawn = [m.release(updates((0.0, 0.0)), 1.0, r).update for m, r in ((one, 1), (one, 2), (replace(one, seed=1), 1))]
    assert len({tuple(d.tolist()) for d in drawn}) == 3
    assert torch.equal(drawn[0], one.release(updates((0.0, 0.0)), 1.0, 1).update)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=2, max_size=6),
    st.floats(0.01, 10),
)
def test_taking_a_client_out_moves_the_mean_by_at_most_C_over_q_N(rows, clip):
    found = mechanism(10, 0.5, noise=0)
    whole = found.release(updates(*rows), clip, 1).update
    without = found.release(updates(*rows[1:]), clip, 1).update
    assert torch.linalg.vector_norm(whole - without) <= clip / 5 * (1 + 1e-9)


def test_an_adaptive_norm_approaches_the_median_of_the_norms():
    found, clip, seen = mechanism(4, clip="adaptive", noise=0, count_noise=1e-9), 0.1, {}
    rows = torch.diag(torch.tensor([0.5, 1.0, 1.5, 2.0], dtype=torch.float64))
    for t in range(51):
        seen[t] = round(clip, 4)
        clip = found.release(rows, clip, t).next_clip
    assert {t: seen[t] for t in (0, 10, 20, 30, 50)} == {0: 0.1, 10: 0.2718, 20: 0.636, 30: 1.0486, 50: 1.0486}


def test_too_few_clients_cannot_be_counted_privately():
    with pytest.raises(
        Unsupported, match=r"2 clients a round are too few to count privately.*fix clip, or lower noise"
    ):
        mechanism(2, clip="adaptive", noise=1.0)


def test_epsilon_is_that_of_all_clients_in_every_round_where_sampling_is_not_known():
    assert mechanism(20, 0.3, population=1000).epsilon(3) > mechanism(20, 0.3, population=1000, noise=2).epsilon(3)
    small, large = (mechanism(20, 0.3, population=n, delta=1e-3).epsilon(3) for n in (20, 1000))
    assert small == large  # at the same q, z and delta; the noise on the mean is less
    assert mechanism(20, 0.3, is_sampling_known=False).epsilon(3) == mechanism(20, 1.0).epsilon(3)


def test_a_client_that_makes_room_for_another_needs_twice_the_noise():
    alone = mechanism(20, 0.5, is_sampling_known=False, noise=2.0)
    assert mechanism(20, 0.5, is_sampling_known=False, makes_room=True, noise=4.0).epsilon(5) == alone.epsilon(5)
    found = mechanism(20, 0.5, is_sampling_known=False, makes_room=True, epsilon=8.0)
    assert found.noise == pytest.approx(2 * mechanism(20, epsilon=8.0).noise, abs=1e-3)


def test_one_client_has_a_delta_below_one():
    assert mechanism(1, noise=1.0).delta == mechanism(2, noise=1.0).delta < 1
    assert mechanism(1, noise=1.0).epsilon(3) > 0


def test_the_noise_of_the_count_is_that_of_the_population():
    options = {"clip": "adaptive", "noise": 1.0, "clip_lr": 1.0}
    found = mechanism(20, 0.5, population=100_000, **options)
    assert found.count_noise == 2500 and found.update_noise == pytest.approx(1.0)
    nobody, small = torch.zeros(0, 3, dtype=torch.float64), mechanism(20, 0.5, count_noise=2500, **options)
    moved, by_few = (math.log(m.release(nobody, 1.0, 1).next_clip) for m in (found, small))
    assert moved == pytest.approx(by_few / 5000)


@pytest.mark.slow
def test_the_noise_reaches_a_given_epsilon_at_the_end():
    found = mechanism(100, 0.3, 40, epsilon=8)
    assert found.noise == pytest.approx(0.9934, abs=1e-3) and found.epsilon(40) <= 8


@pytest.mark.parametrize(
    ("num_clients", "participation", "options"),
    [
        (10, 0.01, {"noise": 1.0}),
        (10, 0.16, {"noise": 1.0}),
        (15, 0.3, {"noise": 1.0}),
        (10, 1.0, {"epsilon": 8.0}),  # without subsampling; finding the noise for the others takes seconds
    ],
)
def test_a_fixed_number_of_a_population_has_its_noise_and_epsilon(num_clients, participation, options):
    nothing = torch.zeros(1, 50, dtype=torch.float64)
    found = mechanism(num_clients, participation, sampling="fixed", population=1000, **options)
    whole = mechanism(1000, participation, sampling="fixed", **options)
    assert (found.noise, found.epsilon(5)) == (whole.noise, whole.epsilon(5))
    assert torch.equal(found.release(nothing, 1.0, 1).update, whole.release(nothing, 1.0, 1).update)


@pytest.mark.parametrize(
    ("sampling", "expected", "options"), [("poisson", 1.6, {"epsilon": 8.0}), ("fixed", 2.0, {"noise": 1.0})]
)
def test_a_population_of_all_clients_changes_nothing(sampling, expected, options):
    some = updates((3.0, 4.0), (0.0, 1.0))
    plain = mechanism(10, 0.16, sampling=sampling, **options)
    same = mechanism(10, 0.16, sampling=sampling, population=10, **options)
    assert (same.noise, same.epsilon(5)) == (plain.noise, plain.epsilon(5)) and plain.expected == expected
    assert torch.equal(same.release(some, 1.0, 1).update, plain.release(some, 1.0, 1).update)


def test_a_population_below_the_number_of_clients_is_refused():
    with pytest.raises(Unsupported, match="population=5, but there are 20 clients"):
        mechanism(20, population=5)
