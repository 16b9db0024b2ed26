"""CGPFL-Heur is CGPFL with the number of contexts that balances capacity and spread."""

import numpy as np

from tests.support.builders import SIZES, assert_equal, personalized, simulation, trained
from tests.support.settings import CGPFL, PFEDME


def test_cgpfl_heur_is_cgpfl_with_the_number_it_chose():
    for mu in (0.0, 1e6, "auto"):
        heur = trained(PFEDME | {"name": "cgpfl_heur", "mu": mu}, rounds=3)
        fixed = trained(CGPFL | {"K": heur.state.K_hat}, rounds=3)
        assert_equal(personalized(heur), personalized(fixed))
        assert heur.state.assigned.tolist() == fixed.state.assigned.tolist()


def test_cgpfl_heur_balances_capacity_and_spread():
    def chosen(mu: float) -> int:
        return trained(PFEDME | {"name": "cgpfl_heur", "mu": mu}, rounds=1).state.K_hat

    assert chosen(0.0) == 1
    assert chosen(1e6) == len(SIZES) // 2


def test_cgpfl_heur_records_both_terms_for_every_number_of_contexts():
    results = list(simulation(PFEDME | {"name": "cgpfl_heur", "mu": 3.0}).rounds())
    capacity, cost = results[1].arrays["diagnostics.capacity"], results[1].arrays["diagnostics.cost"]
    m, d = sum(SIZES), min(18, sum(SIZES))
    np.testing.assert_allclose(capacity, [np.sqrt(d * k / m * np.log(np.e * m / d)) for k in (1, 2)])
    assert cost[0] > cost[1] and results[1].scalars["diagnostics.d_eff"] == d
    assert results[1].scalars["diagnostics.K_hat"] == 1 + np.argmin(capacity + 3.0 * cost)
    assert "diagnostics.cost" not in results[2].arrays
