"""The sentence that says where sharing does not help."""

import pandas as pd
import pytest

from app.compare.sharing import sharing


def runs(alone: float, ditto: float, seeds: int = 4, algorithm: str = "local_train") -> pd.DataFrame:
    """Two methods with these means; seeds differ a little, in the same way for both."""
    rows = [
        (name, of, seed, seed, mean + 0.01 * seed + wobble * (seed % 2))
        for name, of, mean, wobble in (("LocalTrain", algorithm, alone, 0.0), ("Ditto", "ditto", ditto, 0.002))
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["method", "algorithm", "split", "seed", "mean"])


@pytest.mark.parametrize(("alone", "ditto"), [(0.9, 0.8), (0.85, 0.849)])
def test_sharing_does_not_help_if_training_alone_leads_or_may_be_the_best(alone: float, ditto: float) -> None:
    assert sharing(runs(alone, ditto)).startswith("Sharing does not help here")


def test_a_noisy_method_does_not_hide_that_sharing_helps() -> None:
    noisy = pd.DataFrame({"method": "C", "algorithm": "cfl", "split": range(4), "mean": [0.5, 0.99, 0.6, 0.9]})
    both = runs(0.80, 0.82)
    assert sharing(both) == "" and sharing(pd.concat([both, noisy.assign(seed=noisy["split"])])) == ""


def test_there_is_no_sentence_if_sharing_helps_or_training_alone_was_not_tried() -> None:
    assert sharing(runs(0.8, 0.9)) == ""
    assert sharing(runs(0.9, 0.8, algorithm="fedavg")) == ""


def test_two_seeds_are_reported_as_observed() -> None:
    assert sharing(runs(0.9, 0.8, seeds=2)) == "No method beats LocalTrain, which shares nothing, in these runs."
    assert sharing(runs(0.8, 0.9, seeds=2)) == ""
