"""Streams, permutations and cohorts: named, reproducible and uniform."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.core.streams import cohort_of_round, key, numpy_stream, permutation_prefix, torch_stream


def test_streams_are_named_and_differ():
    assert key(0, "batches", 1) == key(0, "batches", 1) != key(0, "batches", 2)
    assert numpy_stream(1, "data").random() != numpy_stream(2, "data").random()
    assert torch_stream(1, "x").initial_seed() == key(1, "x")


def test_known_values_are_the_same_on_every_machine():
    drawn = permutation_prefix(12345, torch.tensor([0, 7]), torch.tensor([5, 3]), 5, 5)
    assert drawn[0].tolist() == [3, 2, 0, 4, 1] and drawn[1, :3].tolist() == [1, 0, 2]
    assert cohort_of_round(0, 1, 10, 0.5).tolist() == [0, 2, 4, 5, 7]
    assert key(0, "batches", 1) == 5609146539946556245


@given(st.integers(1, 60), st.integers(0, 2**62), st.integers(0, 1000))
def test_a_permutation_has_every_index_once(size, stream, client):
    drawn = permutation_prefix(stream, torch.tensor([client]), torch.tensor([size]), size, size)
    assert sorted(drawn[0].tolist()) == list(range(size))


def test_permutations_are_uniform():
    clients, sizes = torch.arange(400), torch.full((400,), 8)
    firsts = torch.cat([permutation_prefix(key(0, r), clients, sizes, 8, 1) for r in range(10)])
    counts = torch.bincount(firsts.flatten(), minlength=8)
    assert float(((counts - 500) ** 2 / 500).sum()) < 24.3  # chi-squared, 7 degrees of freedom, p = 0.001


def test_a_cohort_is_a_share_of_the_clients_and_changes_from_round_to_round():
    cohorts = [tuple(cohort_of_round(3, r, 20, 0.25)) for r in range(1, 30)]
    assert all(len(set(c)) == 5 for c in cohorts) and len(set(cohorts)) > 20
    assert len(cohort_of_round(3, 1, 20, 0.001)) == 1 and len(cohort_of_round(3, 1, 20, 1.0)) == 20
