"""Methods are registered by name."""

import pytest

from engine.core.registry import ALGORITHMS
from tests.app.options import every_options_class


def test_the_first_eight_methods_are_registered():
    assert {"local_train", "fedavg", "fedprox", "fedprox_onestage", "pfedme", "cgpfl", "cgpfl_heur", "ditto"} <= set(
        ALGORITHMS.names()
    )


@pytest.mark.parametrize(("kind", "options"), every_options_class())
def test_advanced_options_exist(kind, options):
    assert set(options.advanced) <= set(options.model_fields)
    assert len(set(options.advanced)) == len(options.advanced)
    assert not any(options.model_fields[name].is_required() for name in options.advanced)
