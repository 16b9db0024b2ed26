"""Training options outside their range are refused."""

import pytest

from engine.core.errors import InvalidConfig
from tests.support.builders import config


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"clip_norm": 0}, "training.clip_norm"),
        ({"lr_schedule": "linear"}, "training.lr_schedule"),
        ({"lr_decay": 1.5}, "training.lr_decay"),
        ({"lr_decay_rounds": 0}, "training.lr_decay_rounds"),
        ({"augmentation": "noise"}, "training.augmentation"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_field(changed, field):
    with pytest.raises(InvalidConfig, match=field):
        config("fedavg", **changed)
