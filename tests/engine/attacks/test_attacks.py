"""What malicious clients send and train on."""

import numpy as np
import pytest
import torch

from engine.attacks import Exchange, poisoned
from engine.attacks.alie import covered
from engine.core.registry import ATTACKS


def exchange(rows, malicious) -> Exchange:
    delta = torch.tensor(rows, dtype=torch.float64)
    is_malicious = torch.tensor([i in malicious for i in range(len(rows))])
    return Exchange(delta, is_malicious, lambda row: torch.Generator().manual_seed(row))


def sent(name: str, given: Exchange, **options) -> torch.Tensor:
    entry = ATTACKS.get(name)
    return entry.make(entry.options(**options)).corrupt(given)


def test_a_flipped_update_points_backwards():
    given = exchange([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]], {1, 2})
    assert sent("sign_flip", given, scale=5).tolist() == [[-15.0, 20.0], [-25.0, -30.0]]
    assert torch.equal(sent("sign_flip", given, scale=-1), given.own)


def test_a_replacement_outweighs_the_cohort():
    given = exchange([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]], {1})
    assert sent("replace", given).tolist() == [[9.0, -12.0]]
    assert sent("replace", given, scale=2).tolist() == [[6.0, -8.0]]


def test_noise_has_the_size_of_the_clients_own_update():
    own = torch.linspace(-3, 5, 4001, dtype=torch.float64)
    given = exchange([own.tolist(), own.tolist()], {1})
    (noise,) = sent("gaussian", given, scale=2)
    assert noise.std().item() == pytest.approx(2 * own.std(unbiased=False).item(), rel=0.05)
    assert noise.mean().abs().item() < 0.3
    assert torch.equal(sent("gaussian", given, scale=2)[0], noise)
    assert sent("gaussian", given, scale=0).tolist() == [[0.0] * 4001]


@pytest.mark.parametrize(("n", "m", "z"), [(50, 12, 0.336038), (40, 8, 0.237202), (100, 20, 0.285841)])
def test_how_far_a_little_is(n, m, z):
    assert covered(n, m) == pytest.approx(z, abs=1e-6)


def test_a_malicious_majority_needs_one_supporter_and_two_honest_clients_have_one():
    assert covered(5, 4) == 0.0 and covered(6, 4) == 0.0


@pytest.mark.parametrize(
    ("uploads", "malicious", "z", "words"),
    [
        (10, 2, "max", "z is 0, so alie sends the benign mean; raise attack.share or set attack.z"),
        (10, 1, "max", "z is -0.14, so alie sends about the benign mean"),
        (20, 4, "max", None),
        (10, 2, 1.5, None),
        (1, 1, "max", None),
    ],
)
def test_a_little_that_is_nothing_says_so(uploads, malicious, z, words):
    entry = ATTACKS.get("alie")
    found = entry.make(entry.options(z=z)).weakness(uploads, malicious)
    assert found is None if words is None else found.startswith(words)


def test_all_malicious_clients_send_the_same_little():
    given = exchange([[1.0, 0.0], [3.0, 4.0], [9.0, 9.0], [9.0, 9.0]], {2, 3})
    assert sent("alie", given, z=1).tolist() == [pytest.approx([2 - 2**0.5, 2 - 8**0.5])] * 2
    alone = exchange([[1.0, 0.0], [9.0, 9.0]], {1})
    assert sent("alie", alone, z=1).tolist() == [[1.0, 0.0]]
    nobody = exchange([[1.0, 0.0], [9.0, 9.0]], {0, 1})
    assert torch.equal(sent("alie", nobody), nobody.own)


def test_wrong_labels():
    y, rng = np.array([0, 1, 2, 3]), np.random.default_rng(0)
    assert poisoned(y, "reverse", 4, rng).tolist() == [3, 2, 1, 0]
    assert poisoned(y, "next", 4, rng).tolist() == [1, 2, 3, 0]
    drawn = poisoned(np.zeros(4000, int), "random", 4, rng)
    assert np.bincount(drawn) == pytest.approx([1000] * 4, rel=0.1)


def test_only_attacks_on_labels_change_them():
    poison = {entry.name: entry.make(entry.options()).poison for entry in ATTACKS}
    assert {n for n, how in poison.items() if how} == {"labels", "replace"}
