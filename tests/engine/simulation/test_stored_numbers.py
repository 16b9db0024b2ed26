"""With no dial set, every method gives the numbers that it gave before there were dials.

``stored_numbers.json`` has the squared norm of each client's personalized model after two rounds. Rounding differs
between processors, so values are compared closely, not bit by bit.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import supports, trained

STORED = Path(__file__).with_name("stored_numbers.json")


def squared_norms(name: str) -> list[float]:
    """Of the personalized models of all clients."""
    model = "mlr" if supports(name, "mlr") else {"name": "dnn", "hidden": 6}
    run = trained(name, model=model, participation=0.75)
    values = run.models().personalized
    return [float(sum(p.double().square().sum() for p in own.values())) for own in values]


@pytest.mark.parametrize("name", sorted(json.loads(STORED.read_text())))
def test_a_run_without_dials_gives_the_stored_numbers(name):
    np.testing.assert_allclose(squared_norms(name), json.loads(STORED.read_text())[name], rtol=1e-6)
