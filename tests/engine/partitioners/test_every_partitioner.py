"""The contract of every partitioner, and the meaning of each one."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.core.errors import ImpossiblePartition
from engine.core.registry import PARTITIONERS
from engine.datasets import Pool
from engine.partitioners import Partition, PartitionOptions, share_out, smallest_client, summarize
from engine.partitioners.classes_per_client import ClassesPerClientOptions, class_sets


def pool_of(num_samples: int, num_classes: int = 10, **given: Any) -> Pool:
    """Classes as even as possible; the feature of sample i is i."""
    y = np.arange(num_samples, dtype=np.int64) % num_classes
    return Pool(np.arange(num_samples, dtype=np.float64)[:, None], y, num_classes, **given)


def split(name: str, pool: Pool, seed: int = 0, **options: Any) -> Partition:
    entry = PARTITIONERS.get(name)
    return entry.make(entry.options(**options)).split(pool, np.random.default_rng(seed))


def class_counts(name: str, pool: Pool, seed: int = 0, **options: Any) -> np.ndarray:
    return np.array(summarize(pool, split(name, pool, seed, **options)).class_counts)


def used(partition: Partition) -> np.ndarray:
    return np.concatenate([*partition.train, *partition.val, *partition.test])


SETTINGS = [
    ("iid", {}),
    ("classes_per_client", {"classes_per_client": 3}),
    ("classes_per_client", {"classes_per_client": 2, "assignment": "cyclic", "sizes": [10, 90]}),
    ("dirichlet", {"alpha": 0.5}),
    ("quantity_skew", {"strength": 2.0}),
    ("quantity_skew", {"law": "power"}),
    ("contexts", {"num_contexts": 2}),
    ("contexts", {"num_contexts": 2, "alpha": 0.5}),
    ("feature_shift", {"kind": "noise", "num_groups": 2}),
]
NAMED = {name for name, _ in SETTINGS}
SETTINGS += [
    (e.name, {})
    for e in PARTITIONERS
    if e.name not in NAMED and issubclass(e.options, PartitionOptions) and not hasattr(e.make, "repeats_samples")
]


@pytest.mark.parametrize(("name", "options"), SETTINGS)
@given(
    num_clients=st.integers(2, 12),
    num_samples=st.integers(400, 900),
    seed=st.integers(0, 2**32),
    test_fraction=st.floats(0, 0.5),
    val_fraction=st.floats(0, 0.4),
    min_samples=st.integers(1, 4),
)
def test_no_sample_is_used_twice_and_every_client_can_train(name, options, num_clients, num_samples, seed, **shares):
    pool = pool_of(num_samples)
    partition = split(name, pool, seed, num_clients=num_clients, **shares, **options)
    indices = used(partition)
    assert len(partition.train) == len(partition.val) == len(partition.test) == num_clients
    assert len(np.unique(indices)) == len(indices) <= num_samples
    assert indices.min() >= 0
    assert indices.max() < num_samples
    assert min(len(part) for part in partition.train) >= shares["min_samples"]


@pytest.mark.parametrize(("name", "options"), SETTINGS)
@given(seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_partition(name, options, seed):
    first, again = (split(name, pool_of(300), seed, num_clients=5, **options) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first.train + first.test, again.train + again.test, strict=True))


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_another_seed_gives_another_partition(name, options):
    first, other = (split(name, pool_of(300), seed, num_clients=5, **options) for seed in (0, 1))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first.train, other.train, strict=True))


@pytest.mark.parametrize("name", PARTITIONERS.names())
def test_every_partitioner_describes_all_its_options(name):
    assert all(parameter.description for parameter in PARTITIONERS.get(name).parameters)


@pytest.mark.parametrize("name", sorted({name for name, _ in SETTINGS}))
def test_more_clients_than_samples_are_refused(name):
    with pytest.raises(ImpossiblePartition, match=r"num_clients=30 .* 40 available samples"):
        split(name, pool_of(40), num_clients=30)


def test_a_partition_is_the_same_on_any_machine():
    partition = split("classes_per_client", pool_of(60), seed=7, num_clients=3, classes_per_client=2)
    assert [part.tolist() for part in partition.test] == [[0, 28, 40], [14, 52, 54], [37, 47, 56]]


# The split within a client


def test_a_quarter_of_each_client_is_for_testing():
    summary = summarize(pool_of(80), split("iid", pool_of(80), num_clients=4))
    assert summary.train_sizes == (15, 15, 15, 15)
    assert summary.test_sizes == (5, 5, 5, 5)
    assert summary.val_sizes == (0, 0, 0, 0)


def test_validation_samples_are_a_share_of_all_samples():
    summary = summarize(pool_of(80), split("iid", pool_of(80), num_clients=4, val_fraction=0.1))
    assert (summary.train_sizes[0], summary.val_sizes[0], summary.test_sizes[0]) == (13, 2, 5)


def test_a_tiny_client_uses_its_samples_for_training():
    summary = summarize(pool_of(6), split("iid", pool_of(6), num_clients=3, test_fraction=0.5))
    assert summary.train_sizes == (2, 2, 2)
    assert summary.test_sizes == (0, 0, 0)


def test_a_split_that_comes_with_the_data_is_used():
    pool = pool_of(40, client=np.arange(40) // 20, split=(np.arange(40) % 4 == 0).astype(np.int64))
    partition = split("natural", pool, test_fraction=0.75)
    assert partition.test[1].tolist() == [20, 24, 28, 32, 36]
    assert "test_fraction" in partition.notes[0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("iid", {}),
        ("feature_shift", {"kind": "noise", "num_groups": 2}),
        ("contexts", {"num_contexts": 2, "classes_per_context": 5}),
        ("quantity_skew", {"strength": 0.0}),
    ],
)
def test_training_and_test_samples_that_come_with_the_data_are_dealt_separately(name, options):
    pool = pool_of(400, split=(np.arange(400) // 10 % 10 == 0).astype(np.int64))
    partition = split(name, pool, num_clients=4, **options)
    assert [len(part) for part in partition.train] == [90] * 4
    assert [len(part) for part in partition.test] == [10] * 4


def test_sizes_are_skewed_alike_for_training_and_test_samples():
    pool = pool_of(4000, split=(np.arange(4000) // 10 % 2).astype(np.int64))
    partition = split("quantity_skew", pool, num_clients=5, law="power")
    train, test = ([len(part) for part in parts] for parts in (partition.train, partition.test))
    assert sum(train) == sum(test) == 2000 and max(train) > 4 * min(train)
    assert np.allclose(train, test, atol=3)


@pytest.mark.parametrize("name", sorted({name for name, _ in SETTINGS}))
def test_only_training_samples_count_as_enough_for_all_clients(name):
    pool = pool_of(90, split=(np.arange(90) >= 40).astype(np.int64))
    with pytest.raises(ImpossiblePartition, match=r"exceeds the 40 available training samples; lower .* to 20 or less"):
        split(name, pool, num_clients=30)


def test_clients_without_test_samples_of_the_data_are_noted():
    pool = pool_of(40, split=(np.arange(40) < 3).astype(np.int64))
    for share in (0.0, 0.25):
        assert split("iid", pool, num_clients=5, test_fraction=share).notes[1:] == (
            "2 of 5 clients have no test samples",
        )


@pytest.mark.parametrize("name", [name for name in PARTITIONERS.names() if name != "natural"])
def test_every_partitioner_notes_which_of_overlapping_samples_are_drawn_at_random(name):
    options = {"num_contexts": 2, "classes_per_context": 5} if name == "contexts" else {}
    options |= {"kind": "noise"} if name == "feature_shift" else {}

    def noted(val: float, test: float, **given: Any) -> str:
        pool = pool_of(400, **{"overlap": "windows overlap", **given})
        return "; ".join(split(name, pool, num_clients=4, val_fraction=val, test_fraction=test, **options).notes)

    assert "windows overlap, and test samples are drawn at random, so they share parts with" in noted(0, 0.25)
    assert "and validation and test samples are drawn" in noted(0.25, 0.25)
    given = (np.arange(400) // 10 % 10 == 0).astype(np.int64)
    assert "and validation samples are drawn" in noted(0.25, 0.25, split=given)
    for none in (noted(0, 0), noted(0, 0.25, split=given), noted(0.25, 0.25, overlap="")):
        assert "drawn at random" not in none


def test_shares_that_leave_no_training_samples_are_refused():
    with pytest.raises(ValidationError, match="leave no samples"):
        PARTITIONERS.get("iid").options(test_fraction=0.5, val_fraction=0.5)


def test_class_counts_sum_to_all_samples_of_a_client():
    summary = summarize(pool_of(200), split("dirichlet", pool_of(200), num_clients=4, val_fraction=0.2))
    sizes = np.add(np.add(summary.train_sizes, summary.val_sizes), summary.test_sizes)
    assert np.sum(summary.class_counts, axis=1).tolist() == sizes.tolist()


# Classes per client


@given(
    num_clients=st.integers(1, 40),
    per_client=st.integers(1, 10),
    seed=st.integers(0, 2**32),
    assignment=st.sampled_from(["random", "cyclic"]),
    sizes=st.sampled_from(["equal", [10, 10], [10, 400]]),
)
def test_every_client_has_exactly_its_number_of_classes(num_clients, per_client, seed, assignment, sizes):
    counts = class_counts(
        "classes_per_client",
        pool_of(1000),
        seed,
        num_clients=num_clients,
        classes_per_client=per_client,
        assignment=assignment,
        sizes=sizes,
    )
    assert ((counts > 0).sum(axis=1) == per_client).all()
    assert (counts.sum(axis=0) <= 100).all()


def test_cyclic_client_i_has_consecutive_classes_from_i():
    partition = split("classes_per_client", pool_of(400), num_clients=12, assignment="cyclic")
    counts = np.array(summarize(pool_of(400), partition).class_counts)
    assert np.flatnonzero(counts[3]).tolist() == [3, 4, 5]
    assert np.flatnonzero(counts[9]).tolist() == [0, 1, 9]
    assert partition.contexts.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_random_class_sets_are_contexts_only_if_one_repeats():
    apart = split("classes_per_client", pool_of(400), num_clients=5, classes_per_client=2)
    alike = split("classes_per_client", pool_of(400), num_clients=3, classes_per_client=10)
    assert apart.contexts is None  # ten classes, each drawn once
    assert alike.contexts.tolist() == [0, 0, 0]


def test_random_class_sets_use_all_classes_equally_often():
    counts = class_counts("classes_per_client", pool_of(1000), num_clients=20, classes_per_client=3)
    assert ((counts > 0).sum(axis=0) == 6).all()


def test_class_sets_of_many_clients_are_drawn_from_a_running_count():
    options = ClassesPerClientOptions(num_clients=50, classes_per_client=3)
    holds = class_sets(options, 7, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    for client, row in enumerate(holds):
        order = rng.permutation(7)
        fewest = sorted(order, key=holds[:client].sum(axis=0).__getitem__)[:3]  # stable
        assert sorted(fewest) == np.flatnonzero(row).tolist()
    started = time.process_time()
    class_sets(ClassesPerClientOptions(num_clients=30_000), 10, np.random.default_rng(0))
    assert time.process_time() - started < 5  # sums over all earlier clients take 20 s


def test_equal_sizes_are_the_largest_that_the_rarest_class_allows():
    y = np.repeat([0, 1], [100, 40])
    pool = Pool(np.zeros((140, 1)), y, 2)
    assert class_counts("classes_per_client", pool, num_clients=4, classes_per_client=2).tolist() == [[10, 10]] * 4


def test_sizes_that_fit_the_pool_are_used_as_drawn():
    partition = split("classes_per_client", pool_of(1000), num_clients=3, sizes=[20, 50])
    counts = np.array(summarize(pool_of(1000), partition).class_counts)
    assert partition.notes == ()
    assert 20 <= counts.sum(axis=1).min() <= counts.sum(axis=1).max() <= 50
    assert np.ptp([row[row > 0] for row in counts], axis=1).max() <= 1  # even shares


def test_sizes_beyond_the_pool_are_scaled_down_with_a_note():
    wide = {"num_clients": 40, "assignment": "cyclic", "sizes": [400, 5000]}
    partition = split("classes_per_client", pool_of(10_000), **wide)
    sizes = np.array([len(part) for part in partition.train]) + [len(part) for part in partition.test]
    assert 9_900 < sizes.sum() <= 10_000
    assert sizes.max() > 5 * sizes.min()
    assert "scaled down" in partition.notes[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes_per_client": 11}, "classes_per_client=11 .* 10 classes"),
        (
            {"num_clients": 15, "classes_per_client": 10, "assignment": "cyclic"},
            "class 0 has 4 samples for the 15 clients",
        ),
    ],
)
def test_impossible_class_sets_are_refused(options, words):
    with pytest.raises(ImpossiblePartition, match=words):
        split("classes_per_client", pool_of(40), **{"num_clients": 4, **options})


@pytest.mark.parametrize("sizes", [[2, 10], [10, 5]])
def test_sizes_below_the_number_of_classes_are_refused(sizes):
    with pytest.raises(ValidationError, match="classes_per_client=3 <= lo <= hi"):
        PARTITIONERS.get("classes_per_client").options(sizes=sizes)


# The others


def test_dirichlet_is_iid_for_large_alpha_and_skewed_for_small():
    even = class_counts("dirichlet", pool_of(5000), num_clients=5, alpha=1e5)
    skewed = class_counts("dirichlet", pool_of(5000), num_clients=5, alpha=0.05)
    assert (abs(even - 100) < 5).all()
    assert (skewed == 0).any()
    assert even.sum() == skewed.sum() == 5000


def test_dirichlet_gives_up_with_advice():
    with pytest.raises(ImpossiblePartition, match=r"alpha=0\.01 .* raise alpha, or lower num_clients=50"):
        split("dirichlet", pool_of(200), num_clients=50, alpha=0.01)


def test_quantity_skew_uses_everything_and_is_even_at_strength_zero():
    even = class_counts("quantity_skew", pool_of(1000), num_clients=4, strength=0.0).sum(axis=1)
    skewed = class_counts("quantity_skew", pool_of(1000), num_clients=4, law="power", strength=1.0).sum(axis=1)
    assert even.tolist() == [250] * 4
    assert skewed.sum() == 1000
    assert sorted(skewed)[-1] == pytest.approx(2 * sorted(skewed)[-2], abs=3)  # ranks 1 and 2


@pytest.mark.parametrize("law", ["lognormal", "power"])
def test_quantity_skew_of_strength_zero_gives_equal_sizes_up_to_one_sample(law):
    options = {"law": law, "strength": 0.0, "test_fraction": 0.0}
    for samples, clients, sizes in ((120, 10, [12] * 10), (14, 4, [3, 4, 3, 4])):
        partition = split("quantity_skew", pool_of(samples), num_clients=clients, **options)
        assert [len(part) for part in partition.train] == sizes


def test_sizes_of_quantity_skew_are_those_of_stored_runs():
    for law, sizes in (("lognormal", [14, 11, 23, 14, 8, 19]), ("power", [10, 12, 8, 8, 34, 19])):
        partition = split("quantity_skew", pool_of(120), num_clients=6, law=law)
        assert [len(part) for part in partition.train] == sizes


def test_natural_clients_keep_their_samples_and_contexts():
    pool = pool_of(40, client=np.arange(40) % 2, contexts=np.array([1, 0]))
    partition = split("natural", pool)
    assert sorted([*partition.train[1], *partition.test[1]]) == list(range(1, 40, 2))
    assert partition.contexts.tolist() == [1, 0]


def test_natural_needs_clients():
    with pytest.raises(ImpossiblePartition, match="unlike this; use iid"):
        split("natural", pool_of(40))


def test_a_natural_client_with_a_single_sample_is_refused():
    with pytest.raises(ImpossiblePartition, match="client 1 keeps 1 of 1 samples for training"):
        split("natural", pool_of(10, client=np.array([0] * 9 + [1])))


def test_clients_of_a_context_share_their_classes_and_contexts_differ():
    partition = split("contexts", pool_of(4000), num_clients=8, num_contexts=4, classes_per_context=3)
    holds = np.array(summarize(pool_of(4000), partition).class_counts) > 0
    assert partition.contexts.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (holds.sum(axis=1) == 3).all()
    assert (holds[:4] == holds[4:]).all()
    assert len(np.unique(holds, axis=0)) == 4


def test_classes_in_no_context_are_named_with_the_number_of_their_samples():
    pool = pool_of(405, class_names=tuple("abcdefghij"))
    options = {"num_contexts": 2, "classes_per_context": 3}  # classes 0 to 2 and 5 to 7
    (note,) = split("contexts", pool, num_clients=4, **options).notes
    assert note == (
        "classes in no context, whose 162 of 405 samples are not used: d, e, i, j; raise num_contexts or "
        "classes_per_context to use them"
    )
    (long,) = split("contexts", pool_of(400, num_classes=40), num_clients=4, **options).notes
    assert "340 of 400 samples are not used: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 24 more; raise" in long
    for whole in ({}, {"num_contexts": 2, "alpha": 0.5}, {"num_contexts": 2, "classes_per_context": 5}):
        assert split("contexts", pool, num_clients=4, **whole).notes == ()


@pytest.mark.parametrize("options", [{"classes_per_context": 10}, {"num_contexts": 12}])
def test_contexts_with_equal_classes_are_refused(options):
    with pytest.raises(ImpossiblePartition, match="cannot give distinct contexts"):
        split("contexts", pool_of(400), num_clients=12, **options)


@pytest.mark.parametrize(
    "options", [{"classes_per_context": 3, "alpha": 0.5}, {"classes_per_context": None}, {"num_contexts": 30}]
)
def test_ambiguous_context_options_are_refused(options):
    with pytest.raises(ValidationError, match=r"exactly one|num_clients"):
        PARTITIONERS.get("contexts").options(**options)


def test_alpha_replaces_the_classes_of_a_context():
    assert PARTITIONERS.get("contexts").options(alpha=0.5).classes_per_context is None


def test_samples_that_no_client_holds_stay_unused():
    owners = share_out([np.arange(6), np.arange(6, 12)], np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    assert [owned.tolist() for owned in owners] == [[0, 1, 2], [3, 4, 5], []]


def test_the_smallest_client_counts_its_training_samples():
    pool = pool_of(6, split=np.array([0, 0, 0, 1, 1, 1]))
    assert smallest_client([np.array([0, 1]), np.array([2, 3, 4, 5])], pool) == (1, 1)
