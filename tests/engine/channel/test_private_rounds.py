"""Rounds of private clients in which nobody was drawn: the client that trains in their place does not count."""

import math

import pytest
import torch

from engine.config.schema import RunConfig
from engine.core.streams import numpy_stream
from engine.privacy.client_level import FIRST_CLIP
from engine.simulation.simulate import Simulation
from tests.support.builders import config, federation


def empty_round(method: str = "fedavg", compression=None, **privacy) -> tuple[Simulation, dict[str, float], dict]:
    """Runs a round in which none of the four clients is drawn; also returns its scalars and arrays."""
    raw = config(method, participation=0.01, rounds=1).to_dict() | {"privacy": {"delta": 0.01} | privacy}
    raw |= {"compression": compression} if compression else {}
    run = Simulation(RunConfig.from_dict(raw), data=federation((6, 6, 6, 6)))
    assert run.task.is_empty_draw(1) and len(run.task.participants(1)) == 1
    _, result = run.rounds()
    return run, result.scalars, result.arrays


def test_an_adaptive_norm_does_not_count_the_client_that_stands_in() -> None:
    run, scalars, arrays = empty_round(clip="adaptive", noise=0)
    assert run.channel_state.clip == FIRST_CLIP  # half of nobody is below it, as wanted
    assert scalars["diagnostics.privacy.clipped"] == 0
    assert not arrays["diagnostics.aggregator.weight"].any()
    assert run.channel_state.releases == 1


@pytest.mark.slow
def test_an_adaptive_norm_still_moves_by_the_noise_of_the_count() -> None:
    run, _, _ = empty_round(clip="adaptive", noise=1.0, count_noise=5)
    drawn = float(numpy_stream(run.config.seed, "privacy", 1, "count").standard_normal())
    assert math.isclose(run.channel_state.clip, FIRST_CLIP * math.exp(-0.2 * 5 * drawn / 0.04))


def test_the_model_moves_by_the_noise_alone() -> None:
    run, scalars, _ = empty_round(noise=1.0)
    before = run.task.initial_model()
    moved = torch.cat([(p - before[n]).flatten() for n, p in run.state.global_params.items()])
    noise = scalars["diagnostics.privacy.noise_norm"]
    assert math.isclose(float(torch.linalg.vector_norm(moved)), noise, rel_tol=1e-9)
    assert scalars["diagnostics.privacy.signal_norm"] == 0


def test_the_client_that_stands_in_keeps_what_a_compressor_would_leave_out() -> None:
    run, _, arrays = empty_round(compression={"name": "top_k", "share": 0.1}, noise=1.0)
    assert not arrays["diagnostics.residual_norm"].any() and len(run.channel_state.residual) == 1


def test_the_server_of_fedopt_steps_on_the_noise_alone() -> None:
    run, scalars, _ = empty_round("fedopt", noise=1.0)
    noise = scalars["diagnostics.privacy.noise_norm"]
    assert math.isclose(scalars["diagnostics.server_update_norm"], noise, rel_tol=1e-9)
    kept = torch.cat([m.flatten() for m in run.state.mean_update.values()])
    assert math.isclose(float(torch.linalg.vector_norm(kept)), 0.1 * noise, rel_tol=1e-9)
