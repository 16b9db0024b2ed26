"""Methods are registered by name."""

from engine.core.registry import ALGORITHMS


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )
