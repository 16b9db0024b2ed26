"""PLGU-GHN is pFedHN with a perturbed server step."""

import pytest
import torch

from tests.support.builders import assert_equal, trained
from tests.support.hypernetworks import NETWORK, SMALL


@pytest.mark.parametrize("settings", [{}, {"participation": 0.5, "momentum": 0.5}, {"local_epochs": 2}])
def test_plgu_ghn_without_radius_is_pfedhn(settings):
    plain = trained({"name": "pfedhn", **SMALL}, model=NETWORK, rounds=3, **settings).state
    flat = trained({"name": "plgu_ghn", "rho": 0, **SMALL}, model=NETWORK, rounds=3, **settings)
    assert_equal(flat.state.psi, plain.psi)
    assert torch.equal(flat.state.embeddings, plain.embeddings)
    assert any("pfedhn" in note for note in flat.task.notes)


def test_a_radius_changes_the_servers_step():
    plain = trained({"name": "pfedhn", **SMALL}, model=NETWORK).state
    flat = trained({"name": "plgu_ghn", "rho": 0.5, **SMALL}, model=NETWORK).state
    assert not torch.allclose(plain.psi["hidden.0.weight"], flat.psi["hidden.0.weight"])
