"""Aggregators on numbers whose result is known, and what all of them have in common."""

from math import inf

import pytest
import torch

from engine.aggregators import squared_distances
from engine.core.registry import AGGREGATORS

SCALARS = [[0.0], [0.1], [0.25], [0.5], [10.0]]


def rule(name: str, **options):
    entry = AGGREGATORS.get(name)
    return entry.make(entry.options(**options)) if entry.parameters else entry.make()


def combined(name: str, rows, weights=None, num_malicious: int = 0, **options):
    """The update, and the share of each row in it."""
    delta = torch.tensor(rows, dtype=torch.float64)
    uniform = torch.full((len(delta),), 1 / len(delta), dtype=torch.float64)
    given = uniform if weights is None else torch.tensor(weights, dtype=torch.float64)
    found = rule(name, **options).combine(delta, given, num_malicious)
    return found.weight @ delta if found.delta is None else found.delta, found


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("mean", {}, 2.17),
        ("median", {}, 0.25),
        ("trimmed_mean", {"trim": 0.2}, 0.283333333333),
        ("krum", {"f": 1}, 0.1),
        ("multi_krum", {"f": 1}, 0.2125),
    ],
)
def test_five_numbers_with_an_outlier(name, options, expected):
    assert combined(name, SCALARS, **options)[0].item() == pytest.approx(expected)


def test_the_geometric_median_of_numbers_is_their_median():
    assert combined("geometric_median", SCALARS)[0].item() == pytest.approx(0.25, abs=1e-5)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [(3 - 3**0.5) / 6] * 2),
        ([[0.0, 0.0], [2.0, 0.0], [3.0, 3.0], [0.0, 2.0]], [1.0, 1.0]),
        ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], [4.0, 5.0, 6.0]),
    ],
)
def test_geometric_medians_of_points(points, expected):
    assert combined("geometric_median", points)[0].tolist() == pytest.approx(expected, abs=1e-4)


def test_scores_of_krum_are_sums_of_squared_distances_to_the_nearest():
    distances = squared_distances(torch.tensor(SCALARS))
    nearest = distances.sort(dim=1).values[:, 1:3].sum(1)
    assert nearest.tolist() == pytest.approx([0.0725, 0.0325, 0.085, 0.2225, 185.3125], rel=1e-4)


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two():
    update, found = combined("median", [[1.0, 4.0], [2.0, 3.0], [3.0, 2.0], [9.0, 1.0]])
    assert update.tolist() == [2.5, 2.5] and found.weight.tolist() == [0.0, 0.5, 0.5, 0.0]


def test_norm_clipping_shortens_long_updates_to_the_median_norm():
    update, found = combined("norm_clip", [[3.0, 4.0], [0.0, 1.0], [0.0, 10.0]])
    assert update.tolist() == pytest.approx([1.0, 10 / 3])
    assert found.weight.tolist() == pytest.approx([0.4, 0.4, 0.2])
    assert combined("norm_clip", [[3.0, 4.0], [0.0, 0.0]], at=1.0)[0].tolist() == pytest.approx([0.3, 0.4])


@pytest.mark.parametrize("name", AGGREGATORS.names())
def test_of_identical_updates_every_rule_is_the_mean(name):
    update, _ = combined(name, [[0.5, -2.0, 3.0]] * 7, num_malicious=1)
    assert update.tolist() == pytest.approx([0.5, -2.0, 3.0])


@pytest.mark.parametrize(
    ("name", "options"),
    [("trimmed_mean", {"trim": 0.0}), ("multi_krum", {"f": 0, "keep": 6}), ("norm_clip", {"at": 1e6}), ("mean", {})],
)
def test_rules_that_leave_nothing_out_are_the_mean(name, options):
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    update, found = combined(name, rows.tolist(), **options)
    torch.testing.assert_close(update, rows.mean(0))
    torch.testing.assert_close(found.weight, torch.full((6,), 1 / 6, dtype=torch.float64))


@pytest.mark.parametrize("name", AGGREGATORS.names())
def test_the_order_of_the_clients_does_not_matter(name):
    stream = torch.Generator().manual_seed(2)
    rows = torch.randn(9, 5, generator=stream, dtype=torch.float64)
    weights = torch.rand(9, generator=stream, dtype=torch.float64)
    weights /= weights.sum()
    order = torch.randperm(9, generator=stream)
    one, found = combined(name, rows.tolist(), weights.tolist(), num_malicious=2)
    other, moved = combined(name, rows[order].tolist(), weights[order].tolist(), num_malicious=2)
    torch.testing.assert_close(other, one)
    torch.testing.assert_close(moved.weight, found.weight[order])
    assert found.weight.sum().item() == pytest.approx(1)


def test_the_objective_of_a_geometric_median_is_never_above_that_of_the_mean():
    stream = torch.Generator().manual_seed(3)
    for _ in range(20):
        rows = torch.randn(8, 3, generator=stream, dtype=torch.float64).exp()
        point, _ = combined("geometric_median", rows.tolist())
        assert (rows - point).norm(dim=1).sum() <= (rows - rows.mean(0)).norm(dim=1).sum() + 1e-12


@pytest.mark.parametrize("name", ["krum", "multi_krum"])
def test_too_few_updates_for_krum_take_the_mean(name):
    update, found = combined(name, [[0.0], [1.0], [5.0], [6.0]], weights=[0.1, 0.2, 0.3, 0.4], f=1)
    assert found.fell_back and update.item() == pytest.approx(4.1)


@pytest.mark.parametrize(
    ("name", "options", "needed"),
    [
        ("trimmed_mean", {"trim": 0.3}, 4),
        ("median", {}, 3),
        ("krum", {"f": 1}, 5),
        ("multi_krum", {"keep": 5}, 6),
        ("norm_clip", {}, 2),
    ],
)
def test_a_rule_falls_back_exactly_where_fewer_uploads_arrive_than_it_needs(name, options, needed):
    assert rule(name, **options).needs(0) == needed
    fell_back = {count: combined(name, [[2.0**i] for i in range(count)], **options)[1].fell_back for count in (1, 9)}
    fell_back |= {count: combined(name, SCALARS[:1] * count, **options)[1].fell_back for count in (needed - 1, needed)}
    assert fell_back == {1: True, needed - 1: True, needed: False, 9: False}


def test_rules_that_act_on_any_number_of_uploads_never_fall_back():
    for name, options in (("mean", {}), ("norm_clip", {"at": 1.0}), ("trimmed_mean", {"trim": 0.0})):
        assert rule(name, **options).needs(1) == 1
        assert not combined(name, [[1.0]], **options)[1].fell_back


def test_the_geometric_median_of_two_is_the_one_with_the_larger_weight_so_it_needs_three():
    assert combined("geometric_median", [[0.0], [9.0]], weights=[0.4, 0.6])[0].item() == pytest.approx(9, abs=1e-4)
    assert rule("geometric_median").needs(0) == 3


def test_of_equal_scores_krum_takes_the_client_with_the_lower_number():
    _, found = combined("krum", [[0.0], [1.0], [0.0], [1.0], [0.0], [1.0]], f=1)
    assert found.weight.argmax().item() == 0


def test_distances_of_far_updates_do_not_cancel():
    delta = torch.tensor([[1e4, 1.0], [1e4, 1.001]])
    assert squared_distances(delta)[0, 1].item() == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(("name", "options"), [("median", {}), ("trimmed_mean", {}), ("krum", {}), ("multi_krum", {})])
def test_an_update_that_is_not_finite_is_left_out(name, options):
    _, found = combined(name, [[0.1], [0.2], [0.3], [0.4], [0.5], [0.6], [inf]], num_malicious=1, **options)
    assert found.weight[-1] == 0 and (found.delta is None or found.delta.isfinite().all())


def test_without_finite_distances_the_geometric_median_falls_back_to_the_mean():
    assert combined("geometric_median", [[0.1], [0.2], [inf]])[1].fell_back
